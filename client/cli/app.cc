#include <histogram/values.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/channel.h"
#include "client/cli/arguments.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/count.h"
#include "client/cli/render/text.h"

namespace histogram::cli {

namespace {

// The format that a file's extension names; empty if it names none.
std::string FormatOf(const std::string& path) {
  const std::string lower = absl::AsciiStrToLower(path);
  for (const char* const format :
       {"json", "csv", "svg",
        // not written by any command
        "avif", "bmp", "bz2", "eps", "gif", "gz", "htm", "html", "jpeg", "jpg", "jsonl", "ndjson",
        "npy", "npz", "ods", "parquet", "pdf", "png", "ps", "svgz", "tif", "tiff", "tsv", "webp",
        "xls", "xlsx", "xml", "xz", "yaml", "yml", "zip", "zst"}) {
    if (absl::EndsWith(lower, absl::StrCat(".", format))) return format;
  }
  return "";
}

}  // namespace

void AddOutputOptions(CLI::App& command, OutputOptions& options,
                      const std::vector<std::string>& formats) {
  AddChoice(command, "--format", options.format, formats,
            "The format of the output (default table)");
  AddValue(command, "-o,--output", options.output, "FILE",
           "Write to this file, in the --format of its extension (such as .json); - is "
           "standard output");
  command.parse_complete_callback([&command, &options, formats] {
    if (options.output == "-") options.output.clear();
    if (command.get_option("--format")->count() > 0) return;
    std::string format = FormatOf(options.output);
    if (format.empty()) return;
    if (std::string error = OneOf(formats)(format); !error.empty()) {
      throw CLI::ValidationError("--output",
                                 "its format " + error + "; rename the file, or say its --format");
    }
    options.format = format;
  });
}

namespace {

constexpr char kFooter[] = R"(Examples:
  histogram book.txt                       a row for each byte value
  COMMAND | histogram                      what another program writes
  seq 1 1000 | histogram --numbers         numbers written as text
  histogram image photo.png                the channels of a picture
  histogram book.txt --server host:50051   counted by a server
  histogram describe --server host:50051   what a server runs
  histogram bench --help                   all about one command

The server's address comes from --server, else from the environment variable
HISTSVC_SERVER. Where neither names one, count and image count in this process,
and the other commands ask 127.0.0.1:50051. Exit codes: 0: success; 1: failure;
2: a wrong command line; 130: interrupted.)";

constexpr char kCountFooter[] = R"(Examples:
  histogram book.txt                              a row for each byte value
  histogram book.txt --alphabet a:26:6            letters, six to a bin
  histogram count *.bin --bins 16 --statistics --format json
  tar c folder | histogram -                      a pipe, of any length
  histogram count book.txt -o book.svg            a picture
  histogram count book.txt --server host:50051    sent to a server
  histogram weights.npy --bins 100                an array, over its own range
  histogram samples.raw --type f32 --bins 2048 --range -4:4
  seq 1 1000 | histogram --numbers --bins 5       numbers written as text
  histogram count t.csv --column price --bins 20  a column of a table

"histogram FILE" is short for "histogram count FILE". Ctrl-C ends the command
with exit code 130; it prints nothing of what it has counted.)";

constexpr char kComputeFooter[] = R"(Examples:
  histogram-client compute book.txt                    a row for each byte value
  tar c folder | histogram-client compute -            a pipe, of any length
  histogram-client compute book.txt --server unix:/run/histogram.sock)";

constexpr char kImageFooter[] = R"(Examples:
  histogram image photo.png
  histogram image photo.png --binarize black-and-white.png
  magick photo.jpeg ppm:- | histogram image - -o photo.svg
  histogram image photo.png --server host:50051)";

constexpr char kDescribeFooter[] = R"(Examples:
  histogram-client describe
  histogram-client describe --format json
  histogram-client describe --server host:50051 --tls --tls-ca ca.pem)";

constexpr char kHealthFooter[] = R"(Examples:
  histogram-client health                    the server as a whole
  histogram-client health backend/cpu --server host:50051
  histogram-client health --http host:9464   /readyz of the metrics port)";

constexpr char kCompletionFooter[] = R"(Examples:
  source <(histogram-client completion bash)
  completions=~/.local/share/bash-completion/completions
  histogram-client completion > $completions/histogram-client)";

constexpr char kServerGroup[] = "Server";

struct Options {
  ServerOptions server;
  double timeout_s = 0;    // 0: none
  ComputeOptions compute;  // of count and compute
  ImageOptions image;
  OutputOptions describe;
  HealthOptions health;
  BenchOptions bench;
  std::string shell = "bash";
};

void AddServerOptions(CLI::App& app, ServerOptions& options, double& timeout_s) {
  const auto add = [&app](const char* name, auto& value, const char* type, const char* what) {
    return AddValue(app, name, value, type, what)->group(kServerGroup);
  };
  add("--server", options.server, "ADDRESS", "HOST:PORT or unix:PATH")->envname("HISTSVC_SERVER");
  add("--timeout", timeout_s, "SECONDS",
      "Give up after SECONDS, with a server or without (default: no limit)")
      ->transform(Number(/*zero_too=*/false));
  CLI::Option* const tls =
      app.add_flag("--tls", options.tls, "Encrypt; trust the system's CAs")->group(kServerGroup);
  add("--tls-ca", options.tls_ca, "FILE", "Trust the CAs of this PEM file instead")->needs(tls);
  CLI::Option* const cert =
      add("--tls-cert", options.tls_cert, "FILE", "This client's certificate, PEM")->needs(tls);
  CLI::Option* const key =
      add("--tls-key", options.tls_key, "FILE", "Its private key, PEM")->needs(cert);
  cert->needs(key);
  add("--tls-server-name", options.tls_server_name, "NAME",
      "The name in the server's certificate, if not that of its address")
      ->needs(tls);
  add("--token-file", options.token_file, "FILE", "Send the bearer token in this file");
}

// `what`: the things that are counted.
void AddInput(CLI::App& command, const char* name, auto& value, const std::string& what) {
  const std::string description = what +
                                  "; - is standard input. Without FILE the command "
                                  "reads standard input if it is a pipe or a file";
  AddValue(command, name, value, "FILE", description.c_str());
}

void AddCompute(CLI::App& app, const char* name, const char* description, const char* footer,
                ComputeOptions& options) {
  CLI::App& command = *app.add_subcommand(name, description)->footer(footer);
  AddInput(command, "files", options.files, "The files");
  std::vector<std::string> types;
  for (const SampleTypeInfo& info : kSampleTypeList) types.emplace_back(info.name);
  AddChoice(command, "--type", options.type, types,
            "The type of a sample, little-endian; a .npy file names its own (default: u8)");
  CLI::Option* const type = command.get_option("--type");
  command
      .add_flag("--numbers", options.numbers,
                "The files are text: count the numbers between blanks, commas and line ends, "
                "integers as i64 or u64, others as f64; up to 16 bytes of memory each")
      ->excludes(type);
  AddValue(
      command, "--column", options.column, "NAME|N",
      "The files are tables with a header, their cells separated by commas, tabs or semicolons: "
      "count the numbers of this column; an empty cell is a NaN")
      ->excludes(type);
  CLI::Option* const bins =
      AddValue(command, "--bins", options.bins, "N",
               "Count into N bins of equal width: of u8 over 0..256, of i8 over -128..128, "
               "of other types over the range of the data")
          ->transform(WholeNumber(1, kBinCountMax));
  CLI::Option* const range =
      AddValue(command, "--range", options.range, "LO:HI",
               "The range that --bins divides; as in numpy, HI belongs to the last bin")
          ->needs(bins);
  std::vector<CLI::Option*> kinds = {bins, range};
  for (size_t i = 0; i < options.binnings.size(); ++i) {
    const BinningOption option = BinningOptions()[i];
    CLI::Option* const kind = AddValue(command, absl::StrCat("--", option.name).c_str(),
                                       options.binnings[i], option.form, option.help);
    for (CLI::Option* const other : kinds) kind->excludes(other);
    kinds.push_back(kind);
  }
  command.add_flag("--statistics", options.statistics,
                   "Print mean, median, mode, entropy, Otsu's threshold and others, too");
  AddValue(command, "--quantiles", options.quantiles, "Q,Q,Q",
           "Print these quantiles, each in 0..1, too");
  AddValue(command, "--rows", options.rows, "N|all",
           "The table has at most N rows of bins; all, or 0: a row for each bin")
      ->transform(WholeNumber(0, kBinCountMax))
      ->transform(CLI::Transformer({{"all", "0"}}).description(""));
  AddOutputOptions(command, options.output, {"table", "json", "csv", "svg"});
}

void AddImage(CLI::App& app, ImageOptions& options) {
  CLI::App& command =
      *app.add_subcommand("image", "Count each channel of a PGM, PPM or PNG picture")
           ->footer(kImageFooter);
  AddInput(command, "file", options.file, "The picture");
  AddValue(command, "--binarize", options.binarize, "FILE",
           "Also write the picture in black and white, divided at Otsu's threshold "
           "(.png or .pgm)");
  AddOutputOptions(command, options.output, {"table", "json", "csv", "svg"});
}

void AddOthers(CLI::App& app, Options& options) {
  CLI::App& describe =
      *app.add_subcommand("describe", "Show a server's backends, kernels and limits")
           ->footer(kDescribeFooter);
  AddOutputOptions(describe, options.describe, {"table", "json"});
  CLI::App& health = *app.add_subcommand("health", "Ask whether the server is ready: exit code 0")
                          ->footer(kHealthFooter);
  health
      .add_option("service", options.health.service,
                  "What to ask about (default: the server as a whole)")
      ->type_name("liveness|histogram.v1.HistogramService|backend/NAME");
  AddValue(health, "--http", options.health.http, "HOST:PORT",
           "Ask /readyz of the metrics port instead, which needs no certificate and no token")
      ->excludes("service");
  CLI::App& completion = *app.add_subcommand("completion", "Print the completion script for bash")
                              ->footer(kCompletionFooter);
  AddChoice(completion, "shell", options.shell, {"bash"}, "The shell (default bash)");
}

// "histogram FILE" is short for "histogram count FILE", where the first word that is neither an
// option nor its value is a file rather than a command; and so is "histogram < FILE", with options
// or without. Other inputs than a file or a pipe need an option of count's own. "--" ends the
// options: what follows is a file, whatever its name.
void ImplyCount(const CLI::App& app, int standard_input, std::vector<std::string>& arguments) {
  const CLI::App& count = *app.get_subcommand("count");
  bool counts = IsFileOrPipe(standard_input), options_of_count = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      counts = counts || i + 1 < arguments.size();
      break;
    }
    if (word == "-" || !absl::StartsWith(word, "-")) {
      const auto named = [&](const CLI::App* command) { return command->get_name() == word; };
      if (app.get_subcommands(named).empty() &&
          (word == "-" || options_of_count || access(word.c_str(), F_OK) == 0)) {
        arguments.insert(arguments.begin(), "count");
      }
      return;
    }
    const CLI::Option* option = app.get_option_no_throw(word.substr(0, word.find('=')));
    if (option != nullptr && option->get_group() != kServerGroup) return;  // --help, --version
    if (option == nullptr) {
      option = count.get_option_no_throw(word.substr(0, word.find('=')));
      options_of_count |= option != nullptr;
      counts |= options_of_count;
    }
    if (absl::StrContains(word, '=')) continue;
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
  if (counts) arguments.insert(arguments.begin(), "count");
}

// CLI11 ends the options of a command with "--", and not those of the program, and takes "[a,b]"
// for a list. So files after "--", and files with such names, get "./" in front.
void NameFiles(std::vector<std::string>& arguments) {
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    const bool option = word > mark && word->size() > 1 && absl::StartsWith(*word, "-");
    const bool list = absl::StartsWith(*word, "[") && absl::EndsWith(*word, "]");
    if (option || (list && access(word->c_str(), F_OK) == 0)) word->insert(0, "./");
  }
  if (mark != arguments.end()) arguments.erase(mark);
}

// Counting in this process needs no certificate and no token: a user who gives one means to name a
// server. The completion is there whatever address the environment has.
void CheckServerOptions(const CLI::App& app, const Options& options) {
  if (app.got_subcommand("completion")) return;
  if (absl::Status s = client::CheckAddress(options.server.server); !s.ok()) {
    const absl::string_view set = absl::NullSafeStringView(std::getenv("HISTSVC_SERVER"));
    throw CLI::ValidationError(options.server.server == set ? "HISTSVC_SERVER" : "--server",
                               std::string(s.message()));
  }
  if (!options.server.in_process) return;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() == kServerGroup && option->count() > 0 &&
        option->get_name() != "--timeout") {
      throw CLI::ValidationError(option->get_name(),
                                 "needs --server: without one, this process counts");
    }
  }
}

// Folds descriptions at 80 columns. Says of an option what its value is, and leaves the rest to its
// description: CLI11 would add "Needs:" and "Excludes:", in an order that changes from run to run.
class HelpFormatter final : public CLI::Formatter {
 public:
  // The program counts files without a command, too.
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app->get_parent() != nullptr) return CLI::Formatter::make_usage(app, std::move(name));
    return absl::StrCat("Usage: ", name, " [OPTIONS] FILE...\n       ", name,
                        " [OPTIONS] SUBCOMMAND\n");
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return Fold(option->get_description());
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_items_expected_max() == 0) return "";
    return " " + option->get_type_name() + (option->get_items_expected_max() > 1 ? "..." : "");
  }

 private:
  // CLI11 indents the lines.
  std::string Fold(const std::string& text) const {
    const std::string indent(column_width_, ' ');
    return absl::StrReplaceAll(Hanging(text, column_width_, 80), {{"\n" + indent, "\n"}});
  }
};

// The command whose help explains the error; empty: the program, as for its own options.
std::string HelpFor(const CLI::App& app, const std::string& wrong) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  const bool own = app.get_option_no_throw(wrong.substr(0, wrong.find_first_of(": "))) != nullptr;
  return own || commands.empty() ? "" : commands.front()->get_name();
}

}  // namespace

int Run(std::vector<std::string> arguments, Environment& env) {
  Options options;
  CLI::App app("Exact histograms of bytes, integers and floats, in this process or by a server.",
               env.program);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("-V,--version", env.program + " " HISTOGRAM_VERSION)
      ->description("Print the version and exit");
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  AddServerOptions(app, options.server, options.timeout_s);
  AddCompute(app, "count", "Count files or standard input, here or by --server", kCountFooter,
             options.compute);
  AddCompute(app, "compute", "Count files or standard input by a server", kComputeFooter,
             options.compute);
  AddImage(app, options.image);
  AddBench(app, options.bench);
  AddOthers(app, options);
  if (const char* const line = std::getenv("COMP_LINE");
      line != nullptr && !arguments.empty() && arguments[0] == "completion") {
    size_t cursor = absl::string_view::npos;
    (void)absl::SimpleAtoi(absl::NullSafeStringView(std::getenv("COMP_POINT")), &cursor);
    env.out << Completions(app, absl::string_view(line).substr(0, cursor));
    return kSuccess;
  }
  try {
    ImplyCount(app, env.standard_input, arguments);
    NameFiles(arguments);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
    options.server.in_process =
        app.count("--server") == 0 && (app.got_subcommand("count") || app.got_subcommand("image"));
    CheckServerOptions(app, options);
  } catch (const CLI::Success& success) {
    return app.exit(success, env.out, env.err);
  } catch (const CLI::ParseError& error) {
    const std::string wrong = WhatIsWrong(app, error);
    env.command = HelpFor(app, wrong);
    return UsageError(env, wrong);
  }
  env.command = HelpFor(app, "");
  SetTimeout(env, options.timeout_s);
  try {
    if (app.got_subcommand("count") || app.got_subcommand("compute")) {
      return RunCompute(options.compute, options.server, env);
    }
    if (app.got_subcommand("image")) return RunImage(options.image, options.server, env);
    if (app.got_subcommand("bench")) return RunBench(options.bench, options.server, env);
    if (app.got_subcommand("describe")) return RunDescribe(options.describe, options.server, env);
    if (app.got_subcommand("health")) return RunHealth(options.health, options.server, env);
    env.out << CompletionScript(app);
    return kSuccess;
  } catch (const std::bad_alloc&) {
    return Fail(env, "not enough memory");
  } catch (const std::exception& error) {
    return Fail(env, error.what());
  }
}

}  // namespace histogram::cli
