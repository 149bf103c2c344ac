#ifndef KERNELCAST_TESTS_FAKES_CUDA_MAP_PROBLEM_H_
#define KERNELCAST_TESTS_FAKES_CUDA_MAP_PROBLEM_H_

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/domain/problem.h"

namespace kernelcast::testing {

// y = 2 x + 1, for the fake driver. The driver executes the programs, so the sources matter only to
// a compiler.
inline Problem MapProblem(const std::string& name, const std::string& reference,
                          const std::string& oracle) {
  static constexpr const char* kProblem = R"(
title: A map
family: elementwise
description: y is 2 x + 1.
axes:
  n: {held_out: [1, 300]}
inputs:
  - name: x
    dtype: float32
    shape: [n]
    init: {distribution: uniform, low: -1, high: 1}
    adversarial: [zeros]
outputs:
  - name: y
    dtype: float32
    shape: [n]
    tolerance: {atol: 1.0e-3, rtol: 1.0e-5, normwise: 1.0e-5}
targets:
  cuda:
    reference:
      file: reference.cu
      launches: [{kernel: map, grid: ["1"], block: ["256"], arguments: [x, y, n]}]
    oracle:
      file: oracle.cu
      launches: [{kernel: map, grid: ["1"], block: ["256"], arguments: [x, y, n]}]
check_shapes: [{n: 1}, {n: 257}]
bench_shapes: [{n: 1500}]
bytes: "8*n"
)";
  auto problem = ParseProblem({{"oracle.cu", oracle},
                               {"problem.yaml", absl::StrCat("schema: 1\nname: ", name, kProblem)},
                               {"reference.cu", reference}});
  INFO(problem.status().ToString());
  REQUIRE(problem.ok());
  return *std::move(problem);
}

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_CUDA_MAP_PROBLEM_H_
