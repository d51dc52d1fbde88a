// A machine without a usable GPU, real or pretended: no backend, a sentence that says why, no
// crash.
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backends.h"
#include "kernels/error.h"
#include "tests/cuda/gpu.h"

namespace histogram::testing {
namespace {

std::string NoteOf(const std::string& fault) {
  std::vector<std::string> notes;
  BackendOptions options;
  options.fault_injection = fault;
  const auto backends = MakeCudaBackends(options, notes);
  EXPECT_TRUE(backends.ok()) << backends.status();
  EXPECT_TRUE(backends.ok() && backends->empty());
  EXPECT_EQ(notes.size(), 1U);
  return notes.empty() ? "" : notes.front();
}

TEST(CudaNoDeviceTest, SaysThatThereIsNoDriver) {
  EXPECT_EQ(NoteOf("no-driver"), "no CUDA driver is installed");
}

TEST(CudaNoDeviceTest, SaysThatTheDriverIsTooOld) {
  const std::string note = NoteOf("driver-too-old");
  EXPECT_TRUE(absl::StrContains(note, "too old")) << note;
  EXPECT_TRUE(absl::StrContains(note, "11.4")) << note;
  EXPECT_TRUE(absl::StrContains(note, "580")) << note;
}

// What this very machine says; on one with a GPU there is nothing to see.
TEST(CudaNoDeviceTest, ThisMachine) {
  std::vector<std::string> notes;
  const auto backends = MakeCudaBackends(BackendOptions(), notes);
  ASSERT_TRUE(backends.ok()) << backends.status();
  std::string why_not;
  if (!FirstGpu(why_not).empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_TRUE(backends->empty());
  ASSERT_FALSE(notes.empty());
  EXPECT_TRUE(absl::StrContains(notes.front(), "driver")) << notes.front();
}

TEST(CudaNoDeviceTest, WrongOptionsAreErrorsEvenWithoutADevice) {
  const auto code_and_field = [](const BackendOptions& options) {
    std::vector<std::string> notes;
    const auto backends = MakeCudaBackends(options, notes);
    return std::pair(backends.status().code(), GetErrorDetail(backends.status()).field);
  };
  const auto invalid = [](const char* field) {
    return std::pair(absl::StatusCode::kInvalidArgument, std::string(field));
  };
  BackendOptions options;
  options.cuda_lanes = 0;
  EXPECT_EQ(code_and_field(options), invalid("cuda_lanes"));
  options = {};
  options.cuda_lane_bytes = uint64_t{4} << 30;
  EXPECT_EQ(code_and_field(options), invalid("cuda_lane_bytes"));
  options = {};
  options.lane_payloads = 0;
  EXPECT_EQ(code_and_field(options), invalid("lane_payloads"));
  options = {};
  options.force_kernel = "no_such_kernel";
  EXPECT_EQ(code_and_field(options), invalid("force_kernel"));
  options = {};
  options.fault_injection = "nonsense";
  EXPECT_EQ(code_and_field(options), invalid("fault_injection"));
}

}  // namespace
}  // namespace histogram::testing
