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

struct Error {
  char message[256] = {};
};

void OnError(png_structp png, png_const_charp message) {
  auto* const error = static_cast<Error*>(png_get_error_ptr(png));
  strncpy(error->message, message, sizeof(error->message) - 1);
  longjmp(png_jmpbuf(png), 1);
}

void OnWarning(png_structp /*png*/, png_const_charp /*message*/) {}

void OnRead(png_structp png, png_bytep data, png_size_t size) {
  auto* const source = static_cast<Source*>(png_get_io_ptr(png));
  const size_t read = source->Read({reinterpret_cast<char*>(data), size});
  if (read < size) png_error(png, "the file is cut off");
}

// An animation's other pictures are in chunks that libpng does not know.
int OnUnknownChunk(png_structp png, png_unknown_chunkp chunk) {
  if (memcmp(chunk->name, "acTL", 4) == 0) *static_cast<bool*>(png_get_user_chunk_ptr(png)) = true;
  return (chunk->name[0] & 0x20) != 0 ? 1 : 0;  // libpng refuses what no reader may leave out
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
  int passes = 1;
  png_size_t row_bytes = 0;
  bool transparent = false;  // by a tRNS chunk
  bool animated = false;
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
  if (format->colour == PNG_COLOR_TYPE_PALETTE) {
    png_set_packing(png);  // a byte for each index: libpng's palette has colours that no file names
  } else {
    png_set_expand(png);  // fewer than 8 bits, and a transparent colour
  }
  png_set_swap(png);  // 16 bits to little-endian
  format->passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  format->channels = png_get_channels(png, info);
  format->row_bytes = png_get_rowbytes(png, info);
  return format->row_bytes == static_cast<png_size_t>(format->width) *
                                  static_cast<png_size_t>(format->channels) *
                                  (format->depth == 16 ? 2 : 1);
}

bool ReadRow(png_structp png, char* row) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_row(png, reinterpret_cast<png_bytep>(row), nullptr);
  return true;
}

bool ReadEnd(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
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

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the PNG is malformed: ", what.empty() ? "bad layout" : what));
}

std::vector<std::string> NotesOf(const Format& format) {
  std::vector<std::string> notes;
  if (format.animated) notes.emplace_back("of the animation only the first picture was counted");
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

// The colours of the palette, and how many bytes each has: those of alpha, too, where there is one.
struct Palette {
  std::string colours;
  size_t colour_bytes = 3;
};

Palette PaletteOf(png_structp png, png_infop info, bool transparent) {
  Palette palette;
  png_colorp colours = nullptr;
  int count = 0;
  png_get_PLTE(png, info, &colours, &count);
  png_bytep alpha = nullptr;
  int alphas = 0;
  if (transparent) {
    png_get_tRNS(png, info, &alpha, &alphas, nullptr);
    palette.colour_bytes = 4;
  }
  for (int i = 0; i < count; ++i) {
    for (const png_byte part : {colours[i].red, colours[i].green, colours[i].blue}) {
      palette.colours.push_back(static_cast<char>(part));
    }
    if (transparent) palette.colours.push_back(static_cast<char>(i < alphas ? alpha[i] : 255));
  }
  return palette;
}

absl::Status AddIndexed(absl::string_view row, const Palette& palette, Image& image) {
  for (const char index : row) {
    const size_t at = static_cast<unsigned char>(index) * palette.colour_bytes;
    if (at >= palette.colours.size()) {
      return Malformed(absl::StrCat("a pixel has colour ", static_cast<unsigned char>(index),
                                    " of a palette of ",
                                    palette.colours.size() / palette.colour_bytes));
    }
    AddPixels(absl::string_view(palette.colours).substr(at, palette.colour_bytes), image);
  }
  return absl::OkStatus();
}

absl::Status ReadPixels(png_structp png, png_infop info, const Format& format, const Error& error,
                        Image& image) {
  const bool indexed = format.colour == PNG_COLOR_TYPE_PALETTE;
  const Palette palette = indexed ? PaletteOf(png, info, format.transparent) : Palette();
  image.channels = EmptyChannels(
      image, ChannelNames(indexed ? static_cast<int>(palette.colour_bytes) : format.channels));
  // Each pass over an interlaced picture adds to its rows.
  std::string rows(format.row_bytes * (format.passes > 1 ? format.height : 1), '\0');
  for (int pass = 1; pass <= format.passes; ++pass) {
    for (size_t y = 0; y < format.height; ++y) {
      char* const row = rows.data() + (format.passes > 1 ? y * format.row_bytes : 0);
      if (!ReadRow(png, row)) return Malformed(error.message);
      if (pass < format.passes) continue;
      const absl::string_view bytes(row, format.row_bytes);
      absl::Status status;
      indexed ? status.Update(AddIndexed(bytes, palette, image)) : AddPixels(bytes, image);
      if (!status.ok()) return status;
    }
  }
  return ReadEnd(png, info) ? absl::OkStatus() : Malformed(error.message);
}

}  // namespace

absl::StatusOr<Image> DecodePng(Source& source) {
  Error error;
  Format format;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &error, OnError, OnWarning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  const absl::Cleanup destroy = [&] { png_destroy_read_struct(&png, &info, nullptr); };
  if (info == nullptr) return absl::ResourceExhaustedError("not enough memory for the PNG");
  png_set_read_fn(png, &source, OnRead);
  png_set_read_user_chunk_fn(png, &format.animated, OnUnknownChunk);
  const std::optional<uint64_t> file_bytes = source.left();
  if (!ReadHead(png, info, &format)) return Malformed(error.message);
  if (absl::Status status = CheckPixels(format.width, format.height); !status.ok()) return status;
  const uint64_t packed_bits = uint64_t{format.width} * static_cast<uint64_t>(format.depth);
  if (file_bytes.has_value() && packed_bits / 8 * format.height > *file_bytes * kInflationMax) {
    return absl::InvalidArgumentError(absl::StrCat("the PNG is cut off: ", *file_bytes,
                                                   " bytes cannot hold ", format.width, " x ",
                                                   format.height, " pixels"));
  }
  Image image = {"PNG", format.width, format.height, format.depth == 16 ? 65535U : 255U, {}, {}};
  if (absl::Status status = ReadPixels(png, info, format, error, image); !status.ok()) {
    return status;
  }
  image.notes = NotesOf(format);
  return image;
}

absl::StatusOr<std::string> EncodeBlackWhitePng(uint32_t width, uint32_t height,
                                                absl::string_view values) {
  Error error;
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &error, OnError, OnWarning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  const absl::Cleanup destroy = [&] { png_destroy_write_struct(&png, &info); };
  if (info == nullptr) return absl::ResourceExhaustedError("not enough memory for the PNG");
  png_set_write_fn(png, &bytes, OnWrite, OnFlush);
  if (!WriteRows(png, info, width, height, reinterpret_cast<png_const_bytep>(values.data()))) {
    return absl::InternalError(absl::StrCat("cannot write the PNG: ", error.message));
  }
  return bytes;
}

}  // namespace histogram::cli
