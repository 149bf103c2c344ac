#include "common/rpc/file_watch.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace kernelcast {
namespace {

// A text that changes whenever a file may have changed.
std::string Signature(const std::vector<std::string>& paths) {
  std::string signature;
  for (const std::string& path : paths) {
    struct stat file {};
    if (stat(path.c_str(), &file) != 0) {
      absl::StrAppend(&signature, "-;");
      continue;
    }
    absl::StrAppend(&signature, file.st_dev, ",", file.st_ino, ",", file.st_size, ",",
                    absl::ToUnixNanos(absl::TimeFromTimespec(file.st_mtim)), ",",
                    absl::ToUnixNanos(absl::TimeFromTimespec(file.st_ctim)), ";");
  }
  return signature;
}

}  // namespace

FileWatch::FileWatch(std::vector<std::string> paths, absl::Duration interval,
                     std::function<void()> on_change)
    : paths_(std::move(paths)),
      interval_(interval),
      on_change_(std::move(on_change)),
      thread_([this] { Run(); }) {}

FileWatch::~FileWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_requested_.notify_all();
  thread_.join();
}

void FileWatch::Run() {
  std::string seen;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    // Computed before the files are read, so that a change during the read is seen by the next
    // poll.
    if (std::string now = Signature(paths_); now != seen) {
      seen = std::move(now);
      on_change_();
    }
    lock.lock();
    stop_requested_.wait_for(lock, absl::ToChronoNanoseconds(interval_), [this] { return stop_; });
  }
}

}  // namespace kernelcast
