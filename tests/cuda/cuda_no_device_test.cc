// A machine without a usable GPU, real or pretended: no backend, a sentence that says why, no
// crash.
#include <histogram/cuda.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cuda/backend/cuda_backends.h"
#include "kernels/cuda/backend/cuda_tuning.h"
#include "kernels/cuda/backend/lane_threads.h"
#include "kernels/error.h"
#include "kernels/tuning/selector.h"
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

TEST(CudaNoDeviceTest, AWrongFaultIsAnErrorEvenWithoutADevice) {
  BackendOptions options;
  options.fault_injection = "nonsense";
  std::vector<std::string> notes;
  const absl::Status status = MakeCudaBackends(options, notes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetail(status).field, "fault_injection");
}

// A row is chosen for batches that resemble what was measured for it.
TEST(CudaNoDeviceTest, SmallBatchesAreChosenForByWhatResemblesThem) {
  const BackendOptions options;
  std::vector<KernelChoice> rows;
  std::vector<tuning::TuneCell> cells = cuda::TuningCells(options);
  std::vector<std::string> kernels;  // one for each cell
  for (size_t i = 0; i < cells.size(); ++i) {
    kernels.push_back(absl::StrCat(i));
    rows.push_back({.backend = "cuda:0",
                    .bin_count_max = kBinCountMax,
                    .payload_bytes_max = cells[i].payload_bytes_max,
                    .payloads_max = cells[i].payloads_max,
                    .kernel = kernels.back()});
  }
  const tuning::Selector selector(kernels, rows);
  constexpr struct {
    uint64_t bytes;
    uint32_t count, least, most;  // payloads of the cell that decides
  } kBatches[] = {{1024, 1000, 512, 2048}, {1024, 40, 32, 128}, {4096, 64, 32, 128},
                  {4096, 1024, 256, 4096}, {16384, 10, 8, 32},  {20480, 100, 32, 128},
                  {100, 1, 1, 1},          {1024, 1, 1, 1},     {4096, 1, 1, 1}};
  for (const auto& batch : kBatches) {
    Workload workload;
    workload.payload_bytes = batch.bytes;
    workload.payload_count = batch.count;
    workload.batch_bytes = batch.bytes * batch.count;
    const Workload& decides = cells[selector.Choose(workload).value()].measured;
    EXPECT_GE(decides.payload_count, batch.least) << batch.bytes << " x " << batch.count;
    EXPECT_LE(decides.payload_count, batch.most) << batch.bytes << " x " << batch.count;
    EXPECT_GE(decides.payload_bytes, batch.bytes) << batch.bytes << " x " << batch.count;
    EXPECT_LE(decides.payload_bytes, batch.bytes * 4) << batch.bytes << " x " << batch.count;
  }
}

// Only what CUDA says of a stray kernel takes the other GPUs along.
TEST(CudaNoDeviceTest, ErrorsThatSpoilTheProcess) {
  EXPECT_TRUE(cuda::SpoilsProcess(cuda::ToStatus(cudaErrorIllegalAddress, "a copy")));
  EXPECT_FALSE(cuda::SpoilsProcess(cuda::ToStatus(cudaErrorECCUncorrectable, "a copy")));
  EXPECT_FALSE(cuda::SpoilsProcess(cuda::ToStatus(cudaErrorMemoryAllocation, "a lane")));
  EXPECT_FALSE(cuda::SpoilsProcess(absl::OkStatus()));
}

TEST(CudaNoDeviceTest, AFateIsSharedOnce) {
  cuda::SharedFate fate;
  const auto a = std::make_shared<cuda::LanesShared>(), b = std::make_shared<cuda::LanesShared>();
  fate.Join(a);
  fate.Join(std::make_shared<cuda::LanesShared>());  // gone before the process is spoiled
  fate.Join(b);
  EXPECT_TRUE(a->up && b->up);
  fate.Spoil("x");
  fate.Spoil("y");
  for (cuda::LanesShared* const shared : {a.get(), b.get()}) {
    EXPECT_FALSE(shared->up);
    MutexLock lock(shared->mutex);
    EXPECT_EQ(shared->why_down, "x");
  }
}

TEST(CudaNoDeviceTest, APlanOfBytesIsAnError) {
  const Result<DeviceRows> rows = DeviceRows::Make(Plan(), {.window = 16}, 64);
  ASSERT_FALSE(rows.ok());
  EXPECT_TRUE(absl::StrContains(rows.error().message, "OfBytes")) << rows.error().message;
}

}  // namespace
}  // namespace histogram::testing
