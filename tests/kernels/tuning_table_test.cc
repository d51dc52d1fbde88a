#include "kernels/tuning/tuning_table.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tests/kernels/payloads.h"
#include "tests/test_path.h"

namespace histogram::tuning {
namespace {

TuningKey Key() {
  return {.backend = "cuda",
          .device = "NVIDIA H200",
          .driver = "570.86",
          .build = "0.1.0, kernels a b",
          .multiprocessors = 132,
          .mig_profile = "",
          .mps_share = "50 %",
          .cpu_model = "A CPU @ 3GHz",
          .lane_bytes = uint64_t{16} << 20,
          .lane_payloads = 4096};
}

TuningTable Table() {
  TuningTable table;
  table.key = Key();
  for (int i = 1; i <= 3; ++i) {
    KernelChoice row;
    row.backend = "cuda";
    row.bin_count_max = 256;
    row.payload_bytes_max = i == 3 ? UINT64_MAX : uint64_t{1000} << i;
    row.payloads_max = 64;
    row.kernel = i == 2 ? "lane_private" : "batch";
    row.cost_ns = 12345 * static_cast<uint64_t>(i);
    row.gigabytes_per_second = 4398.0 / i;
    table.rows.push_back(row);
  }
  return table;
}

bool Same(const KernelChoice& a, const KernelChoice& b) {
  return a.backend == b.backend && a.bin_count_max == b.bin_count_max &&
         a.payload_bytes_max == b.payload_bytes_max && a.payloads_max == b.payloads_max &&
         a.kernel == b.kernel && a.cost_ns == b.cost_ns &&
         a.gigabytes_per_second == b.gigabytes_per_second;
}

void ExpectSame(const TuningTable& a, const TuningTable& b) {
  EXPECT_EQ(a.key, b.key);
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (size_t i = 0; i < a.rows.size(); ++i) EXPECT_TRUE(Same(a.rows[i], b.rows[i])) << i;
}

class TuningCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = TestPath("tuning");
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string Path(const TuningKey& key) const { return directory_ + "/" + CacheFileName(key); }

  std::string directory_;
};

TEST(TuningTableTest, ReadsWhatItWrites) {
  const std::vector<TuningTable> tables = {Table(), TuningTable()};
  const auto read = ParseTuningTables(FormatTuningTables(tables));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2U);
  ExpectSame(read->at(0), tables[0]);
  ExpectSame(read->at(1), tables[1]);
  EXPECT_TRUE(ParseTuningTables(FormatTuningTables({}))->empty());
}

TEST(TuningTableTest, ControlCharactersCannotForgeLines) {
  TuningTable table = Table();
  table.key.device = "x\nrow uint8 1 1 1 evil 1 1";
  const auto read = ParseTuningTables(FormatTuningTables({table}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at(0).key.device, "x row uint8 1 1 1 evil 1 1");
  EXPECT_EQ(read->at(0).rows.size(), 3U);
  EXPECT_EQ(FirstDifference(read->at(0).key, table.key), "") << "compared as they are written";
}

TEST(TuningTableTest, AnythingElseIsRefused) {
  const std::string good = FormatTuningTables({Table()});
  const std::vector<std::string> bad = {
      "",
      "\n",
      "histogram-tuning 2\n",
      good + "x",
      good + "\n",
      good.substr(0, good.size() - 1),
      good.substr(0, good.size() / 2),
      absl::StrReplaceAll(good, {{"multiprocessors 132", "multiprocessors many"}}),
      absl::StrReplaceAll(good, {{"multiprocessors 132", "multiprocessors -1"}}),
      absl::StrReplaceAll(good, {{"driver ", "river "}}),
      absl::StrReplaceAll(good, {{"row uint8 256", "row uint8 256x"}}),
      absl::StrReplaceAll(good, {{"row uint8 256", "row uint16 256"}}),
      absl::StrReplaceAll(good, {{"row uint8 256", "row uint8 99999999999"}}),
      absl::StrReplaceAll(good, {{"lane_private 24690 2199", "lane_private 24690 nan"}}),
      absl::StrReplaceAll(good, {{"lane_private 24690 2199", "lane_private 24690 -1"}}),
      absl::StrReplaceAll(good, {{"lane_private 24690 2199", "lane_private 24690"}}),
      absl::StrReplaceAll(good, {{"lane_private 24690 2199", " 24690 2199"}}),
      absl::StrReplaceAll(good, {{"rows 3", "rows 2"}}),
      absl::StrReplaceAll(good, {{"\n", "\r\n"}})};
  for (const std::string& text : bad) {
    ASSERT_NE(text, good);
    const auto read = ParseTuningTables(text);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(read.status().message(), "line ")) << read.status();
  }
}

// Whatever bytes a file holds: an answer, no crash.
TEST(TuningTableTest, DamagedTextIsAnsweredOrRefused) {
  const std::string good = FormatTuningTables({Table(), Table()});
  testing::Random random(5);
  for (int round = 0; round < 5000; ++round) {
    std::string text = good;
    for (uint64_t i = 0; i <= random.Below(4); ++i) {
      const size_t at = random.Below(text.size());
      switch (random.Below(3)) {
        case 0:
          text[at] = static_cast<char>(random.Next());
          break;
        case 1:
          text.erase(at, random.Below(20));
          break;
        default:
          text.insert(at, text.substr(random.Below(text.size()), random.Below(50)));
      }
      if (text.empty()) break;
    }
    const auto read = ParseTuningTables(text);
    if (read.ok()) {
      EXPECT_TRUE(ParseTuningTables(FormatTuningTables(*read)).ok());
    }
  }
}

TEST_F(TuningCacheTest, KeepsATable) {
  EXPECT_EQ(LoadFromCache(directory_, Key()).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(SaveToCache(directory_, Table()).ok());
  const auto rows = LoadFromCache(directory_, Key());
  ASSERT_TRUE(rows.ok()) << rows.status();
  ExpectSame({Key(), *rows}, Table());
  // Nothing but the table stays behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

std::vector<TuningKey> DifferentKeys() {
  std::vector<TuningKey> keys(10, Key());
  keys[0].backend = "cpu";
  keys[1].device = "NVIDIA H100";
  keys[2].driver = "570.87";
  keys[3].build = "0.1.1";
  keys[4].multiprocessors = 66;
  keys[5].mig_profile = "1g.18gb";
  keys[6].mps_share = "25 %";
  keys[7].cpu_model = "B";
  keys[8].lane_bytes = 1;
  keys[9].lane_payloads = 1;
  return keys;
}

TEST_F(TuningCacheTest, AnyOtherKeyIsAnotherTable) {
  ASSERT_TRUE(SaveToCache(directory_, Table()).ok());
  const std::vector<std::string> parts = {
      "backend",     "device",    "driver",    "build",      "multiprocessors",
      "mig_profile", "mps_share", "cpu_model", "lane_bytes", "lane_payloads"};
  for (size_t i = 0; i < parts.size(); ++i) {
    const TuningKey other = DifferentKeys()[i];
    EXPECT_EQ(FirstDifference(Key(), other), parts[i]);
    EXPECT_NE(CacheFileName(Key()), CacheFileName(other));
    EXPECT_EQ(LoadFromCache(directory_, other).status().code(), absl::StatusCode::kNotFound);
  }
}

// The file name is only a hash: the key inside decides.
TEST_F(TuningCacheTest, TheKeyInsideDecides) {
  ASSERT_TRUE(SaveToCache(directory_, Table()).ok());
  for (const TuningKey& other : DifferentKeys()) {
    std::filesystem::copy_file(Path(Key()), Path(other));
    const auto rows = LoadFromCache(directory_, other);
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kNotFound);
    EXPECT_TRUE(absl::StrContains(rows.status().message(), FirstDifference(Key(), other)));
  }
}

TEST_F(TuningCacheTest, DamageIsSaid) {
  ASSERT_TRUE(SaveToCache(directory_, Table()).ok());
  std::filesystem::resize_file(Path(Key()), 100);
  EXPECT_EQ(LoadFromCache(directory_, Key()).status().code(), absl::StatusCode::kInvalidArgument);
  std::ofstream(Path(Key())) << FormatTuningTables({Table(), Table()});
  EXPECT_EQ(LoadFromCache(directory_, Key()).status().code(), absl::StatusCode::kInvalidArgument);
  std::ofstream(Path(Key())) << std::string(2 << 20, 'x');
  EXPECT_EQ(LoadFromCache(directory_, Key()).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(SaveToCache(directory_, Table()).ok());
  EXPECT_TRUE(LoadFromCache(directory_, Key()).ok());
}

TEST_F(TuningCacheTest, AFullDiskLeavesNothingBehind) {
  std::filesystem::create_directory(directory_);
  // Where the table is written aside: a file that takes nothing.
  const std::string aside = Path(Key()) + "." + std::to_string(getpid());
  std::filesystem::create_symlink("/dev/full", aside);
  EXPECT_EQ(SaveToCache(directory_, Table()).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(TuningCacheTest, DirectoryThatCannotBeMade) {
  EXPECT_EQ(SaveToCache(directory_ + "/no/such/parent", Table()).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(SaveToCache("/dev/null", Table()).code(), absl::StatusCode::kUnavailable);
}

TEST_F(TuningCacheTest, FileMadeElsewhere) {
  std::filesystem::create_directory(directory_);
  const std::string path = directory_ + "/shipped";
  EXPECT_EQ(LoadTuningFile(path).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(LoadTuningFile(path).status().message(), path));
  std::ofstream(path) << "something else\n";
  EXPECT_TRUE(absl::StrContains(LoadTuningFile(path).status().message(), path));
  std::ofstream(path) << FormatTuningTables({Table()});
  ASSERT_TRUE(LoadTuningFile(path).ok());
  EXPECT_EQ(LoadTuningFile(path)->size(), 1U);
}

}  // namespace
}  // namespace histogram::tuning
