#include "kernels/payload.h"

#include <histogram/usable_cores.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/registry.h"
#include "kernels/float_mode.h"
#include "kernels/parallel.h"
#include "kernels/plan_data.h"

namespace histogram {
namespace {

// Fewer do not repay a thread, whose start takes about 30 us. Not measured apart.
constexpr size_t kThreadBytesMin = size_t{512} << 10;

// Cuts fragments into those of whole samples. The samples that lie in several fragments are copied
// to one of their own.
class WholeSamples {
 public:
  WholeSamples(size_t sample_bytes, std::span<const Fragment> fragments) {
    whole_.reserve(fragments.size() + 1);
    for (const Fragment& fragment : fragments) {
      const size_t missing = (sample_bytes - cut_.size() % sample_bytes) % sample_bytes;
      const size_t begin = std::min(missing, fragment.size());
      const size_t whole = (fragment.size() - begin) / sample_bytes * sample_bytes;
      if (whole > 0) whole_.push_back(fragment.subspan(begin, whole));
      cut_.insert(cut_.end(), fragment.begin(), fragment.begin() + begin);
      cut_.insert(cut_.end(), fragment.begin() + begin + whole, fragment.end());
    }
    assert(cut_.size() % sample_bytes == 0);
    if (!cut_.empty()) whole_.emplace_back(cut_);
  }

  std::span<const Fragment> get() const { return whole_; }

 private:
  std::vector<Fragment> whole_;
  std::vector<uint8_t> cut_;
};

}  // namespace

void CountPayload(const Plan& plan, std::span<const Fragment> fragments,
                  std::span<uint64_t> counters) {
  std::fill(counters.begin(), counters.end(), 0);
  AddPayload(plan, fragments, counters);
}

void AddPayload(const Plan& plan, std::span<const Fragment> fragments,
                std::span<uint64_t> counters) {
  assert(counters.size() == plan.counter_count());
  const uint64_t bytes = BytesOf(fragments);
  const cpu::CpuKernel& kernel = cpu::DefaultKernel(plan.data(), bytes);
  const size_t bytes_max = cpu::kSamplesMax * SampleBytes(plan.type());
  if (plan.counts_values() && bytes <= bytes_max) {
    return kernel.count(plan.data(), fragments, counters.data());
  }
  const internal::FloatMode mode;
  const WholeSamples whole(SampleBytes(plan.type()), fragments);
  if (bytes <= bytes_max) return kernel.count(plan.data(), whole.get(), counters.data());
  for (const Fragment& fragment : whole.get()) {
    for (size_t at = 0; at < fragment.size(); at += bytes_max) {
      const Fragment part = fragment.subspan(at, std::min(bytes_max, fragment.size() - at));
      kernel.count(plan.data(), {&part, 1}, counters.data());
    }
  }
}

void AddPayload(const Plan& plan, std::span<const std::byte> samples, uint32_t threads,
                std::span<uint64_t> counters) {
  const size_t size = SampleBytes(plan.type());
  // Each thread also clears and sums its counters.
  const size_t least = std::max(kThreadBytesMin, counters.size() * 4 * size);
  // To ask how many cores there are takes longer than to count a few samples.
  if (threads == 0) threads = samples.size() < 2 * least ? 1 : UsableCores();
  const size_t parts = std::clamp<size_t>(samples.size() / least, 1, threads);
  const Fragment all = FragmentOf(samples);
  if (parts == 1) return AddPayload(plan, {&all, 1}, counters);
  const size_t part_bytes = samples.size() / size / parts * size;
  std::vector<std::vector<uint64_t>> rows(parts - 1);
  internal::InParallel(parts, [&](size_t p) {
    const Fragment rest = all.subspan(part_bytes * p);
    const Fragment its = p + 1 == parts ? rest : rest.first(part_bytes);
    if (p == 0) return AddPayload(plan, {&its, 1}, counters);
    rows[p - 1].resize(counters.size());
    AddPayload(plan, {&its, 1}, rows[p - 1]);
  });
  for (const std::vector<uint64_t>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) counters[i] += row[i];
  }
}

void See(std::span<const Fragment> fragments, Tally& tally) {
  const WholeSamples whole(SampleBytes(tally.plan().type()), fragments);
  for (const Fragment& fragment : whole.get()) tally.See(std::as_bytes(fragment));
}

std::span<const std::byte> InOnePiece(std::span<const Fragment> fragments, std::string& storage) {
  if (fragments.size() == 1) return std::as_bytes(fragments.front());
  for (const Fragment& fragment : fragments) {
    storage.append(reinterpret_cast<const char*>(fragment.data()), fragment.size());
  }
  return std::as_bytes(std::span(storage.data(), storage.size()));
}

Statistics StatisticsOfPayload(const Plan& plan, std::span<const Fragment> fragments,
                               std::span<const uint64_t> counters, const Histogram& histogram,
                               bool order, std::span<const double> quantiles) {
  if (plan.counts_values()) {
    return ComputeStatistics(counters.first<kByteValues>(), plan.binning(), quantiles);
  }
  if (order && SampleBytes(plan.type()) > 2) {
    std::string storage;
    return ComputeStatistics(InOnePiece(fragments, storage), plan, histogram, quantiles);
  }
  Tally tally(plan, /*statistics=*/true);
  See(fragments, tally);
  return tally.FinishStatistics(histogram, quantiles);
}

}  // namespace histogram
