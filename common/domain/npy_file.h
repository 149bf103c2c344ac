#ifndef KERNELCAST_COMMON_DOMAIN_NPY_FILE_H_
#define KERNELCAST_COMMON_DOMAIN_NPY_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"

namespace kernelcast {

// Elements of a NumPy array file (.npy, format versions 1 to 3), little-endian and in row-major
// order. The array may have any shape. bfloat16 and float8, which NumPy lacks, are read from arrays
// of bytes or of unsigned integers of the same size. INVALID_ARGUMENT: not an .npy file, Fortran
// order, a type other than `dtype`, or shorter than its header says.
[[nodiscard]] absl::StatusOr<std::string> NpyElements(std::string_view content, DataType dtype);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_NPY_FILE_H_
