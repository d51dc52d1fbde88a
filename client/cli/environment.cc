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

size_t OutputColumns(const Environment& env, const OutputOptions& output) {
  return (output.output.empty() ? env.out_terminal : Terminal()).columns;
}

}  // namespace histogram::cli
