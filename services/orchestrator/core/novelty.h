#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_NOVELTY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_NOVELTY_H_

#include <string>
#include <string_view>

#include "common/domain/candidate.h"

namespace kernelcast::orchestrator {

// C++ source without comments, line breaks (except those of directives) and insignificant white
// space. Literals are kept unchanged. Accepts any bytes.
std::string NormalizedSource(std::string_view source);

// An id that is equal for candidates that differ only in comments and layout.
std::string NoveltyKey(const Candidate& candidate);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_NOVELTY_H_
