#include "python/src/count_rows.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/parallel.h"
#include "kernels/payload.h"

namespace histogram::python {
namespace {

// Of interleaved channels so many bytes are taken apart at once: they stay in a core's cache.
constexpr size_t kPieceBytes = size_t{256} << 10;

void Check(uint64_t sum, size_t samples) {
  if (sum == samples) return;
  throw std::runtime_error("counts add up to " + std::to_string(sum) + ", not to the " +
                           std::to_string(samples) + " samples: a defect of this library");
}

void Clear(Histogram& histogram) {
  std::fill(histogram.counts.begin(), histogram.counts.end(), 0);
  histogram.below = histogram.above = histogram.nan = histogram.samples = 0;
}

void Put(const Histogram& histogram, uint64_t row, const RowSink& sink) {
  const size_t bins = histogram.counts.size();
  std::copy(histogram.counts.begin(), histogram.counts.end(), sink.counts.begin() + row * bins);
  int64_t* const outside = sink.outside.data() + row * 3;
  outside[0] = static_cast<int64_t>(histogram.below);
  outside[1] = static_cast<int64_t>(histogram.above);
  outside[2] = static_cast<int64_t>(histogram.nan);
}

// Adds interleaved samples to the histograms of their channels.
void AddChannels(std::span<const std::byte> stretch, const Plan& plan,
                 std::span<Histogram> channels) {
  const size_t sample_bytes = SampleBytes(plan.type());
  const RowCut cut{.channels = static_cast<uint32_t>(channels.size())};
  const size_t pixel_bytes = sample_bytes * channels.size();
  const size_t step = std::max<size_t>(1, kPieceBytes / pixel_bytes) * pixel_bytes;
  for (size_t at = 0; at < stretch.size(); at += step) {
    ForEachRow(cut, stretch.subspan(at, std::min(step, stretch.size() - at)), sample_bytes,
               [&](uint64_t channel, std::span<const std::byte> samples) {
                 AddSamples(samples, plan, channels[channel]);
               });
  }
}

// The same on several threads, each of which takes a part of the pixels.
void AddChannels(std::span<const std::byte> stretch, const Plan& plan, uint32_t threads,
                 std::span<Histogram> channels) {
  const size_t pixel_bytes = SampleBytes(plan.type()) * channels.size();
  const size_t pixels = stretch.size() / pixel_bytes;
  const size_t parts = std::clamp<size_t>(stretch.size() / kThreadBytesMin, 1, threads);
  if (parts == 1) return AddChannels(stretch, plan, channels);
  std::vector<std::vector<Histogram>> sums(parts);
  internal::InParallel(parts, [&](size_t part) {
    sums[part].assign(channels.size(), EmptyHistogram(plan));
    const size_t begin = pixels * part / parts, end = pixels * (part + 1) / parts;
    AddChannels(stretch.subspan(begin * pixel_bytes, (end - begin) * pixel_bytes), plan,
                sums[part]);
  });
  for (const std::vector<Histogram>& sum : sums) {
    for (size_t c = 0; c < channels.size(); ++c) Merge(sum[c], channels[c]);
  }
}

// The rows of `stretches`, of which the first is number `first`.
void CountSome(std::span<const std::byte> samples, const Plan& plan, const RowCut& cut,
               uint64_t first, uint32_t threads, const RowSink& sink) {
  const size_t pixel_bytes = SampleBytes(plan.type()) * cut.channels;
  std::vector<Histogram> channels(cut.channels, EmptyHistogram(plan));
  RowCut stretches = cut;
  stretches.channels = 1;
  ForEachRow(stretches, samples, pixel_bytes, [&](uint64_t s, std::span<const std::byte> stretch) {
    for (Histogram& histogram : channels) Clear(histogram);
    if (cut.channels == 1) {
      AddSamples(stretch, plan, threads, channels[0]);
    } else {
      AddChannels(stretch, plan, threads, channels);
    }
    for (uint32_t c = 0; c < cut.channels; ++c) {
      CheckSum(channels[c], stretch.size() / pixel_bytes);
      Put(channels[c], (first + s) * cut.channels + c, sink);
    }
  });
}

}  // namespace

void CheckSum(const Histogram& histogram, size_t samples) {
  const uint64_t outside = histogram.below + histogram.above + histogram.nan;
  Check(std::accumulate(histogram.counts.begin(), histogram.counts.end(), outside), samples);
}

void CountSlots(std::span<const std::byte> samples, const Plan& plan, uint32_t threads,
                std::span<uint64_t> row) {
  std::fill(row.begin(), row.end(), 0);
  AddPayload(plan, samples, threads, row);
  Check(std::accumulate(row.begin(), row.end(), uint64_t{0}),
        samples.size() / SampleBytes(plan.type()));
}

void CountStretches(std::span<const std::byte> samples, const Plan& plan, const RowCut& cut,
                    uint64_t stretches, uint32_t threads, const RowSink& sink) {
  // Where there is no stretch more than threads, each is counted by all of them.
  if (stretches <= threads) return CountSome(samples, plan, cut, 0, threads, sink);
  const size_t pixel_bytes = SampleBytes(plan.type()) * cut.channels;
  const uint64_t step = (cut.step == 0 ? cut.window : cut.step) * pixel_bytes;
  const uint64_t window =
      std::min<uint64_t>(cut.window, samples.size() / pixel_bytes) * pixel_bytes;
  const size_t parts = std::clamp<size_t>(samples.size() / kThreadBytesMin, 1, threads);
  internal::InParallel(parts, [&](size_t part) {
    const uint64_t first = stretches * part / parts, last = stretches * (part + 1) / parts;
    const uint64_t begin = first * step;
    const uint64_t end = std::min<uint64_t>(samples.size(), (last - 1) * step + window);
    CountSome(samples.subspan(begin, end - begin), plan, cut, first, 1, sink);
  });
}

}  // namespace histogram::python
