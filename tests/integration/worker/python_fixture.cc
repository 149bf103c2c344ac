#include "tests/integration/worker/python_fixture.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/worker/python/interpreter.h"
#include "tests/integration/worker/cpu_fixture.h"
#include "tests/support/services.h"

namespace kernelcast::testing {

using worker::CpuTarget;

bool HaveTorch() {
  static const absl::Status found = worker::ProbeTorch(kPython).status();
  if (!found.ok()) WARN(found.message() << ": nothing is tested (install python3-torch)");
  return found.ok();
}

CpuTarget& PythonTarget() {
  static const TemporaryFolder folder("python-task");
  static const auto target = [] {
    worker::CpuTargetOptions options = CpuFixture::Options(folder.path());
    options.python = kPython;
    options.runner.max_memory_bytes = int64_t{512} << 20;
    return CpuTarget::Make(std::move(options)).value();
  }();
  return *target;
}

Candidate PythonCandidate(const Problem& problem, const std::string& source) {
  Candidate candidate;
  candidate.problem_id = problem.problem_id;
  candidate.target = "cpu";
  candidate.kind = CandidateKind::kPython;
  candidate.source = source;
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

Problem MakeTask(const std::string& source) { return ParseProblem({{"task.py", source}}).value(); }

worker::CompileResult CompilePython(const Problem& problem, const Candidate& candidate) {
  auto compiled = PythonTarget().Compile({problem, &candidate}, worker::CancelToken());
  INFO(compiled.status().ToString());
  REQUIRE(compiled.ok());
  return *std::move(compiled);
}

absl::StatusOr<Measurement> TryMeasure(const Problem& problem, const Candidate& candidate) {
  const auto compiled = CompilePython(problem, candidate);
  if (const auto* error = std::get_if<CompileError>(&compiled.result)) FAIL(error->log);
  const Artifact& artifact = std::get<worker::CompileSuccess>(compiled.result).artifact;
  return PythonTarget().Measure({problem, candidate, artifact, MeasureLevel::kScreen},
                                worker::CancelToken());
}

Measurement MeasurePython(const Problem& problem, const Candidate& candidate) {
  constexpr int kAttempts = 5;
  for (int attempt = 1;; ++attempt) {
    auto measured = TryMeasure(problem, candidate);
    INFO(measured.status().ToString());
    REQUIRE(measured.ok());
    if (attempt == kAttempts || !std::holds_alternative<EnvironmentUnstable>(measured->outcome)) {
      return *std::move(measured);
    }
  }
}

Measurement MeasurePython(const Problem& problem, const std::string& source) {
  return MeasurePython(problem, PythonCandidate(problem, source));
}

const char* const kReluTask = R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, n):
        return torch.relu(x) * n

def get_inputs():
    return [torch.randn(64, 256), 3]

def get_init_inputs():
    return []
)";

std::string ModelNew(const std::string& body, const std::string& before) {
  return absl::StrCat("import torch\nimport torch.nn as nn\n", before,
                      "\nclass ModelNew(nn.Module):\n    def forward(self, x, n):\n", body, "\n");
}

}  // namespace kernelcast::testing
