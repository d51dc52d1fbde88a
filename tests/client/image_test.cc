#include "client/cli/picture/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace histogram::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Bytes(std::vector<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

// A PNG by libpng's simple interface.
std::string MakePng(uint32_t width, uint32_t height, int format, const std::string& samples) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = static_cast<png_uint_32>(format);
  png_alloc_size_t size = 0;
  EXPECT_NE(png_image_write_get_memory_size(image, size, 0, samples.data(), 0, nullptr), 0);
  std::string png(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&image, png.data(), &size, 0, samples.data(), 0, nullptr), 0);
  png.resize(size);
  return png;
}

TEST(Netpbm, ReadsEachKind) {
  const auto p5 = DecodeImage("P5 2 2 255\n" + Bytes({0, 10, 200, 255}));
  ASSERT_TRUE(p5.ok()) << p5.status();
  EXPECT_EQ(p5->format, "PGM");
  EXPECT_EQ(p5->channels[0].values, Bytes({0, 10, 200, 255}));
  EXPECT_THAT(p5->notes, IsEmpty());
  const auto p2 = DecodeImage("P2\n# a comment\n2 # another\n1\n255\n7\n 8 ");
  ASSERT_TRUE(p2.ok()) << p2.status();
  EXPECT_EQ(p2->channels[0].values, Bytes({7, 8}));
  const auto p6 = DecodeImage("P6 2 1 255 " + Bytes({1, 2, 3, 4, 5, 6}));
  ASSERT_TRUE(p6.ok()) << p6.status();
  ASSERT_EQ(p6->channels.size(), 3);
  EXPECT_EQ(p6->channels[1].name, "green");
  EXPECT_EQ(p6->channels[1].values, Bytes({2, 5}));
  const auto p3 = DecodeImage("P3 1 1 255 1 2 3");
  ASSERT_TRUE(p3.ok()) << p3.status();
  EXPECT_EQ(p3->channels[2].values, Bytes({3}));
}

TEST(Netpbm, SmallAndLargeMaximaAreNoted) {
  const auto small = DecodeImage("P2 2 1 15 0 15");
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->channels[0].values, Bytes({0, 15}));
  EXPECT_THAT(small->notes, ElementsAre(HasSubstr("as they are")));
  const auto large = DecodeImage("P5 2 1 65535\n" + Bytes({0xff, 0xff, 0x80, 0x00}));
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(large->channels[0].values, Bytes({255, 128}));
  EXPECT_THAT(large->notes, ElementsAre(HasSubstr("scaled to 8 bits")));
}

TEST(Netpbm, RefusesMalformedFiles) {
  for (const std::string& bad : {std::string("P5"),
                                 std::string("P5 1"),
                                 std::string("P5 1 1"),
                                 std::string("P5 1 1 255"),
                                 std::string("P5 1 1 255\n"),
                                 std::string("P5 2 2 255\nabc"),
                                 std::string("P5 0 1 255\n"),
                                 std::string("P5 -1 1 255\nx"),
                                 std::string("P5 1 1 0\nx"),
                                 std::string("P5 1 1 65536\nxx"),
                                 std::string("P5 4294967295 4294967295 255\nx"),
                                 std::string("P5 99999999999999999999 1 1\nx"),
                                 std::string("P5 2147483648 2147483648 255\nx"),
                                 std::string("P5 20000 20000 255\nx"),
                                 std::string("P2 2 2 255 1 2 3"),
                                 std::string("P2 1 1 255 x"),
                                 std::string("P2 1 1 255 256"),
                                 std::string("P2 1 1 15 16"),
                                 std::string("P5 1 1 15\n\x10"),
                                 std::string("P2 1 1 255 -1"),
                                 std::string("P3 1 1 255 1 2"),
                                 std::string("P6 1 1 255\nab"),
                                 std::string("P5 1 1 255x"),
                                 std::string("P4 8 1\nx"),
                                 std::string("P7\n"),
                                 std::string("P1 1 1 1"),
                                 std::string("P5#"),
                                 std::string("P2 20000 20000 255 1 2 3")}) {
    const auto image = DecodeImage(bad);
    EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Netpbm, EveryCutIsRefused) {
  const std::string whole = "P6 3 2 255\n" + std::string(18, 'x');
  ASSERT_TRUE(DecodeImage(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeImage(whole.substr(0, size)).ok()) << size;
  }
}

TEST(Png, ReadsEachKind) {
  const auto grey = DecodeImage(MakePng(2, 2, PNG_FORMAT_GRAY, Bytes({0, 9, 200, 255})));
  ASSERT_TRUE(grey.ok()) << grey.status();
  EXPECT_EQ(grey->format, "PNG");
  EXPECT_EQ(grey->channels[0].values, Bytes({0, 9, 200, 255}));
  const auto rgba =
      DecodeImage(MakePng(2, 1, PNG_FORMAT_RGBA, Bytes({1, 2, 3, 255, 5, 6, 7, 128})));
  ASSERT_TRUE(rgba.ok()) << rgba.status();
  ASSERT_EQ(rgba->channels.size(), 4);
  EXPECT_EQ(rgba->channels[2].values, Bytes({3, 7}));
  EXPECT_EQ(rgba->channels[3].name, "alpha");
  EXPECT_EQ(rgba->channels[3].values, Bytes({255, 128}));
}

TEST(Png, SixteenBitsAreScaledAndNoted) {
  const auto linear = DecodeImage(MakePng(1, 1, PNG_FORMAT_LINEAR_Y, Bytes({0xff, 0xff})));
  ASSERT_TRUE(linear.ok()) << linear.status();
  EXPECT_EQ(linear->channels[0].values, Bytes({255}));
  EXPECT_THAT(linear->notes, ElementsAre(HasSubstr("16-bit")));
}

TEST(Png, EveryCutIsRefused) {
  const std::string whole = MakePng(8, 8, PNG_FORMAT_RGB, std::string(192, 'p'));
  ASSERT_TRUE(DecodeImage(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeImage(whole.substr(0, size)).ok()) << size;
  }
}

TEST(Png, ADamagedByteIsRefusedOrHarmless) {
  const std::string whole = MakePng(8, 8, PNG_FORMAT_RGB, std::string(192, 'p'));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const auto image = DecodeImage(damaged);
    // What decodes after all (a damaged chunk that is not needed) has the picture's size.
    if (image.ok()) {
      EXPECT_EQ(image->channels[0].values.size(), 64) << at;
    }
  }
}

TEST(Png, ASmallFileThatClaimsMuchIsRefused) {
  std::string png = MakePng(8, 8, PNG_FORMAT_GRAY, std::string(64, 'p'));
  // 16384 x 16384 in the header, with the right checksum.
  const std::string header = "IHDR" + Bytes({0, 0, 0x40, 0, 0, 0, 0x40, 0, 8, 0, 0, 0, 0});
  uint32_t crc = 0xffffffff;
  for (const char c : header) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xedb88320U : crc >> 1;
  }
  crc = ~crc;
  png.replace(12, header.size(), header);
  for (size_t i = 0; i < 4; ++i)
    png[12 + header.size() + i] = static_cast<char>(crc >> (24 - 8 * i));
  const auto image = DecodeImage(png);
  EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(image.status().message()), HasSubstr("cannot hold 16384 x 16384"));
}

TEST(Image, OtherFilesAreRefused) {
  for (const char* const bad : {"", "P", "GIF89a", "\x89PNG", "hello"}) {
    EXPECT_EQ(DecodeImage(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Image, KnowsFormatsThatItDoesNotRead) {
  EXPECT_EQ(ForeignFormat("\xff\xd8\xff\xe1"), "JPEG");
  EXPECT_EQ(ForeignFormat("GIF87a"), "GIF");
  EXPECT_EQ(ForeignFormat(absl::string_view("II*\0", 4)), "TIFF");
  EXPECT_EQ(ForeignFormat("RIFF1234WEBPVP8 "), "WebP");
  for (const char* const other : {"", "RIFF", "RIFF1234WAVE", "P5 1 1 255 x", "hello"}) {
    EXPECT_EQ(ForeignFormat(other), "") << other;
  }
}

TEST(Image, BlackAndWhiteComesBack) {
  // 11 pixels a row: the bits of a row end inside a byte.
  std::string values;
  for (int i = 0; i < 11 * 3; ++i) values.push_back(i % 3 == 0 ? '\xff' : '\0');
  const auto png = EncodeBlackWhitePng(11, 3, values);
  ASSERT_TRUE(png.ok()) << png.status();
  const auto from_png = DecodeImage(*png);
  ASSERT_TRUE(from_png.ok()) << from_png.status();
  EXPECT_EQ(from_png->width, 11);
  EXPECT_EQ(from_png->channels[0].values, values);
  EXPECT_THAT(from_png->notes, ElementsAre(HasSubstr("1-bit")));
  EXPECT_EQ(DecodeImage(EncodePgm(11, 3, values))->channels[0].values, values);
}

TEST(Image, LuminanceWeighsTheColours) {
  const auto image = DecodeImage("P3 4 1 255  255 0 0  0 255 0  0 0 255  255 255 255");
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(GreyOf(*image).values, Bytes({76, 150, 29, 255}));
}

}  // namespace
}  // namespace histogram::cli
