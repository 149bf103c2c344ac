#include "services/cli/launch/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>

#include "services/cli/core/exit_code.h"

namespace kernelcast::cli {
namespace {

constexpr int64_t kSameSignalNs = 500'000'000;
constexpr absl::Duration kSlice = absl::Milliseconds(100);

// Signal handlers can only use globals.
std::atomic<int> first_signal{0};
std::atomic<int64_t> first_signal_ns{0};
std::atomic<bool> interrupt_requested{false};
std::atomic<bool> deadline_lifted{false};
int wake_fd = -1;
std::array<char, 502> farewell;
std::atomic<size_t> farewell_size{0};

// Async-signal-safe, unlike Clock.
int64_t SignalClockNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Async-signal-safe. Children die with this process.
[[noreturn]] void Quit() {
  static constexpr char kShowCursor[] = "\x1b[?25h\n";
  [[maybe_unused]] ssize_t ignored = 0;
  if (isatty(STDERR_FILENO)) ignored = write(STDERR_FILENO, kShowCursor, sizeof kShowCursor - 1);
  if (const size_t size = farewell_size.load(); size > 0) {
    ignored = write(STDERR_FILENO, farewell.data(), size);
  }
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

void OnSignal(int number) {
  int expected = 0;
  if (!first_signal.compare_exchange_strong(expected, number)) {
    const int64_t first_ns = first_signal_ns.load();
    if (first_ns != 0 && SignalClockNs() - first_ns >= kSameSignalNs) Quit();
    return;
  }
  first_signal_ns = SignalClockNs();
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(wake_fd, &one, sizeof one);
}

}  // namespace

Interrupt::Interrupt(std::function<void()> on_request)
    : done_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  // Report a closed pipe as an error of write instead of ending the process.
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  thread_ = std::thread([this, on_request = std::move(on_request)] { Run(on_request); });
}

Interrupt::~Interrupt() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(done_fd_, &one, sizeof one);
  thread_.join();
  close(done_fd_);
}

void Interrupt::Run(const std::function<void()>& on_request) {
  std::array<pollfd, 2> fds = {pollfd{done_fd_, POLLIN, 0}, pollfd{wake_fd, POLLIN, 0}};
  while (poll(fds.data(), fds.size(), -1) < 0) {
  }
  if (fds[1].revents == 0) return;
  if (on_request) on_request();
  interrupt_requested = true;
  // In slices, which last longer where the machine is busy and the command is slower too.
  pollfd done = fds[0];
  int64_t slices = kInterruptGrace / kSlice;
  while (poll(&done, 1, static_cast<int>(absl::ToInt64Milliseconds(kSlice))) <= 0) {
    if (deadline_lifted) continue;
    if (--slices <= 0) Quit();
  }
}

bool Interrupt::requested() const { return interrupt_requested.load(); }
int Interrupt::signal() const { return first_signal.load(); }
int Interrupt::fd() const { return wake_fd; }

absl::Duration Interrupt::age() const {
  const int64_t first_ns = first_signal_ns.load();
  return first_ns == 0 ? absl::ZeroDuration() : absl::Nanoseconds(SignalClockNs() - first_ns);
}

void Interrupt::WaitFor(absl::Duration timeout) const {
  pollfd wake = {wake_fd, POLLIN, 0};
  poll(&wake, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
}

void Interrupt::LiftDeadline() const { deadline_lifted = true; }

void Interrupt::SetFarewell(std::string_view line) const {
  farewell_size = 0;
  const size_t size = std::min(line.size(), farewell.size() - 1);
  std::copy_n(line.data(), size, farewell.data());
  farewell[size] = '\n';
  if (size > 0) farewell_size = size + 1;
}

}  // namespace kernelcast::cli
