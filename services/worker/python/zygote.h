#ifndef KERNELCAST_SERVICES_WORKER_PYTHON_ZYGOTE_H_
#define KERNELCAST_SERVICES_WORKER_PYTHON_ZYGOTE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/descriptor.h"
#include "common/process/child_process.h"
#include "services/worker/python/interpreter.h"

namespace kernelcast::worker {

// A process that has imported PyTorch and makes copies of itself, each in milliseconds. It runs no
// code of tasks or candidates, and uses no device. Thread-safe. The zygote and its copies end with
// the thread that started it.
class PythonZygote {
 public:
  struct Options {
    PythonInterpreter python;
    const char* program = nullptr;  // kPythonRunner or kPythonCudaRunner
    // The program's first arguments: the path of its native part, and others before the packages.
    std::vector<std::string> arguments;
    std::vector<std::string> environment;  // "NAME=value"
    // Files that programs may read besides the interpreter's.
    std::vector<std::string> read_only;
  };

  explicit PythonZygote(Options options) : options_(std::move(options)) {}
  PythonZygote(const PythonZygote&) = delete;
  PythonZygote& operator=(const PythonZygote&) = delete;

  // Begins to start the process. UNAVAILABLE: it cannot be started.
  [[nodiscard]] absl::Status Begin();

  // Makes a copy, with `descriptors` as its descriptors 3, 4, ... and the limits of the output in
  // `limits`, whose `environment` it gets. The first waits for the start; a zygote that has ended
  // is started again. UNAVAILABLE: no copy can be made; the message says why.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<ChildProcess>> Fork(std::span<const int> descriptors,
                                                                   const ChildOptions& limits);

 private:
  absl::Status BeginLocked();
  absl::Status AwaitReply(int64_t limit_ns, int64_t& reply);
  absl::StatusOr<int64_t> Ask(std::span<const int> descriptors, const std::string& environment);

  const Options options_;
  std::mutex mutex_;
  // State below is protected by mutex_.
  std::unique_ptr<ChildProcess> process_;
  Descriptor control_;
  bool ready_ = false;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_PYTHON_ZYGOTE_H_
