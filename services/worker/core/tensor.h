#ifndef KERNELCAST_SERVICES_WORKER_CORE_TENSOR_H_
#define KERNELCAST_SERVICES_WORKER_CORE_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/domain/expression.h"
#include "common/domain/problem.h"

namespace kernelcast::worker {

// Type and shape of a dense row-major tensor.
struct TensorLayout {
  DataType dtype = DataType::kFloat32;
  std::vector<int64_t> shape = {};

  int64_t elements() const {
    int64_t product = 1;
    for (const int64_t size : shape) {
      product *= size;
    }
    return product;
  }
  int64_t bytes() const { return elements() * SizeBytes(dtype); }
  // Elements along the last axis, which are contiguous.
  int64_t row_elements() const { return shape.empty() ? 1 : shape.back(); }
};

// Formats axis values for messages, e.g. "rows=3, cols=5".
std::string ShapeText(const AxisValues& axes);

// Converts axis values to variables for expressions.
Variables ToVariables(const AxisValues& axes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_TENSOR_H_
