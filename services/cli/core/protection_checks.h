#ifndef KERNELCAST_SERVICES_CLI_CORE_PROTECTION_CHECKS_H_
#define KERNELCAST_SERVICES_CLI_CORE_PROTECTION_CHECKS_H_

#include <string>
#include <vector>

#include "services/cli/core/cuda_checks.h"

namespace kernelcast::cli {

// A worker's description of a target. It tries the sandbox only for targets that compile and
// measure.
struct TriedTarget {
  std::string name;
  bool can_compile = false;
  bool can_measure = false;
};

// Checks of the sandbox: one for each missing protection, with its meaning, and "runner" with the
// conclusion. `missing` are names as in WorkerDescription.missing_protections.
std::vector<Check> ProtectionChecks(const std::vector<TriedTarget>& targets,
                                    const std::vector<std::string>& missing);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_PROTECTION_CHECKS_H_
