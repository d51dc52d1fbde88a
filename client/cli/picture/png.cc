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
  auto* const bytes = static_cast<absl::string_view*>(png_get_io_ptr(png));
  if (bytes->size() < size) png_error(png, "the file is cut off");
  memcpy(data, bytes->data(), size);
  bytes->remove_prefix(size);
}

// An animation's other pictures are in chunks that libpng does not know.
int OnUnknownChunk(png_structp png, png_unknown_chunkp chunk) {
  if (memcmp(chunk->name, "acTL", 4) == 0) *static_cast<bool*>(png_get_user_chunk_ptr(png)) = true;
  return (chunk->name[0] & 0x20) != 0 ? 1 : 0;  // libpng refuses what no reader may leave out
}

// What the first chunk says.
struct PngHeader {
  uint32_t width = 0;
  uint32_t height = 0;
  int depth = 0;
  int colour = 0;
};

// libpng may jump out of it, so it holds no object with a destructor.
bool ReadAll(png_structp png, png_infop info, int transforms) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_png(png, info, transforms | PNG_TRANSFORM_SWAP_ENDIAN, nullptr);  // to little-endian
  return true;
}

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the PNG is malformed: ", what.empty() ? "bad layout" : what));
}

absl::StatusOr<PngHeader> ReadPngHeader(absl::string_view bytes) {
  constexpr size_t kHeaderBytes = 33;  // with the file's signature
  if (bytes.size() < kHeaderBytes || bytes.substr(12, 4) != "IHDR") {
    return Malformed("it has no header");
  }
  const auto number = [&](size_t at) {
    return png_get_uint_32(reinterpret_cast<png_const_bytep>(&bytes[at]));
  };
  return PngHeader{number(16), number(20), bytes[24], bytes[25]};
}

std::vector<std::string> NotesOf(const PngHeader& header, bool animated, size_t channels) {
  std::vector<std::string> notes;
  if (animated) notes.emplace_back("of the animation only the first picture was counted");
  if (header.colour == PNG_COLOR_TYPE_PALETTE) {
    notes.emplace_back("the palette's colours were counted");
  } else if (header.depth < 8) {
    notes.push_back(absl::StrCat(header.depth, "-bit samples were scaled to 8 bits"));
  }
  const bool transparent = channels % 2 == 0 && (header.colour & PNG_COLOR_MASK_ALPHA) == 0;
  if (transparent) notes.emplace_back("the transparent colour became an alpha channel");
  return notes;
}

std::vector<std::string> ChannelNames(size_t channels) {
  std::vector<std::string> names = {"red", "green", "blue"};
  if (channels < 3) names = {"grey"};
  if (channels % 2 == 0) names.emplace_back("alpha");
  return names;
}

// The bytes of each colour of the palette: those of alpha, too, where there is one.
std::vector<std::string> PaletteOf(png_structp png, png_infop info) {
  png_colorp colours = nullptr;
  int count = 0;
  png_get_PLTE(png, info, &colours, &count);
  png_bytep alpha = nullptr;
  int alphas = 0;
  const bool transparent = png_get_tRNS(png, info, &alpha, &alphas, nullptr) != 0;
  std::vector<std::string> palette;
  for (int i = 0; i < count; ++i) {
    std::string& colour = palette.emplace_back();
    for (const png_byte part : {colours[i].red, colours[i].green, colours[i].blue}) {
      colour.push_back(static_cast<char>(part));
    }
    if (transparent) colour.push_back(static_cast<char>(i < alphas ? alpha[i] : 255));
  }
  return palette;
}

// Sets interleaved samples in the image's channels, from their byte `at` on. REQUIRES: whole
// pixels.
void SetPixels(absl::string_view samples, size_t at, Image& image) {
  if (image.channels.size() == 1) {
    samples.copy(&image.channels[0].values[at], samples.size());
    return;
  }
  const size_t bytes = image.sample_bytes();
  for (size_t from = 0; from < samples.size(); at += bytes) {
    for (Channel& channel : image.channels) {
      for (size_t i = 0; i < bytes; ++i) channel.values[at + i] = samples[from++];
    }
  }
}

absl::Status AddRows(png_structp png, png_infop info, bool indexed, Image& image) {
  const std::vector<std::string> palette =
      indexed ? PaletteOf(png, info) : std::vector<std::string>();
  if (indexed && palette.empty()) return Malformed("");
  const size_t channels = indexed ? palette[0].size() : png_get_channels(png, info);
  const size_t row_bytes = png_get_rowbytes(png, info);
  if (row_bytes != size_t{image.width} * (indexed ? 1 : channels * image.sample_bytes())) {
    return Malformed("");
  }
  image.channels = EmptyChannels(image, ChannelNames(channels));
  png_byte* const* const rows = png_get_rows(png, info);
  std::string colours;
  for (size_t y = 0; y < image.height; ++y) {
    const absl::string_view row(reinterpret_cast<const char*>(rows[y]), row_bytes);
    colours.clear();
    for (size_t x = 0; indexed && x < row_bytes; ++x) {
      if (rows[y][x] >= palette.size()) {
        return Malformed(
            absl::StrCat("a pixel has colour ", rows[y][x], " of a palette of ", palette.size()));
      }
      colours += palette[rows[y][x]];
    }
    SetPixels(indexed ? colours : row, y * image.width * image.sample_bytes(), image);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Image> DecodePng(absl::string_view& bytes) {
  const absl::StatusOr<PngHeader> header = ReadPngHeader(bytes);
  if (!header.ok()) return header.status();
  const auto [width, height, depth, colour] = *header;
  if (absl::Status status = CheckPixels(width, height); !status.ok()) return status;
  const uint64_t packed_bits = uint64_t{width} * static_cast<uint64_t>(depth);
  if (packed_bits / 8 * height > bytes.size() * kInflationMax) {
    return absl::InvalidArgumentError(absl::StrCat("the PNG is cut off: ", bytes.size(),
                                                   " bytes cannot hold ", width, " x ", height,
                                                   " pixels"));
  }
  Error error;
  bool animated = false;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &error, OnError, OnWarning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  const absl::Cleanup destroy = [&] { png_destroy_read_struct(&png, &info, nullptr); };
  if (info == nullptr) return absl::ResourceExhaustedError("not enough memory for the PNG");
  png_set_read_fn(png, &bytes, OnRead);
  png_set_read_user_chunk_fn(png, &animated, OnUnknownChunk);
  // A byte for each index, since libpng's palette has colours that no file names. Of others fewer
  // than 8 bits are made 8, and a transparent colour a channel.
  const bool indexed = colour == PNG_COLOR_TYPE_PALETTE;
  if (!ReadAll(png, info, indexed ? PNG_TRANSFORM_PACKING : PNG_TRANSFORM_EXPAND)) {
    return Malformed(error.message);
  }
  Image image = {"PNG", width, height, depth == 16 ? 65535U : 255U, {}, {}};
  if (absl::Status status = AddRows(png, info, indexed, image); !status.ok()) {
    return status;
  }
  image.notes = NotesOf(*header, animated, image.channels.size());
  return image;
}

absl::StatusOr<std::string> EncodePng(uint32_t width, uint32_t height, absl::string_view values) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_GRAY;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, values.data(), 0, nullptr) == 0) {
    return absl::InternalError(absl::StrCat("cannot write the PNG: ", image.message));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace histogram::cli
