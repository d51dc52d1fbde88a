// What recording costs: the calls that a request makes on the metrics, over one and more threads.
//
//   build/release/bin/bench_metrics --benchmark_filter=Request
//
// A request may spend at most 1 % of its CPU time here.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "server/metrics/server_metrics.h"

namespace histogram::server {
namespace {

MetricsOptions Options() {
  MetricsOptions options;
  options.state = [] { return ServerState(); };
  for (const char* name : {"cuda:0", "cuda:1", "cuda:2", "cuda:3", "cpu"}) {
    auto& [info, kernels] = options.backends.emplace_back();
    info.name = name;
    for (int k = 0; k < 20; ++k) kernels.emplace_back().name = "kernel_number_" + std::to_string(k);
  }
  return options;
}

ServerMetrics& Metrics() {
  static ServerMetrics* const metrics = new ServerMetrics(Options());
  return *metrics;
}

BatchReport Report() {
  BatchReport report;
  report.backend = "cpu";              // the last one: the slowest to find
  report.kernel = "kernel_number_19";  // so is this
  report.payloads = 1;
  report.kernel_ns = 4321;
  return report;
}

void MeasureRequestFinished(benchmark::State& state) {
  ServerMetrics& metrics = Metrics();
  uint64_t duration_ns = 100000;
  for (auto _ : state) {
    metrics.RequestFinished({Method::kCompute, absl::OkStatus(), 4096, duration_ns});
    duration_ns += 7;
  }
}
BENCHMARK(MeasureRequestFinished)->ThreadRange(1, 16)->UseRealTime();

void MeasureStageFinished(benchmark::State& state) {
  ServerMetrics& metrics = Metrics();
  for (auto _ : state) metrics.StageFinished(Stage::kQueue, "cpu", 1234);
}
BENCHMARK(MeasureStageFinished)->ThreadRange(1, 16)->UseRealTime();

void MeasureBatchFinished(benchmark::State& state) {
  ServerMetrics& metrics = Metrics();
  const BatchReport report = Report();
  for (auto _ : state) metrics.BatchFinished(report, 4096, ClosedBy::kInline);
}
BENCHMARK(MeasureBatchFinished)->ThreadRange(1, 16)->UseRealTime();

// All that a lone small request causes: its batch, its three own stages, and itself.
void MeasureLoneRequest(benchmark::State& state) {
  ServerMetrics& metrics = Metrics();
  const BatchReport report = Report();
  for (auto _ : state) {
    metrics.BatchFinished(report, 4096, ClosedBy::kInline);
    for (const Stage stage : {Stage::kQueue, Stage::kFold, Stage::kReply}) {
      metrics.StageFinished(stage, report.backend, 1234);
    }
    metrics.RequestFinished({Method::kCompute, absl::OkStatus(), 4096, 100000});
  }
}
BENCHMARK(MeasureLoneRequest)->ThreadRange(1, 16)->UseRealTime();

// What one scrape costs, off the hot path.
void MeasureScrape(benchmark::State& state) {
  const ServerMetrics metrics(Options());
  size_t bytes = 0;
  for (auto _ : state) bytes = metrics.Text().size();
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(MeasureScrape)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace histogram::server

BENCHMARK_MAIN();
