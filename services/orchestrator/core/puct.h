#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PUCT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PUCT_H_

#include <string>

#include "services/orchestrator/core/archive.h"

namespace kernelcast::orchestrator {

// Returns the id of the kernel of the archive with the largest
//
//   score = Q + exploration scale P sqrt(1 + T) / (1 + n)
//
// Q is the best reward among a kernel's own children, or its own reward if it has none. P increases
// with the kernel's rank. n is the number of the kernel's expansions, T the total number. scale is
// the spread of the rewards. The kernel is the better one where scores are equal.
const std::string& ChooseByPuct(const Archive& archive, double exploration);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PUCT_H_
