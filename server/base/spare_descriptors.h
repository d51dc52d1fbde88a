// Keeps file descriptors back for a thread that has to go on while the process has no others.
//
// Used by one thread.
#ifndef HISTOGRAM_SERVER_BASE_SPARE_DESCRIPTORS_H_
#define HISTOGRAM_SERVER_BASE_SPARE_DESCRIPTORS_H_

#include <cerrno>
#include <cstddef>
#include <vector>

namespace histogram::server {

class SpareDescriptors {
 public:
  // Keeps `count` back, as far as there are any.
  explicit SpareDescriptors(size_t count);
  ~SpareDescriptors();
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;

  // What make() returns, which is a new descriptor, or -1 with errno. While it fails for want of
  // descriptors, it is called again with one spare one less: another thread may have taken the
  // one that was freed for it.
  template <typename Make>
  int Open(const Make& make) {
    int fd = make();
    while (fd < 0 && RanOut() && FreeOne()) fd = make();
    return fd;
  }
  // Closes `fd`, or keeps it back: then it is never free in between.
  void Close(int fd);
  // Makes up for those that Open took. False: there are not enough descriptors now.
  bool Refill();
  bool empty() const { return spare_.empty(); }
  // Whether errno says that there are no descriptors.
  static bool RanOut() { return errno == EMFILE || errno == ENFILE; }

 private:
  bool FreeOne();

  const size_t count_;
  const int base_;  // of no use but to be duplicated
  std::vector<int> spare_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_SPARE_DESCRIPTORS_H_
