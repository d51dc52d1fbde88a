// An environment for the command line in tests: what it wrote, and files of its own.
#ifndef HISTOGRAM_TESTS_CLIENT_CLI_WORLD_H_
#define HISTOGRAM_TESTS_CLIENT_CLI_WORLD_H_

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/commands/commands.h"
#include "client/cli/files.h"
#include "tests/test_path.h"

namespace histogram::cli {

class World {
 public:
  int Run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    return cli::Run(std::move(arguments), env_);
  }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }
  Environment& env() { return env_; }

 private:
  std::ostringstream out_;
  std::ostringstream err_;
  Environment env_ = {-1, out_, err_};
};

inline std::string TestFile(const std::string& name, const std::string& bytes) {
  const std::string path = TestPath(name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace histogram::cli

#endif  // HISTOGRAM_TESTS_CLIENT_CLI_WORLD_H_
