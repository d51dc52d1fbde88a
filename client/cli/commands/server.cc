#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/http_health.h"
#include "client/cli/render/export.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// Columns as wide as they need to be; the first row is the heading.
std::string Columns(const Rows& rows, const Terminal& terminal) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const bool last = i + 1 == rows[r].size();
      absl::StrAppend(&line, "  ", last ? rows[r][i] : PadRight(rows[r][i], widths[i]));
    }
    text += (r == 0 ? Dim(terminal, line) : line) + "\n";
  }
  return text;
}

std::string BytesOrDash(uint64_t bytes) { return bytes == 0 ? "-" : FormatBytes(bytes); }

std::string UpTo(uint64_t limit, const std::string& text) { return limit == 0 ? "any" : text; }

std::string RenderDescription(const v1::DescribeResponse& description, const Terminal& terminal) {
  std::string text = Bold(terminal, "histogram-server " + SafeText(description.version())) + "\n";
  if (description.features_size() > 0) {
    absl::StrAppend(&text, "features: ", SafeText(absl::StrJoin(description.features(), ", ")),
                    "\n");
  }
  Rows backends = {{"backend", "state", "lanes", "lane", "pinned", "on device", "device"}};
  for (const auto& backend : description.backends()) {
    backends.push_back({SafeText(backend.name()), backend.up() ? "up" : "down",
                        absl::StrCat(backend.lanes()), BytesOrDash(backend.lane_bytes()),
                        BytesOrDash(backend.pinned_bytes()), BytesOrDash(backend.device_bytes()),
                        SafeText(absl::StrCat(backend.device(), backend.uuid().empty() ? "" : " ",
                                              backend.uuid()))});
  }
  absl::StrAppend(&text, "\n", Columns(backends, terminal));
  if (description.placements_size() > 0) {
    Rows placements = {{"lone payloads from", "go to, for " + SafeText(description.objective())}};
    for (const auto& placement : description.placements()) {
      placements.push_back(
          {FormatBytes(placement.payload_bytes_min()), SafeText(placement.backend())});
    }
    absl::StrAppend(&text, "\n", Columns(placements, terminal));
  }
  Rows kernels = {{"kernel", "backend", "bins up to", "what it does"}};
  for (const auto& kernel : description.kernels()) {
    kernels.push_back({SafeText(kernel.name()), SafeText(kernel.backend()),
                       UpTo(kernel.bin_count_max(), FormatCount(kernel.bin_count_max())),
                       SafeText(kernel.summary())});
  }
  absl::StrAppend(&text, "\n", Columns(kernels, terminal));
  if (description.choices_size() > 0) {
    Rows choices = {
        {"chosen for", "bins up to", "bytes up to", "payloads up to", "kernel", "speed"}};
    for (const auto& choice : description.choices()) {
      choices.push_back({SafeText(choice.backend()),
                         UpTo(choice.bin_count_max(), FormatCount(choice.bin_count_max())),
                         UpTo(choice.payload_bytes_max(), FormatBytes(choice.payload_bytes_max())),
                         UpTo(choice.payloads_max(), FormatCount(choice.payloads_max())),
                         SafeText(choice.kernel()),
                         choice.gigabytes_per_second() > 0
                             ? absl::StrFormat("%.3g GB/s", choice.gigabytes_per_second())
                             : "not measured"});
    }
    absl::StrAppend(&text, "\n", Columns(choices, terminal));
  }
  const auto& limits = description.limits();
  const Rows rows = {
      {"limit", "value"},
      {"payload", FormatBytes(limits.payload_bytes_max())},
      {"bins", FormatCount(limits.bin_count_max())},
      {"queued", BytesOrDash(limits.queue_bytes_max())},
      {"received", BytesOrDash(limits.receive_bytes_max())},
      {"payloads of a batch", FormatCount(limits.batch_payloads_max())},
      {"bytes of a batch", BytesOrDash(limits.batch_bytes_max())},
      {"unanswered payloads of a stream", FormatCount(limits.stream_payloads_max())},
      {"calls of a connection", UpTo(limits.streams_max(), FormatCount(limits.streams_max()))},
      {"quantiles", UpTo(limits.quantiles_max(), FormatCount(limits.quantiles_max()))}};
  return absl::StrCat(text, "\n", Columns(rows, terminal));
}

}  // namespace

int Fail(Environment& env, const std::string& message) {
  env.err << "histogram-client: " << SafeText(message) << "\n" << std::flush;
  return kFailure;
}

int UsageError(Environment& env, const std::string& message) {
  env.err << "histogram-client: " << SafeText(message) << "\n"
          << "Run histogram-client --help for more information.\n"
          << std::flush;
  return kUsage;
}

int Emit(Environment& env, const std::string& output, const std::string& text) {
  if (output.empty()) {
    env.out << text;  // the caller of all looks after its errors
    return kSuccess;
  }
  if (absl::Status status = WriteFile(output, text); !status.ok()) {
    return Fail(env, std::string(status.message()));
  }
  return kSuccess;
}

Terminal OutputTerminal(const Environment& env, const OutputOptions& output) {
  if (output.output.empty()) return env.out_terminal;
  Terminal file;
  file.utf8 = env.out_terminal.utf8;
  return file;
}

int RunDescribe(const DescribeOptions& options, const ServerOptions& server, Environment& env) {
  const absl::StatusOr<Connection> connection = Connect(server);
  if (!connection.ok()) return Fail(env, Explain(connection.status(), server));
  const auto description = connection->client->Describe(connection->Call());
  if (!description.ok()) return Fail(env, Explain(description.status(), server));
  return Emit(env, options.output.output,
              options.output.format == "json"
                  ? Dump(DescriptionToJson(*description))
                  : RenderDescription(*description, OutputTerminal(env, options.output)));
}

namespace {

int RunHttpHealth(const HealthOptions& options, const ServerOptions& server, Environment& env) {
  const absl::Time deadline = server.timeout_s.has_value()
                                  ? absl::Now() + absl::Seconds(*server.timeout_s)
                                  : absl::InfiniteFuture();
  const absl::StatusOr<HttpTarget> target = ParseHttpTarget(options.http);
  if (!target.ok()) return Fail(env, absl::StrCat("--http: ", target.status().message()));
  const absl::StatusOr<HttpAnswer> answer = HttpGet(*target, deadline);
  if (!answer.ok()) return Fail(env, std::string(answer.status().message()));
  env.out << SafeText(absl::StripAsciiWhitespace(answer->body)) << "\n";
  if (answer->status == 200) return kSuccess;
  return Fail(env, absl::StrCat("the server at ", SafeText(options.http),
                                " is not ready: it answers HTTP status ", answer->status));
}

}  // namespace

int RunHealth(const HealthOptions& options, const ServerOptions& server, Environment& env) {
  if (!options.http.empty()) return RunHttpHealth(options, server, env);
  const absl::StatusOr<Connection> connection = Connect(server);
  if (!connection.ok()) return Fail(env, Explain(connection.status(), server));
  const auto health = connection->client->Health(options.service, connection->Call());
  if (absl::IsNotFound(health.status())) {
    return Fail(env, absl::StrCat("the server at ", SafeText(server.server), " knows no service \"",
                                  SafeText(options.service),
                                  "\"; it knows histogram.v1.HistogramService, liveness and "
                                  "backend/NAME"));
  }
  if (!health.ok()) return Fail(env, Explain(health.status(), server));
  switch (*health) {
    case client::HealthStatus::kServing:
      env.out << "SERVING\n";
      return kSuccess;
    case client::HealthStatus::kNotServing:
      env.out << "NOT_SERVING\n";
      return Fail(env, absl::StrCat("the server at ", SafeText(server.server), " is not ready"));
    default:
      env.out << "UNKNOWN\n";
      return Fail(env, absl::StrCat("the server at ", SafeText(server.server),
                                    " does not know whether it is ready"));
  }
}

}  // namespace histogram::cli
