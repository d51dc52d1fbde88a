// A value, or the error that says why there is none.
//
//   histogram::Result<histogram::Binning> binning = histogram::Binning::Even(16, 0.0, 256.0);
//   if (!binning.ok()) return Complain(binning.error().message);
//   Use(*binning);
//
// A Result is as thread-safe as its value.
#ifndef HISTOGRAM_RESULT_H_
#define HISTOGRAM_RESULT_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace histogram {

enum class ErrorCode : uint8_t {
  kBadBinning = 1,   // a part of the binning is invalid
  kTooManyBins = 2,  // more bins than the limit
  kDevice = 3,       // CUDA reported an error, or an argument of <histogram/cuda.h> is invalid
  kBadRows = 4,      // the rows do not fit the samples, or what counts them
};

struct Error {
  ErrorCode code = ErrorCode::kBadBinning;
  std::string message = {};  // a sentence: the field, its value, what it must be
  std::string field = {};    // the field at fault: "even.bin_count"
  uint64_t limit = 0;        // the limit that the value breaks; 0: none

  friend bool operator==(const Error&, const Error&) = default;
};

// Prints the error's message to stderr and ends the process.
[[noreturn]] inline void EndWithError(const Error& error) {
  std::fprintf(stderr, "histogram: the value of a failed Result was asked for: %s\n",
               error.message.c_str());
  std::abort();
}

template <typename T>
class [[nodiscard]] Result {
  static_assert(!std::is_same_v<std::remove_cv_t<T>, Error>);

 public:
  // Implicit, so that a function can return a value or an error directly.
  // NOLINTBEGIN(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok(). Otherwise the process ends with the error's message on stderr.
  const T& value() const& {
    Check();
    return *std::get_if<0>(&state_);
  }
  T& value() & {
    Check();
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    Check();
    return std::move(*std::get_if<0>(&state_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  // REQUIRES: !ok().
  const Error& error() const { return std::get<1>(state_); }

 private:
  void Check() const {
    if (const Error* error = std::get_if<1>(&state_)) EndWithError(*error);
  }

  std::variant<T, Error> state_;
};

}  // namespace histogram

#endif  // HISTOGRAM_RESULT_H_
