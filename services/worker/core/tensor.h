#ifndef KERNELCAST_SERVICES_WORKER_CORE_TENSOR_H_
#define KERNELCAST_SERVICES_WORKER_CORE_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/domain/expression.h"
#include "common/domain/problem.h"

namespace kernelcast::worker {

// A dense row-major tensor, without its data.
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
  // Elements that follow each other on the last axis.
  int64_t row_elements() const { return shape.empty() ? 1 : shape.back(); }
};

// "rows=3, cols=5", for messages.
std::string ShapeText(const AxisValues& axes);

// For evaluating expressions over the axes.
Variables ToVariables(const AxisValues& axes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_TENSOR_H_
