#include "services/worker/runner/allocation_watch.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::atomic<uint32_t>* refused_flag = nullptr;

void* Noted(void* result, size_t size) {
  if (result == nullptr && size > 0 && refused_flag != nullptr) {
    refused_flag->store(1, std::memory_order_relaxed);
  }
  return result;
}

}  // namespace

namespace kernelcast::worker::runner {

void WatchAllocations(std::atomic<uint32_t>* refused) { refused_flag = refused; }

}  // namespace kernelcast::worker::runner

// glibc's own names for the functions that the definitions below replace.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) { return Noted(__libc_malloc(size), size); }

void* calloc(size_t count, size_t size) { return Noted(__libc_calloc(count, size), count * size); }

void* realloc(void* old, size_t size) { return Noted(__libc_realloc(old, size), size); }

void* memalign(size_t alignment, size_t size) {
  return Noted(__libc_memalign(alignment, size), size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  return Noted(__libc_memalign(alignment, size), size);
}

int posix_memalign(void** result, size_t alignment, size_t size) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) {
    return EINVAL;
  }
  const int saved = errno;
  void* block = Noted(__libc_memalign(alignment, size), size);
  errno = saved;
  if (block == nullptr && size > 0) {
    return ENOMEM;
  }
  *result = block;
  return 0;
}

void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  const long result = syscall(SYS_mmap, address, length, protection, flags, fd, offset);
  if (result == -1) {
    if (errno == ENOMEM) {
      Noted(nullptr, length);
    }
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(result);
}
}
