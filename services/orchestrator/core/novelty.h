#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_NOVELTY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_NOVELTY_H_

#include <string>
#include <string_view>

#include "common/domain/candidate.h"

namespace kernelcast::orchestrator {

// C++ without comments, line breaks (but for those of directives) and blanks that part nothing.
// What stands in literals is kept. Any bytes are allowed.
std::string NormalizedSource(std::string_view source);

// An id, the same for candidates that differ in comments and layout only.
std::string NoveltyKey(const Candidate& candidate);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_NOVELTY_H_
