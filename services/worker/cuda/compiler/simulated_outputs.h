#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SIMULATED_OUTPUTS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SIMULATED_OUTPUTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/facts.h"
#include "common/domain/problem.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/verification.h"
#include "services/worker/cuda/compiler/simulation_plan.h"

// Compares what launches write on the virtual GPU with what the problem's oracle writes there, on
// inputs drawn as the judge draws them. Device code of a task is compared with the results of its
// reference, in calls whose values are known (PythonTask::calls).

namespace kernelcast::worker {

// A call whose outputs are compared.
struct SimulatedCase {
  CaseSpec spec;
  std::string text;                  // for messages: the shape and the distribution
  std::vector<std::string> outputs;  // their names
  bool has_real_inputs = false;
  std::vector<std::string> inputs = {};  // their bytes
  // Why outputs are not compared; empty: they are, and the rest is set.
  std::string not_compared = {};
  std::vector<ExpectedTensor> expected = {};
  // The contents of the outputs before the launches.
  std::vector<std::string> poison = {};
};

// The calls of a problem's target that are checked for faults and compared, smallest first: the
// declared distributions at ShapesToCheck, and the adversarial ones at one of these shapes. The
// same for every candidate. Without expected values so far, except for a task. A target without an
// oracle has the former only; they are not compared, except those of a task whose values are known.
std::vector<SimulatedCase> SimulatedCases(const Problem& problem, const ProblemTarget& target);

// The plan of a case for the oracle, whose floating-point outputs are float64, and the indices of
// its outputs. Errors as PlanSimulation.
[[nodiscard]] absl::StatusOr<SimulationPlan> PlanOracle(const Problem& problem,
                                                        const KernelProgram& oracle,
                                                        const SimulatedCase& at);

// Takes the outputs of the oracle in the order of the problem's. Sets `not_compared` if they cannot
// be expected of a candidate.
[[nodiscard]] absl::Status SetExpected(const Problem& problem, std::span<const std::string> outputs,
                                       SimulatedCase& at);

// Gives the inputs and outputs of a candidate's plan the bytes of the case, and the workspace
// numbers that are not finite.
void SetContents(const SimulatedCase& at, SimulationPlan& plan);

// A wrong output.
struct SimulatedMismatch {
  size_t output = 0;  // index among the problem's outputs
  Finding finding;    // without a line
};
struct SimulatedComparison {
  std::vector<SimulatedMismatch> mismatches;
  // Why it is not known whether an output is right: it disagrees by little more than its tolerance.
  // Empty: it is known.
  std::string unknown;
};
// Compares the outputs of a candidate by the judge's rules. An output is wrong only if it also
// disagrees with wider tolerances, because a GPU rounds differently from the virtual GPU.
SimulatedComparison CompareSimulated(const SimulatedCase& at, std::span<const std::string> outputs);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SIMULATED_OUTPUTS_H_
