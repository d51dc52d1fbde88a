#include "server/base/spare_descriptors.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace histogram::server {

SpareDescriptors::SpareDescriptors(size_t count)
    : count_(count), base_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  Refill();
}

SpareDescriptors::~SpareDescriptors() {
  for (const int fd : spare_) close(fd);
  if (base_ >= 0) close(base_);
}

void SpareDescriptors::Close(int fd) {
  if (spare_.size() < count_ && dup3(base_, fd, O_CLOEXEC) == fd) {
    spare_.push_back(fd);
  } else {
    close(fd);
  }
}

bool SpareDescriptors::Refill() {
  while (spare_.size() < count_) {
    const int fd = fcntl(base_, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return false;
    spare_.push_back(fd);
  }
  return true;
}

bool SpareDescriptors::FreeOne() {
  if (spare_.empty()) return false;
  close(spare_.back());
  spare_.pop_back();
  return true;
}

}  // namespace histogram::server
