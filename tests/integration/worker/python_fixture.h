#ifndef KERNELCAST_TESTS_INTEGRATION_WORKER_PYTHON_FIXTURE_H_
#define KERNELCAST_TESTS_INTEGRATION_WORKER_PYTHON_FIXTURE_H_

#include <catch2/catch.hpp>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/cpu/cpu_target.h"

namespace kernelcast::testing {

// Debian's interpreter, for which PyTorch is a package.
inline constexpr const char* kPython = "/usr/bin/python3";

// Warns where there is no PyTorch; nothing can be tested then.
bool HaveTorch();

// One target for all cases of a test, so that each candidate sees what earlier ones left.
worker::CpuTarget& PythonTarget();

Candidate PythonCandidate(const Problem& problem, const std::string& source);
// A KernelBench task.
Problem MakeTask(const std::string& source);

// Requires that the target answers.
worker::CompileResult CompilePython(const Problem& problem, const Candidate& candidate);

// Requires that the candidate compiles.
absl::StatusOr<Measurement> TryMeasure(const Problem& problem, const Candidate& candidate);
// Repeats while the machine is too noisy, as the orchestrator does.
Measurement MeasurePython(const Problem& problem, const Candidate& candidate);
Measurement MeasurePython(const Problem& problem, const std::string& source);

template <class Outcome>
Outcome MeasureAs(const Problem& problem, const std::string& source) {
  const Measurement measurement = MeasurePython(problem, source);
  INFO(MeasurementFeedback(measurement));
  REQUIRE(std::holds_alternative<Outcome>(measurement.outcome));
  return std::get<Outcome>(measurement.outcome);
}

// A KernelBench task that is quick to judge: forward(self, x, n) returns torch.relu(x) * n.
extern const char* const kReluTask;
// A candidate of it. `body` is that of forward, with its indentation; `before` stands before the
// class.
std::string ModelNew(const std::string& body, const std::string& before = "");

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_INTEGRATION_WORKER_PYTHON_FIXTURE_H_
