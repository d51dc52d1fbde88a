#include "client/cli/environment.h"

#include "client/cli/files.h"
#include "client/cli/render/text.h"

namespace histogram::cli {

void Note(Environment& env, absl::string_view message) {
  env.err << env.program << ": " << SafeText(message) << "\n" << std::flush;
}

int Fail(Environment& env, absl::string_view message) {
  Note(env, message);
  return kFailure;
}

int UsageError(Environment& env, absl::string_view message) {
  Note(env, message);
  env.err << "Run " << env.program << " " << env.command << (env.command.empty() ? "" : " ")
          << "--help for more information.\n"
          << std::flush;
  return kUsage;
}

int Emit(Environment& env, const std::string& output, const std::string& text) {
  if (output.empty()) {
    env.out << text;  // the caller of all looks after its errors
    return kSuccess;
  }
  if (absl::Status status = WriteFile(output, text, env.deadline); !status.ok()) {
    return Fail(env, status.message());
  }
  return kSuccess;
}

Terminal OutputTerminal(const Environment& env, const OutputOptions& output) {
  if (output.output.empty()) return env.out_terminal;
  Terminal file;
  file.utf8 = env.out_terminal.utf8;
  if (!env.out_terminal.interactive) file.columns = env.out_terminal.columns;
  return file;
}

}  // namespace histogram::cli
