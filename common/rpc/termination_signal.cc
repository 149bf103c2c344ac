#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "common/rpc/server.h"

namespace kernelcast {
namespace {

sigset_t TerminationSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

int Require(int fd, const char* what) {
  if (fd < 0) {
    std::perror(what);
    std::abort();
  }
  return fd;
}

}  // namespace

TerminationSignal::TerminationSignal() {
  signal(SIGPIPE, SIG_IGN);
  const sigset_t set = TerminationSet();
  pthread_sigmask(SIG_BLOCK, &set, &previous_mask_);
  event_fd_ = Require(eventfd(0, EFD_CLOEXEC), "kernelcast: eventfd");
  signal_fd_ = Require(signalfd(-1, &set, SFD_CLOEXEC), "kernelcast: signalfd");
}

TerminationSignal::~TerminationSignal() {
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
  close(signal_fd_);
  close(event_fd_);
}

int TerminationSignal::Wait() {
  pollfd fds[] = {{signal_fd_, POLLIN, 0}, {event_fd_, POLLIN, 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  int received = 0;
  if (fds[0].revents != 0) {
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof info) == sizeof info) {
      received = static_cast<int>(info.ssi_signo);
    }
  }
  // The next signal has its default action, which ends the process.
  const sigset_t set = TerminationSet();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  return received;
}

void TerminationSignal::Wake() {
  const uint64_t one = 1;
  static_cast<void>(!write(event_fd_, &one, sizeof one));
}

}  // namespace kernelcast
