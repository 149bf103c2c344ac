#include "tests/gpu/task_fixture.h"

#include <utility>

#include "common/base/clock.h"
#include "services/worker/core/verdict.h"
#include "tests/support/kernel_examples.h"

namespace kernelcast::testing {
std::optional<std::string> NoTasks() {
  if (PythonOfTests("triton").empty()) {
    return "no interpreter with PyTorch: set KERNELCAST_PYTHON";
  }
  if (auto reason = NoGpu()) return reason;
  return MissingTool("no PyTorch tasks");
}

Problem MakeTask(const std::string& source) { return ParseProblem({{"task.py", source}}).value(); }

TaskFixture::TaskFixture(Problem problem)
    : gpu_(std::move(problem), worker::CudaMeasureOptions()) {}

Candidate TaskFixture::MakeCandidate(const std::string& source) const {
  Candidate candidate = ReferenceCandidate(gpu_.problem(), kCudaTargetName).value();
  candidate.source = source;
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

Measurement TaskFixture::Measure(const std::string& source, MeasureLevel level) {
  return gpu_.Measure(MakeCandidate(source), level);
}

Measurement TaskFixture::CheckOutcome(const std::string& name, const std::string& source,
                                      const std::set<std::string>& outcomes) {
  const int64_t start_ns = Clock::Real().MonotonicNs();
  Measurement measurement = Measure(source);
  const std::string outcome(OutcomeName(measurement.outcome));
  const std::string feedback = MeasurementFeedback(measurement);
  std::printf("%s: %s (%.2f s): %s\n", name.c_str(), outcome.c_str(),
              static_cast<double>(Clock::Real().MonotonicNs() - start_ns) * 1e-9, feedback.c_str());
  std::fflush(stdout);
  INFO(name << ": " << feedback);
  CHECK(outcomes.contains(outcome));
  return measurement;
}

std::string TaskFixture::CheckCompileError(const std::string& name, const std::string& source) {
  const auto measured = gpu_.TryMeasure(MakeCandidate(source), MeasureLevel::kScreen);
  INFO(name << ": "
            << (measured.ok() ? MeasurementFeedback(*measured) : measured.status().ToString()));
  const auto error = worker::NotCompiledError(measured.status());
  REQUIRE(error);
  std::printf("%s: compile_error: %s\n", name.c_str(), error->log.c_str());
  std::fflush(stdout);
  return error->log;
}

}  // namespace kernelcast::testing
