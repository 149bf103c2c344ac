#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_RECORDS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace kernelcast::worker::cuda_runner {

// Returns the records after the first `offset` bytes, or nullopt if the packet is too short.
template <class Record>
std::optional<std::vector<Record>> Records(std::span<const std::byte> packet, size_t offset,
                                           uint32_t count) {
  if (packet.size() < offset || (packet.size() - offset) / sizeof(Record) < count) {
    return std::nullopt;
  }
  std::vector<Record> records(count);
  if (count > 0) {
    std::memcpy(records.data(), packet.data() + offset, count * sizeof(Record));
  }
  return records;
}

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_RECORDS_H_
