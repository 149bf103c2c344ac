#ifndef KERNELCAST_TESTS_SUPPORT_DESCRIBED_TASK_H_
#define KERNELCAST_TESTS_SUPPORT_DESCRIBED_TASK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::testing {

// A KernelBench task whose code has described one input and one output of this shape (JSON), with
// these types of PyTorch.
inline absl::StatusOr<worker::PythonTaskPrograms> DescribedTask(const std::string& shape,
                                                                const std::string& input_dtype,
                                                                const std::string& output_dtype) {
  KC_ASSIGN_OR_RETURN(const Problem problem,
                      ParseProblem({{"task.py",
                                     "class Model(nn.Module):\n    pass\n"
                                     "def get_inputs():\n    pass\n"
                                     "def get_init_inputs():\n    pass\n"}}));
  const auto tensor = [&](const std::string& dtype) {
    return absl::StrCat(R"([{"dtype": ")", dtype, R"(", "shape": )", shape, "}]");
  };
  return worker::PythonTaskPrograms::Read(
      problem, absl::StrCat(R"({"cases": [{"case": {}, "written": [], "single": true, "inputs": )",
                            tensor(input_dtype), R"(, "outputs": )", tensor(output_dtype), "}]}"));
}

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_DESCRIBED_TASK_H_
