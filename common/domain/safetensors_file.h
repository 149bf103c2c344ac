#ifndef KERNELCAST_COMMON_DOMAIN_SAFETENSORS_FILE_H_
#define KERNELCAST_COMMON_DOMAIN_SAFETENSORS_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast {

inline constexpr std::string_view kSafetensorsExtension = ".safetensors";

// A tensor in a .safetensors file. `elements` points into the file's content: little-endian, in
// row-major order.
struct SafeTensor {
  std::string dtype;  // "F32", "BF16", "I32", ...
  std::vector<int64_t> shape;
  std::string_view elements;
};

// The tensor `key` of a file. INVALID_ARGUMENT: not such a file, such as a pointer of Git LFS, or
// no such tensor.
[[nodiscard]] absl::StatusOr<SafeTensor> FindSafeTensor(std::string_view content,
                                                        const std::string& key);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_SAFETENSORS_FILE_H_
