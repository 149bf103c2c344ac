#ifndef KERNELCAST_COMMON_BASE_DESCRIPTOR_H_
#define KERNELCAST_COMMON_BASE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace kernelcast {

// Owns a file descriptor. Negative: none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  // Returns the descriptor, which the caller now owns.
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_DESCRIPTOR_H_
