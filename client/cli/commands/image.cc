#include "client/cli/picture/image.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/count.h"
#include "client/cli/files.h"
#include "client/cli/render/report.h"
#include "client/cli/render/svg.h"
#include "client/cli/render/text.h"
#include "forms/json.h"

namespace histogram::cli {
namespace {

struct Picture {
  Image image;                  // whose channels have names, and their samples no more
  std::vector<Report> reports;  // one of each channel
  size_t grey = 0;              // the channel that the threshold is of
};

std::optional<double> ThresholdOf(const Picture& picture) {
  const auto& statistics = picture.reports[picture.grey].histogram.statistics();
  if (!statistics.has_otsu_threshold()) return std::nullopt;
  return statistics.otsu_threshold();
}

std::string Size(const Image& image) {
  return absl::StrCat(image.width, " x ", image.height, " ", image.format);
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
  panel.title = std::filesystem::path(file).filename();
  panel.subtitle =
      absl::StrCat(Size(picture.image), ", ",
                   FormatCount(uint64_t{picture.image.width} * picture.image.height), " pixels");
  panel.edges = EdgesOf(picture.reports[0]);
  for (size_t i = 0; i < picture.reports.size(); ++i) {
    const std::string& name = picture.image.channels[i].name;
    const auto& counts = picture.reports[i].histogram.counts();
    panel.series.push_back({name, Colour(name), {counts.begin(), counts.end()}});
  }
  panel.axis = absl::StrCat("value of ", 8 * picture.image.sample_bytes(), " bits");
  panel.threshold = ThresholdOf(picture);
  return RenderSvg({panel});
}

std::string RenderImageJson(const Picture& picture, const std::string& file) {
  nlohmann::ordered_json json = ReportsToJson(picture.reports);
  for (size_t i = 0; i < picture.reports.size(); ++i) {
    json["histograms"][i]["channel"] = picture.image.channels[i].name;
  }
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

// The channels' statistics.
std::string RenderChannels(const Picture& picture, size_t columns) {
  std::vector<std::vector<std::string>> rows = {
      {"channel", "mean", "std dev", "median", "entropy", "Otsu"}};
  for (size_t c = 0; c < picture.reports.size(); ++c) {
    const v1::Statistics& s = picture.reports[c].histogram.statistics();
    rows.push_back({picture.image.channels[c].name, Optional(s.has_mean(), s.mean()),
                    Optional(s.has_standard_deviation(), s.standard_deviation()),
                    Optional(s.has_median(), s.median()),
                    Optional(s.has_entropy_bits(), s.entropy_bits()),
                    Optional(s.has_otsu_threshold(), s.otsu_threshold())});
  }
  return RenderRows(rows, columns) + "\n";
}

std::string RenderImageTable(const Picture& picture, const std::string& file, size_t columns) {
  std::string text = absl::StrCat(SafeText(file), ": ", Size(picture.image), "\n\n");
  text += RenderChannels(picture, columns);
  const Report& grey = picture.reports[picture.grey];
  if (const auto threshold = ThresholdOf(picture); threshold.has_value()) {
    uint64_t dark = 0;
    for (int value = 0; value <= *threshold && value < grey.histogram.counts_size(); ++value) {
      dark += grey.histogram.counts(value);
    }
    text +=
        Wrap({absl::StrCat("Otsu's threshold of ", picture.image.channels[picture.grey].name,
                           " is ", FormatNumber(*threshold)),
              absl::StrCat(FormatShare(dark, grey.histogram.samples()), " of the pixels dark"),
              absl::StrCat(FormatShare(grey.histogram.samples() - dark, grey.histogram.samples()),
                           " light")},
             columns);
  }
  for (const std::string& note : picture.image.notes) text += Wrap({note}, columns);
  return text + Wrap({ReceiptText(picture.reports[0])}, columns);
}

// `grey`: the channel of the threshold, with its samples.
absl::Status Binarize(const Picture& picture, const Channel& grey, const std::string& path) {
  const auto threshold = ThresholdOf(picture);
  if (!threshold.has_value()) {
    return absl::FailedPreconditionError(
        "the picture has a single value, so there is no threshold; nothing was written");
  }
  const Image& image = picture.image;
  std::string values(size_t{image.width} * image.height, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    if (ValueAt(image, grey, i) > *threshold) values[i] = '\xff';
  }
  if (absl::EndsWith(absl::AsciiStrToLower(path), ".pgm")) {
    return WriteFile(path, EncodePgm(image.width, image.height, values));
  }
  const auto png = EncodePng(image.width, image.height, values);
  if (!png.ok()) return png.status();
  return WriteFile(path, *png);
}

// Refuses a file that does not begin as a picture, without waiting for the rest. Errors name it.
absl::StatusOr<Image> ReadPicture(Input& input) {
  constexpr uint64_t kHeadBytes = 8, kBytesMax = uint64_t{4} << 30;
  absl::Status status = input.status;
  status.Update(ReadOn(input, kHeadBytes));
  if (!status.ok()) return status;
  const auto named = [&](const absl::Status& error) {
    return absl::Status(error.code(), absl::StrCat(input.name, ": ", error.message()));
  };
  if (absl::Status bad = CheckHead(input.bytes); !bad.ok()) return named(bad);
  if (status = ReadOn(input, kBytesMax); !status.ok()) return status;
  if (input.bytes.size() >= kBytesMax) {
    return named(absl::InvalidArgumentError("the picture's file is longer than 4 GiB"));
  }
  absl::StatusOr<Image> image = DecodeImage(input.bytes);
  if (absl::Status whole = StillWhole(input); !whole.ok()) return whole;
  return image.ok() ? std::move(image) : named(image.status());
}

// A bin for each value.
v1::Spec SpecOf(const Image& image) {
  v1::Spec spec;
  spec.set_statistics(true);
  if (image.sample_bytes() == 1) return spec;
  spec.set_sample_type(v1::SAMPLE_TYPE_UINT16);
  spec.set_edges(true);
  auto& even = *spec.mutable_binning()->mutable_even();
  even.set_bin_count(image.maximum + 1);
  even.set_lower(0);
  even.set_upper(image.maximum + 1.0);
  return spec;
}

// `name`: of its file.
absl::StatusOr<Picture> CountPicture(Image image, size_t grey, const std::string& name,
                                     const ServerOptions& server) {
  std::vector<Input> inputs;
  for (Channel& channel : image.channels) {
    inputs.push_back({absl::StrCat(name, ": ", channel.name)});
    inputs.back().Hold(std::move(channel.values));
  }
  Picture picture = {std::move(image), {}, grey};
  auto results = CountInputs(server, SpecOf(picture.image), inputs);
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
  Input input = file == "-" ? StandardInput(env.standard_input) : OpenFile(file);
  const std::string& name = input.name;
  absl::StatusOr<Image> image = ReadPicture(input);
  if (!image.ok()) return Fail(env, image.status().message());
  const bool colours = image->channels.size() >= 3;
  if (colours) image->channels.push_back(GreyOf(*image));
  const size_t grey = colours ? image->channels.size() - 1 : 0;
  const Channel kept = options.binarize.empty() ? Channel() : image->channels[grey];
  const absl::StatusOr<Picture> picture = CountPicture(*std::move(image), grey, name, server);
  if (!picture.ok()) return Fail(env, ExplainCount(picture.status(), server));
  if (!options.binarize.empty()) {
    if (absl::Status status = Binarize(*picture, kept, options.binarize); !status.ok()) {
      return Fail(env, status.message());
    }
  }
  const std::string& format = options.output.format;
  const std::string text =
      format == "json"  ? RenderImageJson(*picture, name)
      : format == "csv" ? ReportsToCsv(picture->reports)
      : format == "svg" ? RenderImageSvg(*picture, name)
                        : RenderImageTable(*picture, name, OutputColumns(env, options.output));
  return Emit(env, options.output.output, text);
}

}  // namespace histogram::cli
