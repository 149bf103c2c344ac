#ifndef KERNELCAST_COMMON_RPC_STREAM_LIMIT_H_
#define KERNELCAST_COMMON_RPC_STREAM_LIMIT_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

namespace kernelcast {

// Limits on open streams. An idle stream uses about 20 KB, and closing many at once delays others.
struct StreamLimits {
  size_t per_connection = 256;
  // All streams with the same token. Without tokens: from the same host.
  size_t per_caller = 1'024;
  size_t per_process = 4'096;
};

// Counts open streams by connection and caller. Thread-safe.
class StreamLimiter {
 public:
  // The process's instance. Never destroyed.
  static StreamLimiter& Process();

  explicit StreamLimiter(StreamLimits limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED with a retry delay: a limit is reached.
  absl::Status Open(const std::string& connection, const std::string& caller);
  // Releases a stream counted by Open.
  void Close(const std::string& connection, const std::string& caller);

  size_t open() const;
  void set_limits(StreamLimits limits);

 private:
  mutable std::mutex mutex_;
  StreamLimits limits_ ABSL_GUARDED_BY(mutex_);
  size_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, size_t> by_connection_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, size_t> by_caller_ ABSL_GUARDED_BY(mutex_);
};

// Counts one stream in the process's limits for its lifetime.
class StreamPermit {
 public:
  explicit StreamPermit(const grpc::CallbackServerContext& context);
  ~StreamPermit();
  StreamPermit(const StreamPermit&) = delete;
  StreamPermit& operator=(const StreamPermit&) = delete;

  // OK, or the status that the stream must end with.
  const absl::Status& status() const { return status_; }

 private:
  const std::string connection_;
  const std::string caller_;
  const absl::Status status_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_STREAM_LIMIT_H_
