// The floating-point mode that the library computes in: round to nearest, keep subnormal numbers,
// no traps. Other libraries of the process may have set another one for the calling thread.
#ifndef HISTOGRAM_KERNELS_FLOAT_MODE_H_
#define HISTOGRAM_KERNELS_FLOAT_MODE_H_

#include <cstdint>

namespace histogram::internal {

// Sets the mode for as long as it lives, then the former one. Costs a few ns if the mode is set
// already. Every public function that compares or computes floating-point numbers begins with one.
// Compilers may move arithmetic on registers past it, but not on memory: see InFloatMode.
class FloatMode {
 public:
#if defined(__x86_64__)
  FloatMode() {
    // NOLINTNEXTLINE(hicpp-no-assembler)
    asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(sse_), "=m"(x87_) : : "memory");
    other_ = (sse_ & ~kSseFlags) != kSse || (x87_ & kX87Mask) != kX87;
    if (other_) Set(kSse, static_cast<uint16_t>((x87_ & ~kX87Mask) | kX87));
  }
  ~FloatMode() {
    asm volatile("" : : : "memory");  // NOLINT(hicpp-no-assembler)
    if (other_) Set(sse_, x87_);
  }

 private:
  // Of MXCSR: what has happened so far; all exceptions masked, and nothing else.
  static constexpr uint32_t kSseFlags = 0x3F, kSse = 0x1F80;
  // Of the control word: exceptions, precision, rounding; 64 bits of mantissa.
  static constexpr uint16_t kX87Mask = 0x0F3F, kX87 = 0x033F;

  static void Set(uint32_t sse, uint16_t x87) {
    // NOLINTNEXTLINE(hicpp-no-assembler)
    asm volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(sse), "m"(x87) : "memory");
  }
  uint32_t sse_;
  uint16_t x87_;
  bool other_;
#elif defined(__aarch64__)
  FloatMode() {
    asm volatile("mrs %0, fpcr" : "=r"(mode_) : : "memory");  // NOLINT(hicpp-no-assembler)
    if (mode_ != 0) Set(0);
  }
  ~FloatMode() {
    asm volatile("" : : : "memory");  // NOLINT(hicpp-no-assembler)
    if (mode_ != 0) Set(mode_);
  }

 private:
  static void Set(uint64_t mode) {
    asm volatile("msr fpcr, %0" : : "r"(mode) : "memory");  // NOLINT(hicpp-no-assembler)
  }
  uint64_t mode_;
#else
  FloatMode() {}
  ~FloatMode() {}
#endif

 public:
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
};

template <typename Work>
__attribute__((noinline)) auto CallApart(const Work& work) {
  return work();
}

// Calls work(), whose numbers may be in registers.
template <typename Work>
auto InFloatMode(const Work& work) {
  const FloatMode mode;
  return CallApart(work);
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_FLOAT_MODE_H_
