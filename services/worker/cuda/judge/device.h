#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "services/worker/cuda/api/cuda_api.h"

namespace kernelcast::worker {

// Properties of a device that need no context.
struct DeviceFacts {
  DeviceInfo info;
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  int64_t l2_bytes = 0;
};
// Returns the number of devices that the driver shows this process. UNAVAILABLE: there are none.
[[nodiscard]] absl::StatusOr<int> CountDevices(const CudaApi& api);
// UNAVAILABLE: no usable device.
[[nodiscard]] absl::StatusOr<DeviceFacts> DescribeDevice(const CudaApi& api, int ordinal = 0);

struct DeviceMemory {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
};

// One of the devices that the driver shows this process, with the judge's own context and one
// stream. Only the project's own code runs in this context. Use from one thread at a time, after
// Bind. Must outlive its buffers and arenas.
class CudaDevice {
 public:
  // UNAVAILABLE: no context can be created. `api` must outlive the device.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(const CudaApi& api,
                                                                        int ordinal = 0);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // Makes the context current on the calling thread.
  [[nodiscard]] absl::Status Bind();
  // Waits for all work in the stream.
  [[nodiscard]] absl::Status Synchronize();
  // Enqueue copies on the stream: to the device, within it, and from it, for which it waits.
  [[nodiscard]] absl::Status Write(CUdeviceptr to, const void* from, size_t bytes,
                                   std::string_view what) const;
  [[nodiscard]] absl::Status Copy(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                  std::string_view what) const;
  [[nodiscard]] absl::Status Read(void* to, CUdeviceptr from, size_t bytes, std::string_view what);
  [[nodiscard]] absl::StatusOr<DeviceMemory> Memory() const;
  absl::Status Check(CUresult result, std::string_view what) const {
    return CudaStatus(api_, result, what);
  }

  const CudaApi& api() const { return api_; }
  CUdevice device() const { return device_; }
  CUstream stream() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }

 private:
  explicit CudaDevice(const CudaApi& api) : api_(api) {}

  const CudaApi& api_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  int multiprocessors_ = 1;
};

// Tensors in a buffer or arena begin at multiples of this.
inline constexpr uint64_t kTensorAlignment = 512;
inline uint64_t AlignTensor(uint64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// Memory of the judge's context that no other process sees. Movable.
class DeviceBuffer {
 public:
  // RESOURCE_EXHAUSTED: out of memory.
  [[nodiscard]] static absl::StatusOr<DeviceBuffer> Allocate(CudaDevice& device, size_t bytes);
  // Allocates a buffer with a copy of `content`.
  [[nodiscard]] static absl::StatusOr<DeviceBuffer> Copy(CudaDevice& device,
                                                         std::span<const std::byte> content);
  DeviceBuffer() = default;
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  CUdeviceptr address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  CudaDevice* device_ = nullptr;
  CUdeviceptr address_ = 0;
  size_t bytes_ = 0;
};

// Memory mapped here for reading and writing, which a runner can map through the descriptor. It
// outlives the runner's mapping and context. Movable.
class SharedArena {
 public:
  // Allocates at least `bytes` after `padding` unused bytes. The sum is rounded up to the device's
  // mapping granularity. RESOURCE_EXHAUSTED: out of memory.
  [[nodiscard]] static absl::StatusOr<SharedArena> Create(CudaDevice& device, size_t bytes,
                                                          size_t padding = 0);
  SharedArena() = default;
  ~SharedArena();
  SharedArena(SharedArena&& other) noexcept;
  SharedArena& operator=(SharedArena&& other) noexcept;

  // Address of the first byte after the padding, and the number of bytes from there.
  CUdeviceptr address() const { return address_ + padding_; }
  size_t bytes() const { return mapped_bytes_ - padding_; }
  // The handle with which a runner maps the arena.
  int fd() const { return fd_; }
  size_t mapped_bytes() const { return mapped_bytes_; }
  size_t padding() const { return padding_; }

 private:
  void Release();

  CudaDevice* device_ = nullptr;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  size_t mapped_bytes_ = 0;
  size_t padding_ = 0;
  int fd_ = -1;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_H_
