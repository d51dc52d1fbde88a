// A contiguous buffer of a Python object.
#ifndef HISTOGRAM_PYTHON_BUFFER_H_
#define HISTOGRAM_PYTHON_BUFFER_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <span>

namespace histogram::python {

namespace nb = nanobind;

// Holds the memory as long as it lives. One thread at a time, which has the interpreter's lock.
class Buffer {
 public:
  // Without a value where the object's memory is not contiguous. Throws what Python raises.
  static std::optional<Buffer> Contiguous(nb::handle object) {
    Buffer buffer;
    if (PyObject_GetBuffer(object.ptr(), &buffer.view_, PyBUF_ANY_CONTIGUOUS) == 0) return buffer;
    if (PyErr_ExceptionMatches(PyExc_BufferError) == 0 &&
        PyErr_ExceptionMatches(PyExc_ValueError) == 0) {
      throw nb::python_error();
    }
    PyErr_Clear();
    return std::nullopt;
  }
  static Buffer Writable(nb::handle object) {
    Buffer buffer;
    if (PyObject_GetBuffer(object.ptr(), &buffer.view_, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0) {
      throw nb::python_error();
    }
    return buffer;
  }

  Buffer(Buffer&& other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }

  size_t size() const { return static_cast<size_t>(view_.len); }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(view_.buf), size()};
  }
  template <typename T>
  std::span<T> as() const {
    return {static_cast<T*>(view_.buf), size() / sizeof(T)};
  }

 private:
  Buffer() = default;
  Py_buffer view_{};
};

}  // namespace histogram::python

#endif  // HISTOGRAM_PYTHON_BUFFER_H_
