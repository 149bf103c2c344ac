#include "common/rpc/accept_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>

#include "common/base/clock.h"
#include "common/base/log.h"

namespace kernelcast {
namespace {

constexpr int kMaxReserve = 256;
// Far more than a service needs. Not unlimited, because children inherit it and some programs
// iterate over all possible descriptors.
constexpr rlim_t kEnoughDescriptors = 65'536;
constexpr int kSpareTries = 20;
constexpr useconds_t kSpareRetryUs = 10'000;
constexpr int64_t kLogIntervalNs = 10'000'000'000;

std::atomic<bool> guarded = false;
std::atomic<int64_t> closed_since_log = 0;
std::atomic<int64_t> next_log_ns = 0;

std::mutex spare_mutex;
// Guarded by spare_mutex. Closed temporarily to accept a connection that is then closed.
int spare = -1;

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

// The lowest free descriptor is used first, so a descriptor this high means that all below are in
// use.
int FirstReserved() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<int>::max();
  }
  const auto all = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
  return all - std::min(kMaxReserve, all / 4);
}

void CountClosed() {
  closed_since_log.fetch_add(1);
  const int64_t now_ns = Clock::Real().MonotonicNs();
  int64_t next_ns = next_log_ns;
  if (now_ns >= next_ns && next_log_ns.compare_exchange_strong(next_ns, now_ns + kLogIntervalNs)) {
    Log(LogLevel::kWarning, "connections closed: out of file descriptors",
        {{"connections", closed_since_log.exchange(0)}});
  }
}

// When no descriptor is left: accepts one connection with the spare descriptor and closes it.
// Returns false if that fails or no connection is waiting.
bool CloseNext(int listener) {
  const std::lock_guard lock(spare_mutex);
  for (int tries = 0; tries < kSpareTries; ++tries) {
    if (spare >= 0) {
      close(spare);
      const auto fd =
          static_cast<int>(syscall(SYS_accept4, listener, nullptr, nullptr, SOCK_CLOEXEC));
      const bool nobody_waits = fd < 0 && errno == EAGAIN;
      if (fd >= 0) close(fd);
      spare = OpenSpare();
      if (fd >= 0) {
        CountClosed();
        return true;
      }
      if (nobody_waits) return false;
    }
    // Another thread took the descriptor that was freed.
    usleep(kSpareRetryUs);
    if (spare < 0) spare = OpenSpare();
  }
  return false;
}

// Like accept4, but errors of a single connection and lack of resources are never reported, except
// as EAGAIN.
int Accept(int listener, sockaddr* address, socklen_t* length, int flags) {
  const int first_reserved = FirstReserved();
  const socklen_t room = length != nullptr ? *length : 0;
  while (true) {
    if (length != nullptr) *length = room;
    const auto fd = static_cast<int>(syscall(SYS_accept4, listener, address, length, flags));
    if (fd >= first_reserved) {
      close(fd);
      CountClosed();
      continue;
    }
    if (fd >= 0) {
      return fd;
    }
    switch (errno) {
      case EMFILE:
      case ENFILE:
        if (CloseNext(listener)) continue;
        [[fallthrough]];
      case ENOBUFS:
      case ENOMEM:
        errno = EAGAIN;  // until the next connection comes
        return -1;
      // Errors of the connection, not of the listener.
      case ECONNABORTED:
      case EPERM:
      case EPROTO:
      case ENOPROTOOPT:
      case ENETDOWN:
      case ENETUNREACH:
      case ENONET:
      case EHOSTDOWN:
      case EHOSTUNREACH: continue;
      default: return -1;
    }
  }
}

}  // namespace

void GuardAccept() {
  const std::lock_guard lock(spare_mutex);
  if (spare < 0) {
    spare = OpenSpare();
  }
  guarded = true;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kEnoughDescriptors) {
    limit.rlim_cur = std::min(limit.rlim_max, kEnoughDescriptors);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace kernelcast

// Replaces the C library's function for every library of the process.
extern "C" int accept4(int listener, sockaddr* address, socklen_t* length, int flags) {
  if (!kernelcast::guarded) {
    return static_cast<int>(syscall(SYS_accept4, listener, address, length, flags));
  }
  return kernelcast::Accept(listener, address, length, flags);
}
