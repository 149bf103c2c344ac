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

// What a device says of itself, without a context.
struct DeviceFacts {
  DeviceInfo info;
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  int64_t l2_bytes = 0;
};
// UNAVAILABLE: no device to be used.
[[nodiscard]] absl::StatusOr<DeviceFacts> DescribeDevice(const CudaApi& api);

// The first device that the driver shows this process, with a context and one stream: the judge's
// own, in which only code of the project runs. Used by one thread at a
// time, after Bind. Buffers and arenas must not outlive it.
class CudaDevice {
 public:
  // UNAVAILABLE: no context to be had. `api` must outlive the device.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(const CudaApi& api);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // Makes the context the calling thread's.
  [[nodiscard]] absl::Status Bind();
  // Waits for all that was put into the stream.
  [[nodiscard]] absl::Status Synchronize();
  [[nodiscard]] absl::StatusOr<uint64_t> FreeBytes();
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

// Memory of the judge's context that nobody else sees. Movable.
class DeviceBuffer {
 public:
  // RESOURCE_EXHAUSTED: no memory left.
  [[nodiscard]] static absl::StatusOr<DeviceBuffer> Allocate(CudaDevice& device, size_t bytes);
  // Holds a copy of `content`.
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

// Memory that is mapped here to read and write, and can be mapped by a runner through the
// descriptor. It outlives the runner's mapping and context. Movable.
class SharedArena {
 public:
  // Rounded up to what the device maps at once. RESOURCE_EXHAUSTED: no memory left.
  [[nodiscard]] static absl::StatusOr<SharedArena> Create(CudaDevice& device, size_t bytes);
  SharedArena() = default;
  ~SharedArena();
  SharedArena(SharedArena&& other) noexcept;
  SharedArena& operator=(SharedArena&& other) noexcept;

  CUdeviceptr address() const { return address_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_; }

 private:
  void Release();

  CudaDevice* device_ = nullptr;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  size_t bytes_ = 0;
  int fd_ = -1;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_H_
