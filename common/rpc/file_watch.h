#ifndef KERNELCAST_COMMON_RPC_FILE_WATCH_H_
#define KERNELCAST_COMMON_RPC_FILE_WATCH_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace kernelcast {

// Polls files every `interval` and calls `on_change`, on its own thread, when any of them was
// written, replaced, removed or created. Follows links, so that mounted secrets, which replace a
// folder through a link, are detected. The first poll also calls it, so that a change between the
// owner's first read and that poll is not missed.
class FileWatch {
 public:
  FileWatch(std::vector<std::string> paths, absl::Duration interval,
            std::function<void()> on_change);
  // Waits for a running call of `on_change`.
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  void Run();

  // Constant after construction.
  const std::vector<std::string> paths_;
  const absl::Duration interval_;
  const std::function<void()> on_change_;

  std::mutex mutex_;
  std::condition_variable stop_requested_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_FILE_WATCH_H_
