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

// Looks at files every `interval` and calls `on_change`, on a thread of its own, when any of them
// is another than before: written, replaced, gone or come. Links are followed, so that a folder
// whose content is swapped by a link, as mounted secrets are, counts. The first look calls it too:
// what changed between the owner's first reading and that look is not missed.
class FileWatch {
 public:
  FileWatch(std::vector<std::string> paths, absl::Duration interval,
            std::function<void()> on_change);
  // Waits for a call of `on_change` to end.
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
