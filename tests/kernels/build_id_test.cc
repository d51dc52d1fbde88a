#include "kernels/tuning/build_id.h"

#include <elf.h>

#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_tuning.h"
#include "kernels/cpu/registry.h"

namespace histogram::tuning {
namespace {

// One note, as an assembler would write it.
std::vector<uint8_t> Note(uint32_t type, const std::string& name, const std::string& content) {
  const uint32_t header[] = {static_cast<uint32_t>(name.size()),
                             static_cast<uint32_t>(content.size()), type};
  std::vector<uint8_t> note(sizeof(header));
  std::memcpy(note.data(), header, sizeof(header));
  for (const std::string& part : {name, content}) {
    note.insert(note.end(), part.begin(), part.end());
    note.resize((note.size() + 3) / 4 * 4);
  }
  return note;
}

std::vector<uint8_t> Joined(std::vector<uint8_t> a, const std::vector<uint8_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::string kGnu("GNU\0", 4);

TEST(BuildIdTest, IsFoundAmongOtherNotes) {
  const std::vector<uint8_t> id = Note(NT_GNU_BUILD_ID, kGnu, "\x01\xAB\xFF");
  EXPECT_EQ(BuildIdInNotes(id), "01abff");
  EXPECT_EQ(BuildIdInNotes(Joined(Note(NT_GNU_ABI_TAG, kGnu, "12345678"), id)), "01abff");
  EXPECT_EQ(BuildIdInNotes(Joined(Note(NT_GNU_BUILD_ID, std::string("Go\0\0", 4), "x"), id)),
            "01abff");
}

TEST(BuildIdTest, NotesWithoutOne) {
  EXPECT_EQ(BuildIdInNotes({}), "");
  EXPECT_EQ(BuildIdInNotes(Note(NT_GNU_ABI_TAG, kGnu, "12345678")), "");
  EXPECT_EQ(BuildIdInNotes(Note(NT_GNU_BUILD_ID, "GNU", "x")), "") << "an owner without its end";
}

TEST(BuildIdTest, DamagedNotesHaveNone) {
  const std::vector<uint8_t> id = Note(NT_GNU_BUILD_ID, kGnu, "0123456789");
  for (size_t length = 0; length < id.size(); ++length) {
    EXPECT_EQ(BuildIdInNotes(absl::MakeConstSpan(id).first(length)), "") << length;
  }
  std::vector<uint8_t> huge = id;
  std::memset(huge.data(), 0xFF, 8);  // both lengths: their sum wraps around in 32 bits
  EXPECT_EQ(BuildIdInNotes(huge), "");
}

// What the linker wrote into this very program.
TEST(BuildIdTest, OfThisProgram) {
  const std::string id = BuildId();
  ASSERT_GE(id.size(), 16U);
  for (const char c : id) ASSERT_TRUE(std::isxdigit(static_cast<unsigned char>(c)) != 0) << id;
  EXPECT_EQ(BuildId(), id);
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string program((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(program.find(absl::HexStringToBytes(id)), std::string::npos);
}

// A cached table is used only where all of the key is the same: see tuning_table_test.
TEST(BuildIdTest, IsPartOfTheTuningKey) {
  const std::vector<const cpu::CpuKernel*> kernels = {&cpu::Kernels().front()};
  const TuningKey key = cpu::CpuTuningKey(kernels);
  EXPECT_NE(key.build.find(BuildId()), std::string::npos) << key.build;
}

}  // namespace
}  // namespace histogram::tuning
