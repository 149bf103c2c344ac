#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_KERNEL_PARAMETERS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_KERNEL_PARAMETERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/candidate.h"
#include "services/worker/core/launch_plan.h"

namespace kernelcast::worker {

// One parameter of a kernel, from its .param declaration.
struct KernelParameter {
  enum class Kind { kInteger, kReal, kAddress, kStructure };
  Kind kind = Kind::kInteger;
  int64_t bytes = 0;
};

struct KernelSignature {
  std::string name;
  std::vector<KernelParameter> parameters;
};

// Returns the declarations of all entries in the PTX, without their bodies.
std::string EntryDeclarations(std::string_view ptx);

// Returns the signatures of all entries in the PTX, in their order.
std::vector<KernelSignature> ReadSignatures(std::string_view ptx);

// Checks the arguments of the launches against the kernels' parameters: their number, their sizes,
// and that no real number is passed for an integer. Returns a message with the launch, the kernel,
// the argument and the expected type, or nullopt if all match or the PTX lacks the kernel. An
// 8-byte integer is accepted as an address.
std::optional<std::string> CheckArguments(const std::vector<Launch>& launches,
                                          const LaunchPlan& plan,
                                          const std::vector<KernelSignature>& signatures);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_KERNEL_PARAMETERS_H_
