#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_HIGH_WATER_MARK_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_HIGH_WATER_MARK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::orchestrator {

// Records in a small file next to the log how far the log was acknowledged, so that a truncated log
// is detected. Set is called after an append is durable: the log has at least as many events, no
// matter when the process or the machine fails. Set needs no system call. The mark survives a crash
// of the process at once, and a crash of the machine within a second.
//
// Set must be called by one thread at a time.
class HighWaterMark {
 public:
  struct Value {
    uint64_t sequence = 0;
    uint32_t checksum = 0;  // of the event with this number; 0 for an empty log
  };

  // Empty: no such file. DATA_LOSS: the file contains no valid mark.
  [[nodiscard]] static absl::StatusOr<std::optional<Value>> Read(const std::string& path);

  // Creates the file or reuses it, and makes `value` durable.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HighWaterMark>> Open(const std::string& path,
                                                                           Value value);
  // Makes the mark durable.
  ~HighWaterMark();
  HighWaterMark(const HighWaterMark&) = delete;
  HighWaterMark& operator=(const HighWaterMark&) = delete;

  void Set(Value value);

 private:
  HighWaterMark(int fd, std::byte* file) : fd_(fd), file_(file) {}

  const int fd_;
  std::byte* const file_;  // mapped
  uint64_t sets_ = 0;
  std::jthread syncer_;  // last: uses the other members
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_HIGH_WATER_MARK_H_
