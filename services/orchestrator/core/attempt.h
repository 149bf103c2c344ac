#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ATTEMPT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ATTEMPT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/domain/anchor.h"
#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "common/domain/label.h"
#include "common/domain/measurement.h"

namespace kernelcast::orchestrator {

// A candidate with a known outcome, as described to the model that writes the next one.
struct Attempt {
  Candidate candidate;
  CompileFacts facts;  // empty schema if it did not compile
  // Measured speedup over the reference. 0 if it was not found to be correct.
  double speedup = 0;
  // Median time at each bench shape, if it was correct.
  std::vector<AnchorKernel::ShapeTime> times = {};
  // The measurement, if it was correct. Shared by the copies that prompts need.
  std::shared_ptr<const MeasuredOk> measured = nullptr;
  // Why it was not found to be correct. Nothing if it was, or if it was pruned.
  std::optional<FailureKind> failure = {};
  // Output of the compiler or the judge, cut to a few thousand bytes.
  std::string feedback;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ATTEMPT_H_
