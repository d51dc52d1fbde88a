#include <png.h>

#include <csetjmp>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/cli/picture/image.h"

namespace histogram::cli {
namespace {

// zlib cannot do better than this, so a file that claims more pixels is cut off or lies.
constexpr uint64_t kInflationMax = 1100;

struct Source {
  absl::string_view bytes;
  char error[256] = {};
};

void OnError(png_structp png, png_const_charp message) {
  auto* const source = static_cast<Source*>(png_get_error_ptr(png));
  strncpy(source->error, message, sizeof(source->error) - 1);
  longjmp(png_jmpbuf(png), 1);
}

void OnWarning(png_structp /*png*/, png_const_charp /*message*/) {}

void OnRead(png_structp png, png_bytep data, png_size_t size) {
  auto* const source = static_cast<Source*>(png_get_io_ptr(png));
  if (source->bytes.size() < size) png_error(png, "the file is cut off");
  memcpy(data, source->bytes.data(), size);
  source->bytes.remove_prefix(size);
}

void OnWrite(png_structp png, png_bytep data, png_size_t size) {
  auto* const bytes = static_cast<std::string*>(png_get_io_ptr(png));
  bytes->append(reinterpret_cast<const char*>(data), size);
}

void OnFlush(png_structp /*png*/) {}

struct Format {
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  int depth = 0;
  int colour = 0;
  int channels = 0;
  bool transparent = false;  // by a tRNS chunk
};

// The functions that libpng may jump out of hold no object with a destructor.
bool ReadHead(png_structp png, png_infop info, Format* format) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_info(png, info);
  format->width = png_get_image_width(png, info);
  format->height = png_get_image_height(png, info);
  format->depth = png_get_bit_depth(png, info);
  format->colour = png_get_color_type(png, info);
  format->transparent = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  png_set_expand(png);    // palettes, fewer than 8 bits, and transparent colours
  png_set_scale_16(png);  // rounds; taking the high byte would be off by up to one
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  format->channels = png_get_channels(png, info);
  return png_get_rowbytes(png, info) ==
         static_cast<png_size_t>(format->width) * static_cast<png_size_t>(format->channels);
}

bool ReadRows(png_structp png, png_infop info, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_image(png, rows);
  png_read_end(png, info);
  return true;
}

bool WriteRows(png_structp png, png_infop info, png_uint_32 width, png_uint_32 height,
               png_const_bytep values) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_IHDR(png, info, width, height, 1, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  png_set_packing(png);  // makes a bit of each byte: whether it is not 0
  for (png_uint_32 y = 0; y < height; ++y) png_write_row(png, values + size_t{y} * width);
  png_write_end(png, nullptr);
  return true;
}

absl::Status Malformed(const Source& source) {
  return absl::InvalidArgumentError(
      absl::StrCat("the PNG is malformed: ", source.error[0] != 0 ? source.error : "bad layout"));
}

std::vector<std::string> NotesOf(const Format& format) {
  std::vector<std::string> notes;
  if (format.depth == 16) notes.emplace_back("16-bit samples were scaled to 8 bits");
  if (format.colour == PNG_COLOR_TYPE_PALETTE) {
    notes.emplace_back("the palette's colours were counted");
  } else if (format.depth < 8) {
    notes.push_back(absl::StrCat(format.depth, "-bit samples were scaled to 8 bits"));
  }
  if (format.transparent) notes.emplace_back("the transparent colour became an alpha channel");
  return notes;
}

std::vector<std::string> ChannelNames(int channels) {
  switch (channels) {
    case 1:
      return {"grey"};
    case 2:
      return {"grey", "alpha"};
    case 3:
      return {"red", "green", "blue"};
    default:
      return {"red", "green", "blue", "alpha"};
  }
}

}  // namespace

absl::StatusOr<Image> DecodePng(absl::string_view bytes) {
  Source source = {bytes};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, OnError, OnWarning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  const absl::Cleanup destroy = [&] { png_destroy_read_struct(&png, &info, nullptr); };
  if (info == nullptr) return absl::ResourceExhaustedError("not enough memory for the PNG");
  png_set_read_fn(png, &source, OnRead);
  Format format;
  if (!ReadHead(png, info, &format)) return Malformed(source);
  if (absl::Status status = CheckPixels(format.width, format.height); !status.ok()) return status;
  const uint64_t row_bytes = uint64_t{format.width} * static_cast<uint64_t>(format.channels);
  const uint64_t packed_bits = uint64_t{format.width} * static_cast<uint64_t>(format.depth);
  if (packed_bits / 8 * format.height > bytes.size() * kInflationMax) {
    return absl::InvalidArgumentError(absl::StrCat("the PNG is cut off: ", bytes.size(),
                                                   " bytes cannot hold ", format.width, " x ",
                                                   format.height, " pixels"));
  }
  std::string samples(row_bytes * format.height, '\0');
  std::vector<png_bytep> rows(format.height);
  for (size_t y = 0; y < rows.size(); ++y) {
    rows[y] = reinterpret_cast<png_bytep>(samples.data() + y * row_bytes);
  }
  if (!ReadRows(png, info, rows.data())) return Malformed(source);
  Image image;
  image.format = "PNG";
  image.width = format.width;
  image.height = format.height;
  image.channels = Deinterleave(samples, ChannelNames(format.channels));
  image.notes = NotesOf(format);
  return image;
}

absl::StatusOr<std::string> EncodeBlackWhitePng(uint32_t width, uint32_t height,
                                                absl::string_view values) {
  Source source;
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &source, OnError, OnWarning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  const absl::Cleanup destroy = [&] { png_destroy_write_struct(&png, &info); };
  if (info == nullptr) return absl::ResourceExhaustedError("not enough memory for the PNG");
  png_set_write_fn(png, &bytes, OnWrite, OnFlush);
  if (!WriteRows(png, info, width, height, reinterpret_cast<png_const_bytep>(values.data()))) {
    return absl::InternalError(absl::StrCat("cannot write the PNG: ", source.error));
  }
  return bytes;
}

}  // namespace histogram::cli
