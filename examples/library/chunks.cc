// Sixteen even bins and statistics of a file of any size: the values are counted once, chunk by
// chunk, and everything else is computed from them.
#include <histogram/histogram.h>

#include <cstdio>
#include <fstream>
#include <span>
#include <vector>

int main(int argc, char** argv) {
  std::ifstream file(argc > 1 ? argv[1] : "/dev/stdin", std::ios::binary);
  histogram::ValueCounts values{};
  std::vector<char> chunk(1 << 20);
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    const std::span read(chunk.data(), static_cast<size_t>(file.gcount()));
    histogram::AddValues(std::as_bytes(read), values);
  }

  const auto sixteen = histogram::Binning::Even(16);
  const histogram::Histogram result = histogram::Fold(values, *sixteen);
  for (size_t i = 0; i < result.counts.size(); ++i) {
    std::printf("%zu %llu\n", i, static_cast<unsigned long long>(result.counts[i]));
  }
  const auto statistics = histogram::ComputeStatistics(values, *sixteen, {0.25, 0.75});
  if (!statistics.mean.has_value()) return 0;  // an empty file
  std::printf("mean %g, median %g, quartiles %g and %g, entropy of the bins %g bits\n",
              *statistics.mean, *statistics.median, statistics.quantiles[0],
              statistics.quantiles[1], *statistics.entropy_bits);
}
