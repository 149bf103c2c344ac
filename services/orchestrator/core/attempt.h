#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ATTEMPT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ATTEMPT_H_

#include <string>

#include "common/domain/candidate.h"
#include "common/domain/facts.h"

namespace kernelcast::orchestrator {

// A candidate whose fate is known, as whoever writes the next one is told of it.
struct Attempt {
  Candidate candidate;
  CompileFacts facts;  // an empty schema where it did not compile
  // Measured over the reference; 0 where it was not found to be correct.
  double speedup = 0;
  // "ok", "compile_error", "pruned", or another measuring outcome such as "wrong_result".
  std::string outcome;
  // What the compiler or the judge said, cut to a few thousand bytes.
  std::string feedback;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ATTEMPT_H_
