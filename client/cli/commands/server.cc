#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/channel.h"
#include "client/cli/commands/commands.h"
#include "client/cli/files.h"
#include "client/cli/render/report.h"
#include "client/cli/render/text.h"
#include "forms/json.h"

namespace histogram::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr char kAny[] = "any";

// Leaves out a column that says "any" in each row.
void DropUnlimited(Rows& rows, size_t column) {
  for (size_t r = 1; r < rows.size(); ++r) {
    if (rows[r][column] != kAny) return;
  }
  for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
}

std::string BytesOrDash(uint64_t bytes) { return bytes == 0 ? "-" : FormatBytes(bytes); }

// The largest value of a limit's type, like 0, is no limit.
template <typename Number>
std::string UpTo(Number limit, std::string (*format)(uint64_t)) {
  const bool unlimited = limit == 0 || limit == std::numeric_limits<Number>::max();
  return unlimited ? kAny : format(limit);
}

Rows BackendRows(const v1::DescribeResponse& description) {
  Rows rows = {{"backend", "state", "lanes", "lane", "pinned", "on device", "device"}};
  for (const auto& backend : description.backends()) {
    rows.push_back({SafeText(backend.name()), backend.up() ? "up" : "down",
                    absl::StrCat(backend.lanes()), BytesOrDash(backend.lane_bytes()),
                    BytesOrDash(backend.pinned_bytes()), BytesOrDash(backend.device_bytes()),
                    SafeText(absl::StrCat(backend.device(), backend.uuid().empty() ? "" : " ",
                                          backend.uuid()))});
  }
  return rows;
}

Rows PlacementRows(const v1::DescribeResponse& description) {
  Rows rows = {{"payloads of", "from", "backend"}};
  const auto add = [&rows](const char* samples, const auto& placements) {
    for (const auto& placement : placements) {
      rows.push_back(
          {samples, FormatBytes(placement.payload_bytes_min()), SafeText(placement.backend())});
    }
  };
  add("bytes", description.placements());
  add("other samples", description.typed_placements());
  return rows;
}

Rows KernelRows(const v1::DescribeResponse& description) {
  Rows rows = {{"kernel", "backend", "counters", "what it does"}};
  for (const auto& kernel : description.kernels()) {
    rows.push_back({SafeText(kernel.name()), SafeText(kernel.backend()),
                    UpTo(kernel.bin_count_max(), FormatCount), SafeText(kernel.summary())});
  }
  return rows;
}

Rows ChoiceRows(const v1::DescribeResponse& description) {
  Rows rows = {
      {"backend", "samples", "bins up to", "payloads up to", "bytes up to", "kernel", "speed"}};
  for (const auto& choice : description.choices()) {
    const bool all_bins = choice.bin_count_max() >= description.limits().bin_count_max();
    rows.push_back({SafeText(choice.backend()), TypeName(choice.sample_type()),
                    all_bins ? kAny : UpTo(choice.bin_count_max(), FormatCount),
                    UpTo(choice.payloads_max(), FormatCount),
                    UpTo(choice.payload_bytes_max(), FormatBytes), SafeText(choice.kernel()),
                    choice.gigabytes_per_second() > 0
                        ? absl::StrFormat("%.3g GB/s", choice.gigabytes_per_second())
                        : "not measured"});
  }
  DropUnlimited(rows, 3);
  DropUnlimited(rows, 2);
  return rows;
}

Rows LimitRows(const v1::DescribeResponse::Limits& limits) {
  return {{"limit", "value"},
          {"bytes of a payload", UpTo(limits.payload_bytes_max(), FormatBytes)},
          {"bins", UpTo(limits.bin_count_max(), FormatCount)},
          {"rows", UpTo(limits.rows_max(), FormatCount)},
          {"quantiles", UpTo(limits.quantiles_max(), FormatCount)},
          {"bytes of a spec", UpTo(limits.spec_bytes_max(), FormatBytes)},
          {"bytes of a reply", UpTo(limits.reply_bytes_max(), FormatBytes)},
          {"bytes in the queue", UpTo(limits.queue_bytes_max(), FormatBytes)},
          {"bytes of received messages", UpTo(limits.receive_bytes_max(), FormatBytes)},
          {"payloads of a batch", UpTo(limits.batch_payloads_max(), FormatCount)},
          {"bytes of a batch", UpTo(limits.batch_bytes_max(), FormatBytes)},
          {"unanswered payloads of a stream", UpTo(limits.stream_payloads_max(), FormatCount)},
          {"calls of a connection", UpTo(limits.streams_max(), FormatCount)}};
}

std::string RenderDescription(const v1::DescribeResponse& description, size_t columns) {
  std::string text = absl::StrCat("histogram-server ", SafeText(description.version()), "\n");
  if (description.features_size() > 0) {
    const std::string head = "features: ";
    absl::StrAppend(
        &text, head,
        Hanging(SafeText(absl::StrJoin(description.features(), ", ")), head.size(), columns), "\n");
  }
  const auto section = [&](const std::string& title, const Rows& rows) {
    if (rows.size() < 2) return;
    absl::StrAppend(&text, "\n", title.empty() ? "" : Hanging(title + ":", 0, columns) + "\n",
                    RenderRows(rows, columns));
  };
  section("", BackendRows(description));
  const std::string objective = SafeText(description.objective());
  section(absl::StrCat("Where a single payload is counted",
                       objective.empty() ? "" : " (chosen for " + objective + ")"),
          PlacementRows(description));
  section("Kernels of 256 counters count byte values, which the server adds up to bins",
          KernelRows(description));
  section("The kernel that counts a batch", ChoiceRows(description));
  section("", LimitRows(description.limits()));
  return text;
}

constexpr size_t kAnswerBytesMax = 4096 + 1024;  // body and header

// Asks the port for metrics at HOST:PORT whether the server is ready: all that comes until the
// other side closes, cut at kAnswerBytesMax. The port always speaks plain HTTP, so the request
// needs no certificate and no token.
absl::StatusOr<std::string> GetReadiness(const std::string& address) {
  if (absl::Status status = client::CheckAddress(address); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("--http: ", status.message()));
  }
  const size_t colon = address.rfind(':');
  const std::string port = address.substr(colon + 1);
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) host.remove_suffix(1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(std::string(host).c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot find the host ", host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  const std::string request =
      absl::StrCat("GET /readyz HTTP/1.1\r\nHost: ", address, "\r\nConnection: close\r\n\r\n");
  int file = -1;
  const absl::Cleanup close_file = [&file] { close(file); };
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    close(file);
    file = socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (connect(file, each->ai_addr, each->ai_addrlen) == 0) break;
    if (each->ai_next == nullptr) return FileError("reach", address);
  }
  if (!WriteFully(file, request)) return FileError("ask", address);
  return ReadAll(file, address, kAnswerBytesMax);
}

int RunHttpHealth(const HealthOptions& options, Environment& env) {
  const Waiting waiting(options.http);
  const absl::StatusOr<std::string> answer = GetReadiness(options.http);
  if (!answer.ok()) return Fail(env, answer.status().message());
  absl::string_view text = *answer;
  int status = 0;  // HTTP's: 200, 503, ...
  if ((!absl::ConsumePrefix(&text, "HTTP/1.1 ") && !absl::ConsumePrefix(&text, "HTTP/1.0 ")) ||
      !absl::SimpleAtoi(text.substr(0, 3), &status)) {
    return Fail(env, absl::StrCat("what answers at ", options.http, " does not speak HTTP"));
  }
  const size_t end = text.find("\r\n\r\n");
  const absl::string_view body = end == absl::string_view::npos ? "" : text.substr(end + 4);
  env.out << SafeText(absl::StripAsciiWhitespace(body)) << "\n";
  if (status == 200) return kSuccess;
  return Fail(env, absl::StrCat("the server at ", options.http,
                                " is not ready: it answers HTTP status ", status));
}

}  // namespace

int RunDescribe(const OutputOptions& options, const ServerOptions& server, Environment& env) {
  const auto client = Connect(server);
  if (!client.ok()) return Fail(env, Explain(client.status(), server));
  const auto description = (*client)->Describe({});
  if (!description.ok()) return Fail(env, Explain(description.status(), server));
  return Emit(env, options.output,
              options.format == "json"
                  ? Dump(DescriptionToJson(*description))
                  : RenderDescription(*description, OutputColumns(env, options)));
}

int RunHealth(const HealthOptions& options, const ServerOptions& server, Environment& env) {
  if (!options.http.empty()) return RunHttpHealth(options, env);
  const auto client = Connect(server);
  if (!client.ok()) return Fail(env, Explain(client.status(), server));
  const auto health = (*client)->Health(options.service, {});
  if (absl::IsNotFound(health.status())) {
    return Fail(
        env, absl::StrCat("the server at ", server.server, " knows no service \"", options.service,
                          "\"; it knows histogram.v1.HistogramService, liveness and "
                          "backend/NAME"));
  }
  if (!health.ok()) return Fail(env, Explain(health.status(), server));
  if (*health == client::HealthStatus::kServing) {
    env.out << "SERVING\n";
    return kSuccess;
  }
  const bool known = *health == client::HealthStatus::kNotServing;
  env.out << (known ? "NOT_SERVING\n" : "UNKNOWN\n");
  return Fail(env, absl::StrCat("the server at ", server.server,
                                known ? " is not ready" : " does not know whether it is ready"));
}

}  // namespace histogram::cli
