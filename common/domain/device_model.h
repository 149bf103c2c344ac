#ifndef KERNELCAST_COMMON_DOMAIN_DEVICE_MODEL_H_
#define KERNELCAST_COMMON_DOMAIN_DEVICE_MODEL_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kernelcast {

// A device model is the name of the processor or GPU that a result belongs to, such as "NVIDIA
// H200". This one is used if none was given.
inline constexpr std::string_view kUnknownDeviceModel = "unknown";

inline constexpr size_t kMaxDeviceModelBytes = 128;

// `model`, or kUnknownDeviceModel if it is empty.
inline std::string DeviceModelOrUnknown(std::string_view model) {
  return std::string(model.empty() ? kUnknownDeviceModel : model);
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_DEVICE_MODEL_H_
