#include "services/worker/cuda/judge/device.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

absl::StatusOr<int> Attribute(const CudaApi& api, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  KC_RETURN_IF_ERROR(CudaStatus(api, api.DeviceGetAttribute(&value, attribute, device),
                                "asking for a device attribute"));
  return value;
}

absl::StatusOr<CUdevice> DeviceAt(const CudaApi& api, int ordinal) {
  KC_ASSIGN_OR_RETURN(const int count, CountDevices(api));
  if (ordinal >= count) {
    return absl::UnavailableError(
        absl::StrCat("the driver shows ", count, " devices, and no number ", ordinal));
  }
  CUdevice device = 0;
  KC_RETURN_IF_ERROR(CudaStatus(api, api.DeviceGet(&device, ordinal), "opening the device"));
  return device;
}

}  // namespace

absl::StatusOr<int> CountDevices(const CudaApi& api) {
  KC_RETURN_IF_ERROR(CudaStatus(api, api.Init(0), "initialising the driver"));
  int count = 0;
  KC_RETURN_IF_ERROR(CudaStatus(api, api.DeviceGetCount(&count), "counting devices"));
  if (count == 0) {
    return absl::UnavailableError("the driver shows no device to this process");
  }
  return count;
}

absl::StatusOr<DeviceFacts> DescribeDevice(const CudaApi& api, int ordinal) {
  KC_ASSIGN_OR_RETURN(const CUdevice device, DeviceAt(api, ordinal));
  DeviceFacts facts;
  std::array<char, 256> name{};
  KC_RETURN_IF_ERROR(
      CudaStatus(api, api.DeviceGetName(name.data(), name.size(), device), "asking for the name"));
  facts.info.model = name.data();
  CUuuid uuid{};
  KC_RETURN_IF_ERROR(CudaStatus(api, api.DeviceGetUuid(&uuid, device), "asking for the uuid"));
  facts.info.uuid = UuidText(uuid);
  size_t bytes = 0;
  KC_RETURN_IF_ERROR(
      CudaStatus(api, api.DeviceTotalMem(&bytes, device), "asking for the memory's size"));
  facts.info.memory_bytes = bytes;
  KC_ASSIGN_OR_RETURN(const int multiprocessors,
                      Attribute(api, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  facts.info.compute_units = static_cast<uint32_t>(multiprocessors);
  KC_ASSIGN_OR_RETURN(facts.compute_capability_major,
                      Attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  KC_ASSIGN_OR_RETURN(facts.compute_capability_minor,
                      Attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  KC_ASSIGN_OR_RETURN(facts.l2_bytes, Attribute(api, device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  for (const auto& [attribute, what] :
       {std::pair{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "mapped memory"},
        std::pair{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                  "memory shared by descriptors"}}) {
    KC_ASSIGN_OR_RETURN(const int supported, Attribute(api, device, attribute));
    if (supported == 0) {
      return absl::UnavailableError(absl::StrCat(facts.info.model, " does not support ", what));
    }
  }
  int version = 0;
  KC_RETURN_IF_ERROR(
      CudaStatus(api, api.DriverGetVersion(&version), "asking for the driver's version"));
  facts.info.runtime_version = absl::StrCat("CUDA ", version / 1000, ".", version % 1000 / 10);
  return facts;
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(const CudaApi& api, int ordinal) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(api));
  KC_ASSIGN_OR_RETURN(device->device_, DeviceAt(api, ordinal));
  KC_RETURN_IF_ERROR(device->Check(api.DevicePrimaryCtxRetain(&device->context_, device->device_),
                                   "making a context"));
  KC_RETURN_IF_ERROR(device->Bind());
  KC_RETURN_IF_ERROR(
      device->Check(api.StreamCreate(&device->stream_, CU_STREAM_NON_BLOCKING), "making a stream"));
  KC_ASSIGN_OR_RETURN(device->multiprocessors_,
                      Attribute(api, device->device_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  return device;
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  api_.CtxSetCurrent(context_);
  if (stream_ != nullptr) api_.StreamDestroy(stream_);
  api_.DevicePrimaryCtxRelease(device_);
}

absl::Status CudaDevice::Bind() { return Check(api_.CtxSetCurrent(context_), "using the context"); }

absl::Status CudaDevice::Synchronize() {
  return Check(api_.StreamSynchronize(stream_), "the judge's own kernels");
}

absl::Status CudaDevice::Write(CUdeviceptr to, const void* from, size_t bytes,
                               std::string_view what) const {
  return Check(api_.MemcpyHtoDAsync(to, from, bytes, stream_), what);
}

absl::Status CudaDevice::Copy(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              std::string_view what) const {
  return Check(api_.MemcpyDtoDAsync(to, from, bytes, stream_), what);
}

absl::Status CudaDevice::Read(void* to, CUdeviceptr from, size_t bytes, std::string_view what) {
  KC_RETURN_IF_ERROR(Check(api_.MemcpyDtoHAsync(to, from, bytes, stream_), what));
  return Synchronize();
}

absl::StatusOr<DeviceMemory> CudaDevice::Memory() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  KC_RETURN_IF_ERROR(Check(api_.MemGetInfo(&free_bytes, &total_bytes), "asking for free memory"));
  return DeviceMemory{.free_bytes = free_bytes, .total_bytes = total_bytes};
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(CudaDevice& device, size_t bytes) {
  DeviceBuffer buffer;
  KC_RETURN_IF_ERROR(
      device.Check(device.api().MemAlloc(&buffer.address_, std::max<size_t>(bytes, 4)),
                   absl::StrCat("allocating ", bytes, " bytes")));
  buffer.device_ = &device;
  buffer.bytes_ = bytes;
  return buffer;
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Copy(CudaDevice& device,
                                                std::span<const std::byte> content) {
  KC_ASSIGN_OR_RETURN(DeviceBuffer buffer, Allocate(device, content.size()));
  KC_RETURN_IF_ERROR(
      device.Write(buffer.address_, content.data(), content.size(), "copying to the device"));
  return buffer;
}

DeviceBuffer::~DeviceBuffer() {
  if (device_ != nullptr) device_->api().MemFree(address_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      address_(std::exchange(other.address_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

absl::StatusOr<SharedArena> SharedArena::Create(CudaDevice& device, size_t bytes, size_t padding) {
  const CudaApi& api = device.api();
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.device();
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granularity = 0;
  KC_RETURN_IF_ERROR(
      device.Check(api.MemGetAllocationGranularity(&granularity, &properties,
                                                   CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                   "asking for the granularity"));
  if (bytes > SIZE_MAX - granularity - padding) {
    return absl::ResourceExhaustedError(absl::StrCat("no device has ", bytes, " bytes"));
  }
  SharedArena arena;
  arena.device_ = &device;
  arena.padding_ = padding;
  arena.mapped_bytes_ =
      std::max<size_t>(1, (bytes + padding + granularity - 1) / granularity) * granularity;
  KC_RETURN_IF_ERROR(
      device.Check(api.MemCreate(&arena.handle_, arena.mapped_bytes_, &properties, 0),
                   absl::StrCat("allocating ", arena.mapped_bytes_, " bytes")));
  KC_RETURN_IF_ERROR(
      device.Check(api.MemExportToShareableHandle(&arena.fd_, arena.handle_,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                   "exporting memory"));
  CUdeviceptr address = 0;
  KC_RETURN_IF_ERROR(device.Check(api.MemAddressReserve(&address, arena.mapped_bytes_, 0, 0, 0),
                                  "reserving addresses"));
  if (absl::Status mapped = device.Check(
          api.MemMap(address, arena.mapped_bytes_, 0, arena.handle_, 0), "mapping memory");
      !mapped.ok()) {
    api.MemAddressFree(address, arena.mapped_bytes_);
    return mapped;
  }
  arena.address_ = address;
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  KC_RETURN_IF_ERROR(
      device.Check(api.MemSetAccess(address, arena.mapped_bytes_, &access, 1), "opening memory"));
  return arena;
}

void SharedArena::Release() {
  if (device_ == nullptr) return;
  const CudaApi& api = device_->api();
  if (address_ != 0) {
    api.MemUnmap(address_, mapped_bytes_);
    api.MemAddressFree(address_, mapped_bytes_);
  }
  if (handle_ != 0) api.MemRelease(handle_);
  if (fd_ >= 0) close(fd_);
  device_ = nullptr;
}

SharedArena::~SharedArena() { Release(); }

SharedArena::SharedArena(SharedArena&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      handle_(other.handle_),
      address_(other.address_),
      mapped_bytes_(other.mapped_bytes_),
      padding_(other.padding_),
      fd_(std::exchange(other.fd_, -1)) {}

SharedArena& SharedArena::operator=(SharedArena&& other) noexcept {
  if (this != &other) {
    Release();
    device_ = std::exchange(other.device_, nullptr);
    handle_ = other.handle_;
    address_ = other.address_;
    mapped_bytes_ = other.mapped_bytes_;
    padding_ = other.padding_;
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

}  // namespace kernelcast::worker
