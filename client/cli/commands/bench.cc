#include <algorithm>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/arguments.h"
#include "client/cli/commands/commands.h"
#include "client/cli/connection.h"
#include "client/cli/render/text.h"
#include "client/load/load_generator.h"

namespace histogram::cli {
namespace {

using client::LatencyRecorder;
using client::LoadResult;

constexpr char kBenchFooter[] = R"(Examples:
  histogram-client bench                             64 KiB, eight in flight
  histogram-client bench --payload-bytes 1MiB --connections 4 --duration 30
  histogram-client bench --api compute-many --payload-bytes 4KiB --in-flight 64
  histogram-client bench --float-bins 2048 --payload-bytes 1MiB
  histogram-client bench --rate 1000 --format json   latencies at a given load
  histogram-client bench --server host:50051 --tls --tls-ca ca.pem

Ctrl-C prints what was measured until then, and exits with 130. Without one
successful request, with a wrong answer, or if the server goes away, the exit
code is 1.)";

double Microseconds(uint64_t ns) { return static_cast<double>(ns) / 1e3; }

std::string Percentiles(const LatencyRecorder& latency) {
  std::string text;
  for (const auto& [name, quantile] :
       {std::pair("p50", 0.5), {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}}) {
    absl::StrAppend(&text, name, " ", FormatNanoseconds(latency.QuantileNs(quantile)), "  ");
  }
  return absl::StrCat(text, "max ", FormatNanoseconds(latency.max_ns()));
}

std::string RenderErrors(const LoadResult& result) {
  std::string text = absl::StrCat("errors   ", FormatCount(result.errors));
  if (result.wrong > 0) absl::StrAppend(&text, ", ", FormatCount(result.wrong), " wrong answers");
  text += "\n";
  if (result.refusals.count() > 0) {
    absl::StrAppend(&text, "refused  ", Percentiles(result.refusals), "\n");
  }
  uint64_t others = result.errors;
  for (const auto& [message, count] : result.error_messages) {
    absl::StrAppend(&text, "  ", FormatCount(count), " x ", SafeText(message), "\n");
    others -= std::min(others, count);
  }
  if (others > 0) absl::StrAppend(&text, "  ", FormatCount(others), " x other messages\n");
  return text;
}

std::string DistributionOf(const BenchOptions& options) {
  return options.load.float_bins > 0 ? "normal" : "uniform";
}

std::string FormatRate(double per_second) {
  return per_second < 10 ? absl::StrFormat("%.3g", per_second)
                         : FormatCount(static_cast<uint64_t>(std::round(per_second)));
}

double GigabytesPerSecond(const BenchOptions& options, const LoadResult& result) {
  return result.requests_per_second() * static_cast<double>(options.load.payload_bytes) / 1e9;
}

std::string RenderText(const BenchOptions& options, const LoadResult& result, size_t columns) {
  const double per_second = result.requests_per_second();
  std::string text = absl::StrFormat("%s requests/s  %.3f GB/s\n", FormatRate(per_second),
                                     GigabytesPerSecond(options, result));
  const std::string load =
      options.load.rate_per_second > 0
          ? absl::StrFormat("%g requests/s asked for", options.load.rate_per_second)
          : absl::StrCat(options.load.in_flight, " in flight",
                         options.load.connections == 1 ? "" : " on each");
  absl::StrAppend(&text, options.api, " of ", FormatBytes(options.load.payload_bytes), ", ",
                  DistributionOf(options), ", ", options.load.connections,
                  options.load.connections == 1 ? " connection, " : " connections, ", load,
                  absl::StrFormat(", %.1f s\n", result.seconds));
  if (result.latency.count() > 0) {
    absl::StrAppend(&text, "latency  ", Percentiles(result.latency), "\n");
  }
  absl::StrAppendFormat(&text, "client   %.2f CPU seconds\n", result.client_cpu_seconds);
  if (static_cast<double>(result.begun) + 1 <
      0.95 * options.load.rate_per_second * result.seconds) {
    absl::StrAppendFormat(&text,
                          "this client could begin %s requests/s of the %g asked for: its limit, "
                          "and not the server's\n",
                          FormatRate(static_cast<double>(result.begun) / result.seconds),
                          options.load.rate_per_second);
  }
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (std::string& line : lines) line = Hanging(line, 0, columns);
  text = absl::StrJoin(lines, "\n");
  if (result.errors > 0) {
    text += RenderErrors(result);
  } else if (!options.load.verify) {
    text += "answers were not verified\n";
  } else if (result.requests > 0) {
    text += "every answer was right\n";
  }
  return text;
}

std::string RenderJson(const BenchOptions& options, const LoadResult& result) {
  const LatencyRecorder& l = result.latency;
  const nlohmann::ordered_json json = {
      {"schema", "histogram-bench/v1"},
      {"api", options.api},
      {"payload_bytes", options.load.payload_bytes},
      {"distribution", DistributionOf(options)},
      {"float_bins", options.load.float_bins},
      {"new_ranges", options.load.new_ranges},
      {"connections", options.load.connections},
      {"in_flight", options.load.in_flight},
      {"rate", options.load.rate_per_second},
      {"seconds", result.seconds},
      {"requests", result.requests},
      {"begun", result.begun},
      {"errors", result.errors},
      {"wrong", result.wrong},
      {"verified", options.load.verify},
      {"interrupted", result.stopped},
      {"requests_per_second", result.requests_per_second()},
      {"gbps", GigabytesPerSecond(options, result)},
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

volatile std::sig_atomic_t interrupted = 0;

// Whether the server takes such payloads. A server that cannot describe itself is not asked.
absl::Status AskForLimit(uint64_t payload_bytes, const ServerOptions& server) {
  const auto client = Connect(server);
  if (!client.ok()) return absl::UnavailableError(Explain(client.status(), server));
  const auto description = (*client)->Describe({});
  if (!description.ok()) {
    const absl::Status& status = description.status();
    const bool nobody = absl::IsUnavailable(status) || absl::IsUnauthenticated(status) ||
                        absl::IsPermissionDenied(status);
    return nobody ? absl::UnavailableError(Explain(status, server)) : absl::OkStatus();
  }
  const uint64_t limit = description->limits().payload_bytes_max();
  if (limit == 0 || payload_bytes <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--payload-bytes: ", FormatBytes(payload_bytes), " is more than the limit of the server at ",
      server.server, ", ", FormatBytes(limit), " (", FormatCount(limit), " bytes)"));
}

// What is wrong with the outcome; empty: nothing.
std::string Complaint(const client::LoadOptions& load, const LoadResult& result) {
  if (result.wrong > 0) {
    return absl::StrCat(FormatCount(result.wrong), " answers were wrong: the server is broken");
  }
  const auto most =
      std::max_element(result.error_messages.begin(), result.error_messages.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string why = most == result.error_messages.end() ? "" : ": " + most->first;
  // A chunk of Accumulate counts when it is sent, but for nothing where its stream fails.
  const bool streams_failed =
      load.api == client::LoadApi::kAccumulate && result.errors >= load.connections;
  if (result.requests > 0 && result.unavailable > 0) {
    return absl::StrCat("the server was not available to ", FormatCount(result.unavailable),
                        result.unavailable == 1 ? " request" : " requests", why);
  }
  if (result.requests > 0 && !streams_failed) return "";
  if (result.errors == 0) {
    return absl::StrFormat("no request was answered within %.3g s; allow more with --duration",
                           result.seconds);
  }
  return "no request succeeded" + why;
}

}  // namespace

void AddBench(CLI::App& app, BenchOptions& options) {
  CLI::App& command =
      *app.add_subcommand("bench", "Load a server: measure its throughput and latency")
           ->footer(kBenchFooter);
  AddChoice(command, "--api", options.api, {"accumulate", "compute", "compute-many"},
            "The call to make (default compute)");
  AddValue(command, "--payload-bytes", options.load.payload_bytes, "BYTES",
           "Size of a payload or chunk: 4096, 64KiB, 1MiB (default 64KiB)")
      ->transform(ByteSize());
  CLI::Option* const float_bins = AddValue(command, "--float-bins", options.load.float_bins, "N",
                                           "Samples of f32, normally distributed, into N even bins "
                                           "over -4..4; else bytes, a bin for each value")
                                      ->transform(WholeNumber(1, 65536));
  command
      .add_flag("--new-ranges", options.load.new_ranges,
                "Another range, tiny bits apart, for each request")
      ->needs(float_bins);
  AddValue(command, "--connections", options.load.connections, "N",
           "Connections, 1 to 1024 (default 1)")
      ->transform(WholeNumber(1, 1024));
  AddValue(command, "--in-flight", options.load.in_flight, "N",
           "Unanswered requests of each connection (default 8)")
      ->transform(WholeNumber(1, 65536));
  AddValue(command, "--rate", options.load.rate_per_second, "PER_SECOND",
           "Begin this many requests a second, even if earlier ones are not "
           "answered (--api compute only); a latency counts from when its request "
           "was due (default: as fast as answers come)")
      ->transform(Number(/*zero_too=*/false));
  AddValue(command, "--duration", options.load.duration_s, "SECONDS",
           "Seconds to measure (default 10)")
      ->transform(Number(/*zero_too=*/false));
  AddValue(command, "--warm-up", options.load.warm_up_s, "SECONDS",
           "Seconds of load before that (default 1)")
      ->transform(Number(/*zero_too=*/true));
  command.add_flag_callback(
      "--no-verify", [&options] { options.load.verify = false; },
      "Do not compare the counts of each answer");
  AddOutputOptions(command, options.output, {"table", "json"});
}

int RunBench(const BenchOptions& options, const ServerOptions& server, Environment& env) {
  // The load generator's threads each wait for the connections of their own queue. gRPC reads this
  // when it starts.
  setenv("GRPC_POLL_STRATEGY", "poll,epoll1", 0);
  if (absl::Status s = AskForLimit(options.load.payload_bytes, server); !s.ok()) {
    return Fail(env, s.message());
  }
  const absl::StatusOr<client::ConnectOptions> connect = ReadConnectOptions(server);
  if (!connect.ok()) return Fail(env, connect.status().message());
  client::LoadOptions load = options.load;
  load.server = server.server;
  load.connect = *connect;
  load.api = options.api == "compute"        ? client::LoadApi::kCompute
             : options.api == "compute-many" ? client::LoadApi::kComputeMany
                                             : client::LoadApi::kAccumulate;
  // The first Ctrl-C only sets a flag, and a second one ends the process as ever.
  interrupted = 0;
  std::signal(SIGINT, [](int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);
  });
  const absl::Cleanup as_ever = [] { std::signal(SIGINT, SIG_DFL); };
  load.stop = [] { return interrupted != 0; };
  const absl::StatusOr<LoadResult> result = client::RunLoad(load);
  if (absl::IsInvalidArgument(result.status())) {
    return UsageError(env, result.status().message());
  }
  if (!result.ok()) return Fail(env, Explain(result.status(), server));
  if (result->stopped && result->seconds == 0) {
    Note(env, "interrupted while warming up: nothing was measured");
    return kInterrupted;
  }
  const int code = Emit(env, options.output.output,
                        options.output.format == "json"
                            ? RenderJson(options, *result)
                            : RenderText(options, *result, OutputColumns(env, options.output)));
  if (code != kSuccess) return code;
  if (result->stopped) {
    Note(env, absl::StrFormat("interrupted after %.1f of %g s", result->seconds,
                              options.load.duration_s));
    return kInterrupted;
  }
  const std::string complaint = Complaint(load, *result);
  return complaint.empty() ? kSuccess : Fail(env, complaint);
}

}  // namespace histogram::cli
