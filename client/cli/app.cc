#include "client/cli/app.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <exception>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/bench.h"
#include "client/cli/commands/completion.h"

namespace histogram::cli {

namespace {

// What a file's name says of what is in it; empty: nothing.
std::string FormatOf(const std::string& path) {
  const std::string lower = absl::AsciiStrToLower(path);
  for (const char* const format : {"json", "csv", "svg"}) {
    if (absl::EndsWith(lower, absl::StrCat(".", format))) return format;
  }
  return "";
}

}  // namespace

void AddOutputOptions(CLI::App& command, OutputOptions& options,
                      const std::vector<std::string>& formats) {
  std::string names;
  for (const std::string& format : formats) names += (names.empty() ? "" : "|") + format;
  command.add_option("--format", options.format, "How to write it (default table)")
      ->type_name(names)
      ->check(CLI::Validator(
          [formats, names](std::string& text) {
            const bool known = std::find(formats.begin(), formats.end(), text) != formats.end();
            return known ? std::string() : "\"" + text + "\" must be one of " + names;
          },
          ""));
  command
      .add_option("--output", options.output,
                  "Write to this file, in the format that its name ends in; - is standard output")
      ->type_name("FILE");
  command.parse_complete_callback([&command, &options, formats, names] {
    if (options.output == "-") options.output.clear();
    if (command.get_option("--format")->count() > 0) return;
    const std::string format = FormatOf(options.output);
    if (format.empty()) return;
    if (std::find(formats.begin(), formats.end(), format) == formats.end()) {
      throw CLI::ValidationError(
          "--output", absl::StrCat("this command does not write ", format, ", but ", names));
    }
    options.format = format;
  });
}

namespace {

constexpr char kFooter[] = R"(Examples:
  histogram-client compute book.txt                     a row for each byte value that occurs
  histogram-client compute book.txt --alphabet a:26:6   letters, six to a bin
  histogram-client compute *.bin --bins 16 --statistics --format json
  tar c folder | histogram-client compute -             whatever is piped in, of any length
  histogram-client compute book.txt --format svg --output book.svg
  histogram-client image photo.png --binarize black-and-white.png
  histogram-client --server unix:/run/histogram.sock describe

The server's address is that of --server, else of the environment variable HISTSVC_SERVER, else
127.0.0.1:50051. Exit codes: 0; 2: the command line makes no sense; 1: anything else.)";

constexpr char kServerGroup[] = "Server";

struct Options {
  ServerOptions server;
  ComputeOptions count;
  ComputeOptions compute;
  ImageOptions image;
  DescribeOptions describe;
  HealthOptions health;
  BenchOptions bench;
  std::string shell;
};

void AddServerOptions(CLI::App& app, ServerOptions& options) {
  const char* const group = kServerGroup;
  app.add_option("--server", options.server, "HOST:PORT or unix:PATH (default 127.0.0.1:50051)")
      ->type_name("ADDRESS")
      ->envname("HISTSVC_SERVER")
      ->group(group);
  app.add_option("--timeout", options.timeout_s,
                 "Give up after so many seconds (default: take the time it takes)")
      ->type_name("SECONDS")
      ->check(CLI::Validator(
          [](std::string& text) {
            double seconds = 0;
            const bool good =
                CLI::detail::lexical_cast(text, seconds) && seconds > 0 && std::isfinite(seconds);
            return good ? std::string() : "write a number of seconds above 0";
          },
          ""))
      ->group(group);
  CLI::Option* const tls =
      app.add_flag("--tls", options.tls, "Encrypt; trust the system's CAs")->group(group);
  app.add_option("--tls-ca", options.tls_ca, "Trust the CAs of this PEM file instead")
      ->type_name("FILE")
      ->needs(tls)
      ->group(group);
  CLI::Option* const cert =
      app.add_option("--tls-cert", options.tls_cert, "This client's certificate, PEM")
          ->type_name("FILE")
          ->needs(tls)
          ->group(group);
  CLI::Option* const key = app.add_option("--tls-key", options.tls_key, "Its private key, PEM")
                               ->type_name("FILE")
                               ->needs(cert)
                               ->group(group);
  cert->needs(key);
  app.add_option("--tls-server-name", options.tls_server_name,
                 "The name in the server's certificate, if not that of its address")
      ->type_name("NAME")
      ->needs(tls)
      ->group(group);
  app.add_option("--token-file", options.token_file, "Send the bearer token in this file")
      ->type_name("FILE")
      ->group(group);
}

std::string CheckBinCount(const std::string& text) {
  uint32_t count = 0;
  if (absl::SimpleAtoi(text, &count) && count > 0) return "";
  const bool whole = text.find_first_not_of("0123456789") == std::string::npos;
  return whole && text.find_first_not_of('0') != std::string::npos
             ? absl::StrCat(text, " bins are too many")
             : absl::StrCat("\"", text, "\" must be a whole number >= 1");
}

void AddCompute(CLI::App& app, const char* name, const char* description, ComputeOptions& options) {
  CLI::App& command = *app.add_subcommand(name, description);
  command
      .add_option("files", options.files,
                  "Files; - is standard input, as is no file where something feeds it")
      ->type_name("FILE");
  CLI::Option* const bins =
      command.add_option("--bins", options.bins, "So many bins of equal width over 0..256")
          ->type_name("N")
          ->check(CLI::Validator([](std::string& text) { return CheckBinCount(text); }, ""));
  CLI::Option* const range =
      command.add_option("--range", options.range, "The range of --bins, numpy's way")
          ->type_name("LO:HI")
          ->needs(bins);
  CLI::Option* const edges =
      command
          .add_option("--edges", options.edges, "The bins' edges, increasing; the last is closed")
          ->type_name("A,B,C")
          ->excludes(bins)
          ->excludes(range);
  command
      .add_option("--alphabet", options.alphabet,
                  "COUNT symbols from FIRST on, PER_BIN to a bin; other bytes are ignored")
      ->type_name("FIRST:COUNT:PER_BIN")
      ->excludes(bins)
      ->excludes(range)
      ->excludes(edges);
  command.add_flag("--statistics", options.statistics,
                   "Also mean, median, mode, entropy, Otsu's threshold, ...");
  command.add_option("--quantiles", options.quantiles, "Also these quantiles, each in 0..1")
      ->type_name("Q,Q,Q");
  command.add_option("--rows", options.rows, "At most so many rows of bins in the table; or all")
      ->type_name("N|all");
  AddOutputOptions(command, options.output, {"table", "json", "csv", "svg"});
}

void AddImage(CLI::App& app, ImageOptions& options) {
  CLI::App& command =
      *app.add_subcommand("image", "The histogram of each channel of a PGM, PPM or PNG picture");
  command.add_option("file", options.file, "The picture; - is standard input")
      ->type_name("FILE")
      ->required();
  command
      .add_option("--binarize", options.binarize,
                  "Write the picture in black and white, parted at Otsu's threshold (.png or .pgm)")
      ->type_name("FILE");
  AddOutputOptions(command, options.output, {"table", "json", "csv", "svg"});
}

void AddOthers(CLI::App& app, Options& options) {
  CLI::App& describe =
      *app.add_subcommand("describe", "What the server runs: backends, kernels, limits");
  AddOutputOptions(describe, options.describe.output, {"table", "json"});
  CLI::App& health =
      *app.add_subcommand("health", "Whether the server is ready; exit code 0 if it is");
  health
      .add_option("service", options.health.service,
                  "histogram.v1.HistogramService, liveness or backend/NAME (default: the server)")
      ->type_name("SERVICE");
  health
      .add_option("--http", options.health.http,
                  "Ask /readyz of its metrics port instead: needs no certificate and no token")
      ->type_name("HOST:PORT")
      ->excludes("service");
  CLI::App& completion = *app.add_subcommand("completion", "Print a completion script");
  completion.add_option("shell", options.shell, "bash, zsh or fish")
      ->type_name("SHELL")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

// "histogram FILE" is short for "histogram count FILE": where the first word that is neither an
// option nor its value is a file rather than a command.
void ImplyCount(const CLI::App& app, std::vector<std::string>& arguments) {
  const CLI::App& count = *app.get_subcommand("count");
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "-" || !absl::StartsWith(word, "-")) {
      const auto named = [&](const CLI::App* command) { return command->get_name() == word; };
      if (app.get_subcommands(named).empty() && (word == "-" || access(word.c_str(), F_OK) == 0)) {
        arguments.insert(arguments.begin(), "count");
      }
      return;
    }
    const CLI::Option* option = app.get_option_no_throw(word);
    if (option == nullptr) option = count.get_option_no_throw(word);
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
}

// What is counted in this process needs no certificate and no token: whoever gives one means to
// name a server.
void CheckServerOptions(const CLI::App& app, const Options& options) {
  if (!options.count.in_process || !(app.got_subcommand("count") || app.got_subcommand("image"))) {
    return;
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() == kServerGroup && option->count() > 0 &&
        option->get_name() != "--timeout") {
      throw CLI::ValidationError(option->get_name(),
                                 "needs --server: without one, this process counts");
    }
  }
}

// CLI11 says of a mistyped command only that one is missing.
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_name() != "RequiredError") return error.what();
  if (app.got_subcommand("image")) return "image needs the FILE of a picture";
  if (app.got_subcommand("completion")) return "completion needs a SHELL: bash, zsh or fish";
  if (!app.get_subcommands().empty()) return error.what();
  const std::string commands = "count, compute, image, describe, health, bench or completion";
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty()) return absl::StrCat("name a FILE to count, or a command: ", commands);
  if (absl::StartsWith(rest[0], "-")) return absl::StrCat("there is no option ", rest[0]);
  if (rest[0].find_first_of("*?[") != std::string::npos) {
    return absl::StrCat("no file matches ", rest[0]);
  }
  return absl::StrCat("there is no command \"", rest[0],
                      "\", nor a file of that name; the commands are ", commands);
}

}  // namespace

int Run(std::vector<std::string> arguments, Environment& env) {
  Options options;
  CLI::App app("Exact histograms of bytes, from a histogram server.", env.program);
  app.set_version_flag("--version", env.program + " " HISTOGRAM_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  AddServerOptions(app, options.server);
  AddCompute(app, "count", "Count the bytes of files or standard input, without a server",
             options.count);
  AddCompute(app, "compute", "The same by a server", options.compute);
  AddImage(app, options.image);
  AddBench(app, options.bench);
  AddOthers(app, options);
  try {
    ImplyCount(app, arguments);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
    options.count.in_process = options.image.in_process = app.count("--server") == 0;
    CheckServerOptions(app, options);
  } catch (const CLI::Success& success) {
    return app.exit(success, env.out, env.err);
  } catch (const CLI::ParseError& error) {
    return UsageError(env, WhatIsWrong(app, error));
  }
  try {
    if (app.got_subcommand("count")) return RunCompute(options.count, options.server, env);
    if (app.got_subcommand("compute")) return RunCompute(options.compute, options.server, env);
    if (app.got_subcommand("image")) return RunImage(options.image, options.server, env);
    if (app.got_subcommand("bench")) return RunBench(options.bench, options.server, env);
    if (app.got_subcommand("describe")) return RunDescribe(options.describe, options.server, env);
    if (app.got_subcommand("health")) return RunHealth(options.health, options.server, env);
    env.out << CompletionScript(app, options.shell);
    return kSuccess;
  } catch (const std::bad_alloc&) {
    return Fail(env, "not enough memory");
  } catch (const std::exception& error) {
    return Fail(env, error.what());
  }
}

}  // namespace histogram::cli
