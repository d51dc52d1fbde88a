// Files of a test: in a folder of its process's own, which goes when the process ends. The same
// test runs in several builds at once, so no name below /tmp may be fixed.
#ifndef HISTOGRAM_TESTS_TEST_PATH_H_
#define HISTOGRAM_TESTS_TEST_PATH_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace histogram::testing_support {

class ProcessFolder {
 public:
  ProcessFolder() : path_(::testing::TempDir() + "/histogram-test-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) path_ = "/no folder could be made in the place for tests";
  }
  ~ProcessFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ProcessFolder(const ProcessFolder&) = delete;
  ProcessFolder& operator=(const ProcessFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace histogram::testing_support

namespace histogram {

// A path of this test's own, below a folder that exists.
inline std::string TestPath(const std::string& name) {
  static const testing_support::ProcessFolder folder;
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string own =
      test == nullptr ? "" : std::string(test->test_suite_name()) + "-" + test->name();
  for (char& c : own) {
    if (c == '/') c = '-';  // of a test with parameters
  }
  return folder.path() + "/" + own + "-" + name;
}

}  // namespace histogram

#endif  // HISTOGRAM_TESTS_TEST_PATH_H_
