#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_CANDIDATE_HEADER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_CANDIDATE_HEADER_H_

#include <string_view>

namespace kernelcast::orchestrator {

// The text of <kernelcast/candidate.h> at build time.
std::string_view CandidateHeader();

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_CANDIDATE_HEADER_H_
