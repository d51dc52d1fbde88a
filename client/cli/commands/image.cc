#include "client/cli/picture/image.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/count.h"
#include "client/cli/render/cut_off.h"
#include "client/cli/render/export.h"
#include "client/cli/render/svg.h"
#include "client/cli/render/table.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

struct Picture {
  Image image;
  std::vector<Report> reports;  // a report a channel, and for colours one of the luminance
  size_t grey = 0;              // the report that the threshold is of
};

std::optional<double> ThresholdOf(const Picture& picture) {
  const auto& statistics = picture.reports[picture.grey].histogram.statistics();
  if (!statistics.has_otsu_threshold()) return std::nullopt;
  return statistics.otsu_threshold();
}

std::string Size(const Image& image) {
  return absl::StrCat(image.width, " x ", image.height, " ", image.format);
}

std::vector<uint64_t> CountsOf(const Report& report) {
  return {report.histogram.counts().begin(), report.histogram.counts().end()};
}

std::string Colour(const std::string& channel) {
  if (channel == "red") return "#dc2626";
  if (channel == "green") return "#16a34a";
  if (channel == "blue") return "#2563eb";
  if (channel == "alpha") return "#a855f7";
  return "#475569";
}

std::string RenderImageSvg(const Picture& picture, const std::string& file) {
  Panel panel;
  panel.title = BaseName(file);
  panel.subtitle =
      absl::StrCat(Size(picture.image), ", ",
                   FormatCount(uint64_t{picture.image.width} * picture.image.height), " pixels");
  panel.edges = EdgesOf(picture.reports[0]);
  for (const Report& report : picture.reports) {
    panel.series.push_back({report.source, Colour(report.source), CountsOf(report)});
  }
  panel.threshold = ThresholdOf(picture);
  panel.count_max = CutOffOfPicture(Envelope(panel.series));
  return RenderSvg({panel});
}

std::string RenderImageJson(const Picture& picture, const std::string& file) {
  nlohmann::ordered_json json = ReportsToJson(picture.reports);
  json["image"] = {{"source", SafeText(file)},
                   {"format", picture.image.format},
                   {"width", picture.image.width},
                   {"height", picture.image.height},
                   {"notes", picture.image.notes}};
  const auto threshold = ThresholdOf(picture);
  json["otsu_threshold"] = threshold.has_value() ? nlohmann::ordered_json(*threshold) : nullptr;
  return Dump(json);
}

std::string Optional(bool has, double value) { return has ? absl::StrFormat("%.5g", value) : "-"; }

std::string RenderImageTable(const Picture& picture, const std::string& file,
                             const Terminal& terminal) {
  const auto columns = static_cast<size_t>(std::min(terminal.columns, 120));
  const std::string facts = absl::StrCat(": ", Size(picture.image));
  const size_t room = columns > facts.size() + 8 ? columns - facts.size() : 8;
  std::string text =
      absl::StrCat(Bold(terminal, Truncate(SafeText(file), room, terminal.utf8)), facts, "\n\n");
  constexpr size_t kWidth = 8;
  std::string head = "  " + PadRight("channel", 9);
  for (const char* const name : {"mean", "std dev", "median", "entropy", "Otsu"}) {
    head += PadLeft(name, kWidth);
  }
  const size_t used = 11 + 5 * kWidth + 3;
  const size_t spark = columns >= used + 16 ? std::min<size_t>(columns - used, 64) : 0;
  text += Dim(terminal, head + (spark > 0 ? "   values 0 to 255" : "")) + "\n";
  bool cut_off = false;
  for (const Report& report : picture.reports) {
    const v1::Statistics& s = report.histogram.statistics();
    absl::StrAppend(&text, "  ", PadRight(report.source, 9));
    for (const auto& [has, value] : std::array<std::pair<bool, double>, 5>{
             {{s.has_mean(), s.mean()},
              {s.has_standard_deviation(), s.standard_deviation()},
              {s.has_median(), s.median()},
              {s.has_entropy_bits(), s.entropy_bits()},
              {s.has_otsu_threshold(), s.otsu_threshold()}}}) {
      text += PadLeft(Optional(has, value), kWidth);
    }
    if (spark > 0) {
      const std::string line = Sparkline(CountsOf(report), spark, terminal.utf8);
      cut_off = cut_off || absl::StrContains(line, CutOffMark(terminal.utf8));
      absl::StrAppend(&text, "   ", Cyan(terminal, line));
    }
    text += "\n";
  }
  text += "\n";
  if (cut_off) {
    const std::string mark = CutOffMark(terminal.utf8);
    text += Dim(terminal, "  " + mark + " is cut off: it is far higher than the rest\n");
  }
  const Report& grey = picture.reports[picture.grey];
  if (const auto threshold = ThresholdOf(picture); threshold.has_value()) {
    uint64_t dark = 0;
    for (int value = 0; value <= *threshold && value < grey.histogram.counts_size(); ++value) {
      dark += grey.histogram.counts(value);
    }
    text +=
        Wrap({absl::StrCat("Otsu's threshold of ", grey.source, " is ", FormatNumber(*threshold)),
              absl::StrCat(FormatShare(dark, grey.histogram.samples()), " of the pixels dark"),
              absl::StrCat(FormatShare(grey.histogram.samples() - dark, grey.histogram.samples()),
                           " light")},
             columns);
  }
  for (const std::string& note : picture.image.notes) text += Dim(terminal, Wrap({note}, columns));
  text += Dim(terminal, Wrap({ReceiptText(picture.reports[0], terminal.utf8)}, columns));
  return text;
}

absl::Status Binarize(const Picture& picture, const std::string& path) {
  const auto threshold = ThresholdOf(picture);
  if (!threshold.has_value()) {
    return absl::FailedPreconditionError(
        "the picture has a single value, which no threshold can part; nothing was written");
  }
  Channel grey = GreyOf(picture.image);
  for (char& value : grey.values) {
    value = static_cast<unsigned char>(value) > *threshold ? '\xff' : '\0';
  }
  const Image& image = picture.image;
  if (absl::EndsWith(absl::AsciiStrToLower(path), ".pgm")) {
    return WriteFile(path, EncodePgm(image.width, image.height, grey.values));
  }
  const auto png = EncodeBlackWhitePng(image.width, image.height, grey.values);
  if (!png.ok()) return png.status();
  return WriteFile(path, *png);
}

std::string HowToConvert(const std::string& file, absl::string_view format) {
  if (file == "-") {
    return absl::StrCat("standard input is a ", format,
                        " picture; convert it: magick - ppm:- | histogram image -");
  }
  const std::string name = SafeText(file);
  const std::string stem = name.substr(0, name.rfind('.'));
  return absl::StrCat(name, " is a ", format, " picture; convert it: magick ", ShellWord(name), " ",
                      ShellWord(stem + ".png"));
}

absl::StatusOr<Picture> CountPicture(Image image, const ServerOptions& server, Environment& env) {
  Picture picture;
  picture.image = std::move(image);
  std::vector<Input> inputs;
  for (const Channel& channel : picture.image.channels) {
    inputs.push_back({channel.name, "", channel.values});
  }
  if (picture.image.channels.size() >= 3) {
    picture.grey = inputs.size();
    Channel grey = GreyOf(picture.image);
    inputs.push_back({grey.name, "", std::move(grey.values)});
  }
  v1::Spec spec;
  spec.set_statistics(true);
  auto results = CountInputs(server, spec, std::move(inputs), env);
  if (!results.ok()) return results.status();
  for (auto& result : *results) {
    if (!result.ok()) return result.status();
    picture.reports.push_back(*std::move(result));
  }
  return picture;
}

}  // namespace

int RunImage(const ImageOptions& options, const ServerOptions& server, Environment& env) {
  if (options.file.empty() && !IsFed(env.standard_input)) {
    return UsageError(env, "image needs a FILE, or - for standard input");
  }
  const std::string file = options.file.empty() ? "-" : options.file;
  const std::string name = file == "-" ? "standard input" : file;
  const std::string ending = absl::AsciiStrToLower(options.binarize);
  if (!ending.empty() && !absl::EndsWith(ending, ".pgm") && !absl::EndsWith(ending, ".png")) {
    return UsageError(env, "--binarize: the file's name must end in .png or .pgm");
  }
  const std::pair<const char*, std::string> outputs[] = {{"--binarize", options.binarize},
                                                         {"--output", options.output.output}};
  for (const auto& [option, path] : outputs) {
    if (absl::Status status = CheckOutput(option, path, {file}, env.standard_input); !status.ok()) {
      return UsageError(env, status.message());
    }
  }
  if (!options.binarize.empty() && options.binarize == options.output.output) {
    return UsageError(env, "--binarize and --output name the same file");
  }
  const absl::StatusOr<std::string> bytes =
      file == "-" ? ReadAll(env.standard_input, name, DeadlineOf(server))
                  : ReadFile(file, DeadlineOf(server));
  if (!bytes.ok()) return Fail(env, bytes.status().message());
  if (const absl::string_view format = ForeignFormat(*bytes); !format.empty()) {
    return Fail(env, HowToConvert(file, format));
  }
  absl::StatusOr<Image> image = DecodeImage(*bytes);
  if (!image.ok()) {
    return Fail(env, absl::StrCat(SafeText(name), ": ", image.status().message()));
  }
  const absl::StatusOr<Picture> picture = CountPicture(*std::move(image), server, env);
  if (!picture.ok()) return Fail(env, ExplainCount(picture.status(), server));
  if (!options.binarize.empty()) {
    if (absl::Status status = Binarize(*picture, options.binarize); !status.ok()) {
      return Fail(env, status.message());
    }
  }
  const std::string& format = options.output.format;
  const std::string text =
      format == "json"  ? RenderImageJson(*picture, name)
      : format == "csv" ? ReportsToCsv(picture->reports)
      : format == "svg" ? RenderImageSvg(*picture, name)
                        : RenderImageTable(*picture, name, OutputTerminal(env, options.output));
  return Emit(env, options.output.output, text);
}

}  // namespace histogram::cli
