#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "client/channel.h"
#include "client/cli/commands/commands.h"
#include "client/cli/files.h"
#include "client/cli/render/report.h"
#include "client/cli/render/text.h"
#include "forms/json.h"

namespace histogram::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kNone[] = "-";
constexpr char kAny[] = "any";

std::string Words(const std::string& name) {
  return absl::StrReplaceAll(name, {{"gigabytes_per_second", "GB/s"}, {"_", " "}});
}

// A value for people. The largest value of a limit's type is no limit.
std::string CellOf(const std::string& name, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value == 0 && !absl::EndsWith(name, "_min")) return kNone;
  if (value.is_number_float()) return absl::StrFormat("%.3g", value.get<double>());
  const auto number = value.get<uint64_t>();
  if (number == UINT32_MAX || number == UINT64_MAX) return kAny;
  return absl::StrContains(name, "bytes") ? FormatBytes(number) : FormatCount(number);
}

// A row for each object. Leaves out columns that say nothing in any row.
std::string RenderObjects(const Json& objects, size_t columns) {
  std::vector<std::vector<std::string>> rows(objects.size() + 1);
  for (const auto& [name, first] : objects.front().items()) {
    const auto says_nothing = [&name = name](const Json& object) {
      const std::string cell = CellOf(name, object[name]);
      return cell.empty() || cell == kNone || cell == kAny;
    };
    if (std::all_of(objects.begin(), objects.end(), says_nothing)) continue;
    rows[0].push_back(Words(name));
    for (size_t i = 0; i < objects.size(); ++i)
      rows[i + 1].push_back(CellOf(name, objects[i][name]));
  }
  return RenderRows(rows, columns);
}

std::string RenderDescription(const Json& description, size_t columns) {
  std::string text, tables;
  for (const auto& [name, value] : description.items()) {
    const std::string head = Words(name) + ": ";
    if (value.is_string()) {
      absl::StrAppend(&text, head, value.get<std::string>(), "\n");
    } else if (value.is_object()) {
      std::vector<std::vector<std::string>> rows = {{Words(name), "value"}};
      for (const auto& [limit, most] : value.items())
        rows.push_back({Words(limit), CellOf(limit, most)});
      absl::StrAppend(&tables, "\n", RenderRows(rows, columns));
    } else if (!value.empty() && value.front().is_object()) {
      absl::StrAppend(&tables, "\n", Words(name), ":\n", RenderObjects(value, columns));
    } else if (!value.empty()) {
      const std::string list = absl::StrJoin(value.get<std::vector<std::string>>(), ", ");
      absl::StrAppend(&text, head, Hanging(list, head.size(), columns), "\n");
    }
  }
  return text + tables;
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
  const Json json = DescriptionToJson(*description);
  return Emit(
      env, options.output,
      options.format == "json" ? Dump(json) : RenderDescription(json, OutputColumns(env, options)));
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
