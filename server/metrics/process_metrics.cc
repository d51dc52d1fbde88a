#include "server/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

namespace histogram::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Seconds since 1970 at which the machine booted.
std::optional<uint64_t> BootTime(const std::string& stat) {
  constexpr std::string_view kKey = "\nbtime ";
  const size_t at = stat.find(kKey);
  if (at == std::string::npos) return std::nullopt;
  uint64_t seconds = 0;
  const char* const begin = stat.data() + at + kKey.size();
  const auto [end, error] = std::from_chars(begin, stat.data() + stat.size(), seconds);
  if (error != std::errc()) return std::nullopt;
  return seconds;
}

std::optional<double> OpenFiles(const std::string& directory) {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  // One of them is the directory that is being read.
  return error ? std::nullopt : std::optional<double>(count - 1);
}

void Append(std::vector<MetricFamily>& families, std::string name, std::string help,
            MetricType type, std::optional<double> value) {
  if (!value) return;
  MetricFamily& family = families.emplace_back();
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = *value;
}

}  // namespace

std::optional<ProcessStat> ParseProcessStat(std::string_view text) {
  const size_t bracket = text.rfind(')');
  if (bracket == std::string_view::npos) return std::nullopt;
  std::istringstream rest{std::string(text.substr(bracket + 1))};
  std::string state;
  rest >> state;  // the third field of proc(5)
  ProcessStat stat;
  for (int field = 4; field <= 24; ++field) {
    int64_t value = 0;
    uint64_t large = 0;
    // Unsigned from the start time on; some before it may be negative.
    if (field < 22 ? !(rest >> value) : !(rest >> large)) return std::nullopt;
    if (field == 14) stat.user_ticks = static_cast<uint64_t>(value);
    if (field == 15) stat.system_ticks = static_cast<uint64_t>(value);
    if (field == 22) stat.start_ticks = large;
    if (field == 23) stat.virtual_bytes = large;
    if (field == 24) stat.resident_pages = large;
  }
  return stat;
}

std::vector<MetricFamily> ProcessMetrics::Collect() const {
  std::vector<MetricFamily> families;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (const auto stat = ParseProcessStat(ReadAll(proc_ + "/self/stat"))) {
    Append(families, "process_cpu_seconds_total",
           "Total user and system CPU time spent in seconds.", MetricType::Counter,
           static_cast<double>(stat->user_ticks + stat->system_ticks) / ticks);
    Append(families, "process_resident_memory_bytes", "Resident memory size in bytes.",
           MetricType::Gauge,
           static_cast<double>(stat->resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE)));
    Append(families, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
           MetricType::Gauge, static_cast<double>(stat->virtual_bytes));
    if (const auto boot = BootTime(ReadAll(proc_ + "/stat"))) {
      Append(families, "process_start_time_seconds",
             "Start time of the process since unix epoch in seconds.", MetricType::Gauge,
             static_cast<double>(*boot) + static_cast<double>(stat->start_ticks) / ticks);
    }
  }
  Append(families, "process_open_fds", "Number of open file descriptors.", MetricType::Gauge,
         OpenFiles(proc_ + "/self/fd"));
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    Append(families, "process_max_fds", "Maximum number of open file descriptors.",
           MetricType::Gauge, static_cast<double>(files.rlim_cur));
  }
  return families;
}

}  // namespace histogram::server
