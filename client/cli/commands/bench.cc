#include "client/cli/commands/bench.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/channel.h"
#include "client/cli/app.h"
#include "client/cli/connection.h"
#include "client/cli/render/export.h"
#include "client/cli/render/text.h"
#include "client/load/load_generator.h"

namespace histogram::cli {
namespace {

using client::LatencyRecorder;
using client::LoadResult;

const std::map<std::string, client::LoadApi>& Apis() {
  static const auto* const apis =
      new std::map<std::string, client::LoadApi>{{"compute", client::LoadApi::kCompute},
                                                 {"compute-many", client::LoadApi::kComputeMany},
                                                 {"accumulate", client::LoadApi::kAccumulate}};
  return *apis;
}

double Microseconds(uint64_t ns) { return static_cast<double>(ns) / 1e3; }

std::string Percentiles(const LatencyRecorder& latency) {
  const auto us = [&](double q) { return Microseconds(latency.QuantileNs(q)); };
  return absl::StrFormat("p50 %.0f  p90 %.0f  p99 %.0f  p99.9 %.0f  max %.0f us", us(0.5), us(0.9),
                         us(0.99), us(0.999), Microseconds(latency.max_ns()));
}

std::string RenderTable(const BenchOptions& options, uint64_t payload_bytes,
                        const LoadResult& result, const Terminal& terminal) {
  const double per_second = result.requests_per_second();
  const double bytes_per_second = per_second * static_cast<double>(payload_bytes);
  std::string text = Bold(terminal, absl::StrFormat("%.0f requests/s  %.3f GB/s", per_second,
                                                    bytes_per_second / 1e9)) +
                     "\n";
  absl::StrAppendFormat(&text, "%s of %s, %s, %u connections, %s, %.1f s\n", options.api,
                        FormatBytes(payload_bytes), options.distribution, options.connections,
                        options.rate > 0 ? absl::StrFormat("%g requests/s asked for", options.rate)
                                         : absl::StrFormat("%u in flight each", options.in_flight),
                        result.seconds);
  if (result.latency.count() > 0) {
    absl::StrAppend(&text, "latency  ", Percentiles(result.latency), "\n");
  }
  absl::StrAppendFormat(&text, "client   %.2f CPU seconds\n", result.client_cpu_seconds);
  if (result.errors > 0) {
    absl::StrAppendFormat(&text, "errors   %u, of which wrong answers %u\n", result.errors,
                          result.wrong);
    if (result.refusals.count() > 0) {
      absl::StrAppend(&text, "refused  ", Percentiles(result.refusals), "\n");
    }
    for (const auto& [message, count] : result.error_messages) {
      absl::StrAppendFormat(&text, "  %u x %s\n", count, SafeText(message));
    }
  } else {
    absl::StrAppend(&text,
                    options.no_verify ? "answers were not verified\n" : "every answer was right\n");
  }
  return text;
}

std::string RenderJson(const BenchOptions& options, uint64_t payload_bytes,
                       const LoadResult& result) {
  const LatencyRecorder& l = result.latency;
  const nlohmann::ordered_json json = {
      {"schema", "histogram-bench/v1"},
      {"api", options.api},
      {"payload_bytes", payload_bytes},
      {"distribution", options.distribution},
      {"connections", options.connections},
      {"in_flight", options.in_flight},
      {"rate", options.rate},
      {"seconds", result.seconds},
      {"requests", result.requests},
      {"errors", result.errors},
      {"wrong", result.wrong},
      {"verified", !options.no_verify},
      {"requests_per_second", result.requests_per_second()},
      {"gbps", result.requests_per_second() * static_cast<double>(payload_bytes) / 1e9},
      {"mean_us", l.mean_ns() / 1e3},
      {"p50_us", Microseconds(l.QuantileNs(0.5))},
      {"p90_us", Microseconds(l.QuantileNs(0.9))},
      {"p99_us", Microseconds(l.QuantileNs(0.99))},
      {"p999_us", Microseconds(l.QuantileNs(0.999))},
      {"max_us", Microseconds(l.max_ns())},
      {"client_cpu_seconds", result.client_cpu_seconds},
      {"refused", result.refusals.count()},
      {"refused_p99_us", Microseconds(result.refusals.QuantileNs(0.99))},
      {"error_messages", result.error_messages}};
  return json.dump(2) + "\n";
}

// A line that is drawn over once a second; nothing where nobody watches.
void ShowProgress(Environment& env, const client::LoadProgress& progress) {
  if (!env.err_terminal.interactive) return;
  const std::string line = absl::StrFormat(
      "%5.0f s  %u requests  %u errors  %s", progress.seconds, progress.requests, progress.errors,
      progress.latency.count() > 0 ? Percentiles(progress.latency) : std::string());
  env.err << "\r\x1b[K"
          << Truncate(line, static_cast<size_t>(env.err_terminal.columns) - 1,
                      env.err_terminal.utf8)
          << std::flush;
}

}  // namespace

void AddBench(CLI::App& app, BenchOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "bench", "Put load on the server: throughput, latency percentiles, every answer checked");
  std::vector<std::string> apis;
  for (const auto& [name, api] : Apis()) apis.push_back(name);
  command.add_option("--api", options.api, "compute, compute-many or accumulate (default compute)")
      ->check(CLI::IsMember(apis))
      ->type_name("API");
  command
      .add_option("--payload-bytes", options.payload,
                  "Size of a payload or chunk, 4096 or 64KiB (default 64KiB)")
      ->type_name("BYTES");
  command
      .add_option("--distribution", options.distribution,
                  absl::StrCat("Of the bytes: ", absl::StrJoin(client::LoadDistributions(), ", "),
                               " (default uniform)"))
      ->check(CLI::IsMember(client::LoadDistributions()))
      ->type_name("NAME");
  command.add_option("--connections", options.connections, "Connections (default 1)")
      ->check(CLI::Range(1U, 1024U))
      ->type_name("N");
  command
      .add_option("--in-flight", options.in_flight,
                  "Unanswered requests of each connection (default 8)")
      ->check(CLI::Range(1U, 65536U))
      ->type_name("N");
  command
      .add_option("--rate", options.rate,
                  "Begin so many requests a second, answered or not (compute only); latencies "
                  "count from when a request was due (default: as fast as answers come)")
      ->check(CLI::PositiveNumber)
      ->type_name("PER_SECOND");
  command.add_option("--duration", options.duration_s, "Seconds that are measured (default 10)")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  command.add_option("--warm-up", options.warm_up_s, "Seconds before that (default 1)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("SECONDS");
  command.add_flag("--no-verify", options.no_verify, "Do not compare the counts of each answer");
  AddOutputOptions(command, options.output, {"table", "json"});
}

int RunBench(const BenchOptions& options, const ServerOptions& server, Environment& env) {
  const absl::StatusOr<uint64_t> payload_bytes = ParseByteSize(options.payload);
  if (!payload_bytes.ok()) {
    return UsageError(
        env, absl::StrCat("--payload-bytes: ", SafeText(payload_bytes.status().message())));
  }
  const absl::StatusOr<client::ConnectOptions> connect = ReadConnectOptions(server);
  if (!connect.ok()) return Fail(env, std::string(connect.status().message()));
  if (absl::Status s = client::CheckOptions(server.server, *connect); !s.ok()) {
    return Fail(env, std::string(s.message()));
  }
  client::LoadOptions load;
  load.server = server.server;
  load.credentials = client::MakeCredentials(*connect);
  load.bearer_token = connect->bearer_token;
  load.api = Apis().at(options.api);
  load.connections = options.connections;
  load.in_flight = options.in_flight;
  load.rate_per_second = options.rate;
  load.duration_s = options.duration_s;
  load.warm_up_s = options.warm_up_s;
  load.payload_bytes = *payload_bytes;
  load.distribution = options.distribution;
  load.verify = !options.no_verify;
  load.on_progress = [&](const client::LoadProgress& progress) { ShowProgress(env, progress); };
  const absl::StatusOr<LoadResult> result = client::RunLoad(load);
  if (env.err_terminal.interactive) env.err << "\r\x1b[K" << std::flush;
  if (absl::IsInvalidArgument(result.status())) {
    return UsageError(env, std::string(result.status().message()));
  }
  if (!result.ok()) return Fail(env, Explain(result.status(), server));
  const int code = Emit(
      env, options.output.output,
      options.output.format == "json"
          ? RenderJson(options, *payload_bytes, *result)
          : RenderTable(options, *payload_bytes, *result, OutputTerminal(env, options.output)));
  if (code != kSuccess) return code;
  if (result->wrong > 0) {
    return Fail(env, absl::StrCat(result->wrong, " answers were wrong: the server is broken"));
  }
  return kSuccess;
}

}  // namespace histogram::cli
