#include "client/cli/arguments.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "forms/nearest.h"

namespace histogram::cli {
namespace {

constexpr char kEmpty[] = "must not be empty";

std::string WrongCommand(const CLI::App& app, const std::string& word) {
  // A shell hands a pattern on as it is where no file matches it.
  if (word.find_first_of("*?[") != std::string::npos) return "no file matches " + word;
  const std::vector<std::string> names = CommandNames(app);
  const std::string nearest = Nearest(word, names);
  return absl::StrCat(
      "no file or command is named \"", word, "\"",
      nearest.empty() ? "; the commands are " + absl::StrJoin(names, ", ") : DidYouMean(nearest));
}

std::string WrongOption(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const std::vector<CLI::App*> named = app.get_subcommands();
  const CLI::App* const command = named.empty() ? nullptr : named.front();
  std::vector<std::string> names = OptionNames(app);
  // Without a command the options are those of count.
  const std::vector<std::string> more =
      OptionNames(command != nullptr ? *command : *app.get_subcommand("count"));
  names.insert(names.end(), more.begin(), more.end());
  const std::string nearest = Nearest(name, names);
  if (nearest == name && command != nullptr) {
    return absl::StrCat("write ", name, " after ", command->get_name(), ", whose option it is");
  }
  return absl::StrCat(command == nullptr ? "there is" : command->get_name() + " has", " no option ",
                      name, DidYouMean(nearest));
}

// CLI11 says of a mistyped command only that one is missing.
std::string WhatIsMissing(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty()) {
    return absl::StrCat("name a FILE to count (- is standard input), or a command: ",
                        absl::StrJoin(CommandNames(app), ", "));
  }
  return absl::StartsWith(rest[0], "-") ? WrongOption(app, rest[0]) : WrongCommand(app, rest[0]);
}

std::string WhatIsTooMuch(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  if (rest.empty()) return error.what();
  const auto option = std::find_if(rest.begin(), rest.end(), [](const std::string& word) {
    return word.size() > 1 && word[0] == '-';
  });
  if (option != rest.end()) return WrongOption(app, *option);
  return absl::StrCat("unexpected argument \"", rest[0], "\"");
}

}  // namespace

CLI::Validator Number(bool zero_too) {
  return {[zero_too](std::string& text) -> std::string {
            if (text.empty()) return kEmpty;
            double number = 0;
            const bool good = absl::SimpleAtod(text, &number) && std::isfinite(number) &&
                              (number > 0 || (zero_too && number == 0));
            if (good) absl::StripAsciiWhitespace(&text);
            if (good) return "";
            return absl::StrCat("must be a number ", zero_too ? ">= 0" : "> 0", ", not \"", text,
                                "\"");
          },
          ""};
}

CLI::Validator WholeNumber(uint64_t least, uint64_t most) {
  return {[least, most](std::string& text) -> std::string {
            if (text.empty()) return kEmpty;
            uint64_t number = 0;
            const bool good = absl::SimpleAtoi(text, &number) && number >= least && number <= most;
            const std::string given = std::exchange(text, absl::StrCat(number));
            if (good) return "";
            return absl::StrCat("must be a whole number from ", least, " to ", most, ", not \"",
                                given, "\"");
          },
          ""};
}

CLI::Validator ByteSize() {
  return {[](std::string& text) -> std::string {
            if (text.empty()) return kEmpty;
            constexpr uint64_t kMost = uint64_t{1} << 30;
            const std::string given = text;
            uint64_t bytes = 0;
            try {
              CLI::AsSizeValue{/*kb_is_1000=*/false}(text);
            } catch (const CLI::ValidationError&) {
              text.clear();
            }
            if (absl::SimpleAtoi(text, &bytes) && bytes <= kMost) return "";
            return absl::StrCat("must be a size of at most 1 GiB, such as 4096 or 64KiB, not \"",
                                given, "\"");
          },
          ""};
}

CLI::Validator NotEmpty() {
  return {[](std::string& text) { return std::string(text.empty() ? kEmpty : ""); }, ""};
}

CLI::Validator OneOf(std::vector<std::string> names) {
  return {[names = std::move(names)](std::string& text) -> std::string {
            if (std::find(names.begin(), names.end(), text) != names.end()) return "";
            std::string all = absl::StrJoin(names, ", ");
            if (names.size() > 1) all.replace(all.rfind(','), 1, " or");
            return absl::StrCat("must be ", all, ", not \"", text, "\"");
          },
          ""};
}

CLI::Option* AddChoice(CLI::App& app, const char* name, std::string& value,
                       const std::vector<std::string>& names, const char* description) {
  return AddValue(app, name, value, absl::StrJoin(names, "|"), description)->check(OneOf(names));
}

std::vector<std::string> ListedValues(const CLI::Option& option) {
  std::vector<std::string> values;
  for (const absl::string_view part : absl::StrSplit(option.get_type_name(), '|')) {
    if (!part.empty() && absl::ascii_islower(static_cast<unsigned char>(part[0])) &&
        !absl::StrContains(part, "/")) {
      values.emplace_back(part);
    }
  }
  return values;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error) {
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::RequiredError:
      return WhatIsMissing(app);
    case CLI::ExitCodes::ExtrasError:
      return WhatIsTooMuch(app, error);
    case CLI::ExitCodes::ArgumentMismatch: {
      const std::string text = error.what();
      const std::string option = text.substr(0, text.find(':'));
      return absl::EndsWith(text, "missing") ? option + " needs a value"
                                             : option + " may be given only once";
    }
    case CLI::ExitCodes::ConversionError: {  // "Could not convert: --tls = x", of flags alone
      const std::vector<std::string> words = absl::StrSplit(error.what(), ' ');
      return words.size() > 3 ? words[3] + " takes no value" : error.what();
    }
    default:
      return error.what();
  }
}

}  // namespace histogram::cli
