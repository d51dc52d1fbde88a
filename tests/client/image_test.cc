#include "client/cli/picture/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <zlib.h>

#include <cstring>
#include <string>
#include <vector>

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
  EXPECT_THAT(DecodeImage("P2 2 1 15 0 15")->notes, ElementsAre(HasSubstr("as they are")));
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

TEST(Netpbm, SixteenBitsAreKept) {
  const auto grey = DecodeImage("P5 2 1 65535\n" + Bytes({0xff, 0xfe, 0x80, 0x00}));
  ASSERT_TRUE(grey.ok());
  EXPECT_EQ(grey->sample_bytes(), 2);
  EXPECT_EQ(grey->channels[0].values, Bytes({0xfe, 0xff, 0x00, 0x80}));
  EXPECT_EQ(ValueAt(*grey, grey->channels[0], 0), 0xfffe);
  EXPECT_THAT(grey->notes, IsEmpty());
  const auto colour = DecodeImage("P3 2 1 65535 1000 1001 1002 65535 65535 65535");
  ASSERT_TRUE(colour.ok());
  EXPECT_EQ(colour->channels[2].values, Bytes({0xea, 3, 0xff, 0xff}));
  const Channel luminance = GreyOf(*colour);
  EXPECT_EQ(ValueAt(*colour, luminance, 0), 1001);
  EXPECT_EQ(ValueAt(*colour, luminance, 1), 65535);
}

TEST(Netpbm, DataAfterThePictureAreRefused) {
  const std::string p5 = "P5 2 1 255\nab", p2 = "P2 2 1 255\n1 2", p6 = "P6 1 1 255\nabc";
  for (const std::string& picture : {p5, p2, p6}) {
    EXPECT_TRUE(DecodeImage(picture).ok());
    EXPECT_TRUE(DecodeImage(picture + "\n").ok());
    EXPECT_TRUE(DecodeImage(picture + "\r\n").ok());
    for (const std::string& more :
         {picture, "\n" + picture, std::string("\0", 1), std::string("x")}) {
      const auto image = DecodeImage(picture + more);
      EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument) << picture << more;
      EXPECT_THAT(std::string(image.status().message()), HasSubstr("goes on after its picture"));
    }
  }
  EXPECT_TRUE(DecodeImage(p2 + " \n # the end\n").ok());
}

TEST(Netpbm, TextLineEndsBeforeBinarySamplesAreRefused) {
  for (const char* const bad : {"P5 2 1 255\r\na\n", "P6 1 1 255\r\nabc"}) {
    EXPECT_THAT(std::string(DecodeImage(bad).status().message()), HasSubstr("ends in CR LF"));
  }
  EXPECT_TRUE(DecodeImage("P5 2 1 255\rab").ok());
  EXPECT_TRUE(DecodeImage("P2\r\n2 1\r\n255\r\n1 2\r\n").ok());
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

std::string Big32(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

std::string Chunk(const std::string& name, const std::string& body) {
  const std::string checked = name + body;
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return Big32(static_cast<uint32_t>(body.size())) + checked + Big32(static_cast<uint32_t>(crc));
}

// A PNG by hand: `rows` with their filter bytes; `more`: chunks before them.
std::string RawPng(uint32_t width, uint32_t height, int depth, int colour, const std::string& rows,
                   const std::string& more = "", int interlace = 0) {
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(rows.data()), rows.size()),
            Z_OK);
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         Chunk("IHDR", Big32(width) + Big32(height) + Bytes({depth, colour, 0, 0, interlace})) +
         more + Chunk("IDAT", packed) + Chunk("IEND", "");
}

TEST(Png, SixteenBitsAreKept) {
  for (const int interlace : {0, 1}) {
    const auto grey = DecodeImage(RawPng(1, 1, 16, 0, Bytes({0, 0x03, 0xe9}), "", interlace));
    ASSERT_TRUE(grey.ok()) << grey.status();
    EXPECT_EQ(grey->maximum, 65535);
    EXPECT_EQ(grey->channels[0].values, Bytes({0xe9, 0x03}));
    EXPECT_THAT(grey->notes, IsEmpty());
  }
  const auto rgba = DecodeImage(RawPng(1, 1, 16, 6, Bytes({0, 1, 2, 3, 4, 5, 6, 7, 8})));
  ASSERT_TRUE(rgba.ok()) << rgba.status();
  EXPECT_EQ(rgba->channels[3].values, Bytes({8, 7}));
}

TEST(Png, APaletteHasTheColoursThatTheFileNames) {
  const std::string two = Chunk("PLTE", Bytes({1, 2, 3, 4, 5, 6}));
  const auto good = DecodeImage(RawPng(4, 1, 2, 3, Bytes({0, 0x11}), two));  // 0, 1, 0, 1
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->channels[1].values, Bytes({2, 5, 2, 5}));
  const auto clear =
      DecodeImage(RawPng(4, 1, 2, 3, Bytes({0, 0x11}), two + Chunk("tRNS", Bytes({9}))));
  ASSERT_TRUE(clear.ok()) << clear.status();
  EXPECT_EQ(clear->channels[3].values, Bytes({9, 255, 9, 255}));
  for (const int depth : {2, 8}) {
    const std::string row = depth == 2 ? Bytes({0, 0x12}) : Bytes({0, 0, 1, 0, 2});
    const auto beyond = DecodeImage(RawPng(4, 1, depth, 3, row, two));
    EXPECT_EQ(beyond.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(beyond.status().message()), HasSubstr("colour 2 of a palette of 2"));
  }
}

TEST(Png, DataAfterThePictureAreRefused) {
  const std::string png = MakePng(2, 1, PNG_FORMAT_GRAY, Bytes({1, 2}));
  EXPECT_TRUE(DecodeImage(png + "\n").ok());
  for (const std::string& more : {png, std::string("x"), std::string(9, '\0')}) {
    EXPECT_THAT(std::string(DecodeImage(png + more).status().message()),
                HasSubstr("goes on after its picture"));
  }
}

TEST(Png, OfAnAnimationTheFirstPictureIsNoted) {
  const auto image = DecodeImage(
      RawPng(1, 1, 8, 0, Bytes({0, 7}), Chunk("acTL", Bytes({0, 0, 0, 2, 0, 0, 0, 0}))));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->notes, ElementsAre(HasSubstr("animation")));
}

TEST(Png, AnUnknownChunkThatMatters) {
  const auto with = [](const std::string& name) {
    return DecodeImage(RawPng(1, 1, 8, 0, Bytes({0, 7}), Chunk(name, Bytes({1})))).status();
  };
  EXPECT_TRUE(with("abCD").ok());
  EXPECT_THAT(std::string(with("ABCD").message()), HasSubstr("unhandled critical chunk"));
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

TEST(Image, BlackAndWhiteComesBack) {
  std::string values;
  for (int i = 0; i < 11 * 3; ++i) values.push_back(i % 3 == 0 ? '\xff' : '\0');
  const auto png = EncodePng(11, 3, values);
  ASSERT_TRUE(png.ok()) << png.status();
  const auto from_png = DecodeImage(*png);
  ASSERT_TRUE(from_png.ok()) << from_png.status();
  EXPECT_EQ(from_png->width, 11);
  EXPECT_EQ(from_png->channels[0].values, values);
  EXPECT_EQ(DecodeImage(EncodePgm(11, 3, values))->channels[0].values, values);
}

TEST(Image, LuminanceWeighsTheColours) {
  const auto image = DecodeImage("P3 4 1 255  255 0 0  0 255 0  0 0 255  255 255 255");
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(GreyOf(*image).values, Bytes({76, 150, 29, 255}));
}

}  // namespace
}  // namespace histogram::cli
