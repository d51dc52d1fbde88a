#include <histogram/typed.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/count.h"
#include "client/cli/render/report.h"
#include "client/cli/render/svg.h"
#include "client/cli/render/text.h"
#include "forms/json.h"
#include "forms/options.h"

namespace histogram::cli {
namespace {

std::vector<std::string> FilesOf(const ComputeOptions& options) {
  return options.files.empty() ? std::vector<std::string>{"-"} : options.files;
}

// Checks what the command line's parser cannot check.
absl::Status CheckCompute(const ComputeOptions& options, const Environment& env) {
  if (options.files.empty() && !IsFed(env.standard_input)) {
    return absl::InvalidArgumentError("name a FILE to count, or - for standard input");
  }
  const std::vector<std::string> files = FilesOf(options);
  if (std::count(files.begin(), files.end(), "-") > 1) {
    return absl::InvalidArgumentError("standard input (-) can be counted only once");
  }
  if (absl::Status status =
          CheckOutput("--output", options.output.output, files, env.standard_input);
      !status.ok()) {
    return status;
  }
  const std::string& format = options.output.format;
  if (format == "csv" && (options.statistics || !options.quantiles.empty())) {
    return absl::InvalidArgumentError(
        "CSV has no place for --statistics and --quantiles; use --format json");
  }
  if (options.rows.has_value() && format != "table") {
    return absl::InvalidArgumentError("--rows: only the table has rows");
  }
  return absl::OkStatus();
}

// Whether one pass over samples of this type, which are no bytes, does not tell all that is asked
// for.
bool NeedsSecondLook(const v1::Spec& spec, const ServerOptions& server) {
  const bool of_values = spec.statistics() || spec.quantiles_size() > 0;
  // A server adds up the values of small types.
  const bool one_pass = !server.in_process && SampleBytes(TypeOf(spec)) <= 2;
  return NeedsRange(spec) || (of_values && !one_pass);
}

// Takes big-endian inputs into memory. If `twice`, those that can be read only once, too.
absl::Status KeepInputs(bool twice, SampleType type, std::vector<Input>& inputs) {
  constexpr uint64_t kBytesMax = uint64_t{1} << 30;
  for (Input& input : inputs) {
    const auto timed = TimeLook(input);
    if (!input.big_endian && (!twice || input.stream == nullptr)) continue;
    if (absl::Status status = ReadOn(input, kBytesMax + 1); !status.ok()) return status;
    if (input.bytes.size() > kBytesMax) {
      return absl::FailedPreconditionError(absl::StrCat(
          input.name, " is longer than ", FormatBytes(kBytesMax),
          input.big_endian
              ? ", the most that is counted of big-endian samples; save "
                "a.astype(a.dtype.newbyteorder('<'))"
              : ", the most that is kept of what can be read only once; save it as a file, since "
                "its range, median and quantiles take a second look"));
    }
    if (!input.big_endian) continue;
    std::string little(input.bytes);
    const auto step = static_cast<ptrdiff_t>(SampleBytes(type));
    for (auto at = little.begin(); at != little.end(); at += step) std::reverse(at, at + step);
    input.Hold(std::move(little));
  }
  return absl::OkStatus();
}

// What the inputs hold, and where their bins lie.
absl::Status FindSamples(const ComputeOptions& options, const ServerOptions& server,
                         std::vector<Input>& inputs, v1::Spec& spec) {
  const bool text = options.numbers || !options.column.empty();
  absl::Status found =
      text ? ReadNumbers(options.column, inputs, spec) : FindType(options.type, inputs, spec);
  if (!found.ok()) return found;
  if (TypeOf(spec) == SampleType::kU8) return absl::OkStatus();
  const std::string type(NameOf(TypeOf(spec)));
  if (BinsAreSymbols(spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", BinningKind(spec), ": it bins bytes (u8), not ", type));
  }
  absl::Status kept = KeepInputs(NeedsSecondLook(spec, server), TypeOf(spec), inputs);
  return kept.ok() ? FindRange(absl::MakeSpan(inputs), spec) : kept;
}

// Says of headers that look like samples that they are not counted.
void NoteHeaders(const std::vector<Input>& inputs, Environment& env) {
  for (const Input& input : inputs) {
    if (input.header_number.empty()) continue;
    Note(env, absl::StrCat(input.name, ": its first line is taken for the header; ",
                           input.header_number, " names the column and is not counted"));
  }
}

// Says of inputs that look like numbers that their bytes are counted.
void NoteNumbers(const std::vector<Input>& inputs, Environment& env) {
  for (const Input& input : inputs) {
    const std::string name = absl::AsciiStrToLower(input.name);
    std::string instead;
    if (absl::EndsWith(name, ".csv") || absl::EndsWith(name, ".tsv")) {
      instead = "--column NAME counts the numbers of a column";
    } else if (absl::EndsWith(name, ".parquet")) {
      instead = "read its columns with pandas or pyarrow, and count them with the Python package";
    } else if (input.looks_like_numbers) {
      instead = "--numbers counts the numbers";
    } else {
      continue;
    }
    Note(env, absl::StrCat(input.name, ": its bytes are counted; ", instead));
  }
}

std::string Render(const std::vector<Report>& reports, const ComputeOptions& options,
                   const Environment& env) {
  if (options.output.format == "json") return Dump(ReportsToJson(reports));
  if (options.output.format == "csv") return ReportsToCsv(reports);
  if (options.output.format == "svg") {
    std::vector<Panel> panels;
    panels.reserve(reports.size());
    for (const Report& report : reports) panels.push_back(PanelOf(report));
    return RenderSvg(panels);
  }
  const size_t columns = OutputColumns(env, options.output);
  std::string text;
  for (const Report& report : reports) {
    if (!text.empty()) text += "\n";
    text += RenderTable(report, columns, options.rows);
  }
  return text;
}

}  // namespace

int RunCompute(const ComputeOptions& options, const ServerOptions& server, Environment& env) {
  if (absl::Status status = CheckCompute(options, env); !status.ok()) {
    return UsageError(env, status.message());
  }
  absl::StatusOr<v1::Spec> spec = SpecFromText(options, "--");
  if (!spec.ok()) return UsageError(env, spec.status().message());
  std::vector<Input> inputs;
  for (const std::string& file : FilesOf(options)) {
    inputs.push_back(file == "-" ? StandardInput(env.standard_input) : OpenFile(file));
  }
  if (absl::Status status = FindSamples(options, server, inputs, *spec); !status.ok()) {
    return absl::IsInvalidArgument(status) ? UsageError(env, status.message())
                                           : Fail(env, status.message());
  }
  if (TypeOf(*spec) == SampleType::kU8 && options.type.empty() && !BinsAreSymbols(*spec)) {
    NoteNumbers(inputs, env);
  }
  NoteHeaders(inputs, env);
  const auto results = CountInputs(server, *spec, inputs);
  if (!results.ok()) {
    const std::string error = ExplainCount(results.status(), server);
    return server.in_process ? UsageError(env, error) : Fail(env, error);
  }
  std::vector<Report> reports;
  int code = kSuccess;
  std::string last_error;
  for (size_t i = 0; i < results->size(); ++i) {
    const absl::StatusOr<Report>& result = (*results)[i];
    if (result.ok()) {
      reports.push_back(*result);
      const v1::Statistics& statistics = result->histogram.statistics();
      if (statistics.has_minimum() && !statistics.has_median()) {
        Note(env, absl::StrCat(inputs[i].name,
                               ": the median is missing: it takes all samples at once, and the "
                               "input is larger than what this server takes"));
      }
      continue;
    }
    code = kFailure;
    const std::string& name = inputs[i].name;
    std::string error =
        absl::StrReplaceAll(ExplainCount(result.status(), server), {{"request.payload", name}});
    // A server that is not there is said once, not for each file.
    if (error != last_error) {
      // Errors of files name them; errors of the server do not.
      const bool named = absl::StrContains(error, name) || absl::IsUnavailable(result.status()) ||
                         results->size() == 1;
      Fail(env, named ? error : absl::StrCat(name, ": ", error));
    }
    last_error = std::move(error);
  }
  if (reports.empty()) return code;
  return std::max(code, Emit(env, options.output.output, Render(reports, options, env)));
}

}  // namespace histogram::cli
