#include "tests/bench/worker/judge_mutants.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "services/worker/core/launch_plan.h"
#include "tests/bench/worker/cuda_mistakes.h"
#include "tests/support/services.h"

namespace kernelcast::testing {
namespace {

std::vector<Problem> CudaProblems() {
  std::vector<Problem> problems;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("examples/problems"))) {
    if (!std::filesystem::exists(entry.path() / "problem.yaml")) continue;
    problems.push_back(ParseProblem(ReadProblemFolder(entry.path().string()).value()).value());
    if (!problems.back().targets.contains(kCudaTargetName)) problems.pop_back();
  }
  return problems;
}

TEST_CASE("Mutants of the cuda references are many, of many kinds, and all different") {
  const std::vector<Problem> problems = CudaProblems();
  REQUIRE(problems.size() >= 8);
  size_t mutants = 0;
  std::map<std::string, int> kinds;
  for (const Problem& problem : problems) {
    INFO(problem.name);
    std::set<std::string> ids = {ReferenceCandidate(problem, kCudaTargetName).value().candidate_id};
    std::set<std::string> own;
    for (const Mutant& mutant : CudaMutants(problem)) {
      INFO(mutant.kind);
      CHECK(ids.insert(mutant.candidate.candidate_id).second);
      CHECK(ValidateCandidate(mutant.candidate).ok());
      own.insert(mutant.kind);
      ++mutants;
    }
    CHECK(own.size() >= 25);
    for (const std::string& kind : own) ++kinds[kind];
  }
  CHECK(mutants >= 200);
  CHECK(kinds.size() >= 60);
  // A few rest on what only some references contain.
  int on_many_problems = 0;
  for (const auto& [kind, count] : kinds) on_many_problems += count >= 8 ? 1 : 0;
  CHECK(on_many_problems >= 40);
}

TEST_CASE("Mutants can be launched at every shape") {
  for (const Problem& problem : CudaProblems()) {
    const ProblemTarget& target = problem.targets.find(kCudaTargetName)->second;
    for (const Mutant& mutant : CudaMutants(problem)) {
      const absl::Status status =
          worker::CheckPlans(problem, target, mutant.candidate.launches,
                             mutant.candidate.workspace_bytes, mutant.candidate.tunables);
      INFO(problem.name << ": " << mutant.kind << ": " << status.ToString());
      CHECK(status.ok());
    }
  }
}

TEST_CASE("Mutants with host code exist for references with one launch and no workspace") {
  size_t mutants = 0;
  for (const Problem& problem : CudaProblems()) {
    const KernelProgram& reference = problem.targets.find(kCudaTargetName)->second.reference;
    const std::vector<Mutant> own = CudaHostMutants(problem);
    INFO(problem.name);
    if (reference.launches.size() > 1 || !reference.workspace_bytes.empty()) CHECK(own.empty());
    std::set<std::string> ids;
    for (const Mutant& mutant : own) {
      INFO(mutant.kind);
      CHECK(ids.insert(mutant.candidate.candidate_id).second);
      CHECK(ValidateCandidate(mutant.candidate).ok());
      CHECK(mutant.candidate.source.find("<<<") != std::string::npos);
    }
    mutants += own.size();
  }
  CHECK(mutants >= 40);
}

TEST_CASE("Each mistake changes the source of each reference that it names") {
  for (const Problem& problem : CudaProblems()) {
    const std::string& source = problem.targets.find(kCudaTargetName)->second.reference.source;
    for (const MistakenSource& mistake : CudaMistakes(problem)) {
      INFO(problem.name << ": " << mistake.kind);
      CHECK(mistake.replaced);
      CHECK(mistake.source != source);
    }
  }
}

TEST_CASE("Code is inserted at the start of each launched kernel") {
  Launch first;
  first.kernel = "a";
  Launch second;
  second.kernel = "b";
  CHECK(InsertAtKernels(
            "// a (b)\n__global__ void a(int x) { y; }\n__global__ void __launch_bounds__(32) "
            "b() { z; }\n",
            {first, second, first}, "t;") ==
        "// a (b)\n__global__ void a(int x) {t; y; }\n__global__ void __launch_bounds__(32) "
        "b() {t; z; }\n");
}

TEST_CASE("Honest cuda kernels are the reference and points that are expected to be right") {
  for (const Problem& problem : CudaProblems()) {
    INFO(problem.name);
    const auto kernels =
        HonestCudaKernels(problem, SourcePath("examples/problems/" + problem.name), 22);
    REQUIRE(kernels.ok());
    CHECK(kernels->size() == 22);
    std::set<std::string> ids;
    for (const Mutant& kernel : *kernels) {
      CHECK(kernel.may_be_honest);
      CHECK(ids.insert(kernel.candidate.candidate_id).second);
    }
    CHECK(HonestCudaKernels(problem, SourcePath("examples/problems/" + problem.name), 0)->empty());
  }
}

TEST_CASE("Mutants of a cpu reference differ from it") {
  const Problem problem =
      ParseProblem(ReadProblemFolder(SourcePath("examples/problems/rmsnorm")).value()).value();
  std::set<std::string> ids = {ReferenceCandidate(problem, kCpuTargetName).value().candidate_id};
  const std::vector<Mutant> mutants = CpuMutants(problem);
  CHECK(mutants.size() == 43);
  for (const Mutant& mutant : mutants) {
    CHECK(ids.insert(mutant.candidate.candidate_id).second);
  }
}

}  // namespace
}  // namespace kernelcast::testing
