#include "services/worker/cuda/target/trusted_programs.h"

#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/cuda/judge/judge_kernels.h"

namespace kernelcast::worker {
namespace {

// Number of problems whose programs are kept in memory. The artefact cache has them too.
constexpr size_t kMaxTrusted = 256;

}  // namespace

absl::StatusOr<CudaProgram> TrustedPrograms::CompileProgram(const KernelProgram& program,
                                                            const std::string& what,
                                                            const std::string& architecture,
                                                            const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(
      const CompileResult compiled,
      compiler_.Compile(program.source, program.flags, LaunchShapesOf(program.launches, {}),
                        architecture, cancel));
  if (const auto* error = std::get_if<CompileError>(&compiled.result)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the ", what, " does not compile: ", error->log.substr(0, 2000)));
  }
  return CudaProgram{std::get<CompileSuccess>(compiled.result).artifact.content,
                     program.launches,
                     program.workspace_bytes,
                     {}};
}

absl::StatusOr<std::vector<std::string>> TrustedPrograms::CompileJudge(
    const std::string& architecture, const CancelToken& cancel) {
  const std::vector<JudgeModule> modules = JudgeModules();
  std::vector<absl::StatusOr<CudaProgram>> compiled(modules.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < modules.size(); ++i) {
      threads.emplace_back([&, i] {
        KernelProgram judge;
        judge.source = modules[i].source;
        compiled[i] = CompileProgram(judge, "judge", architecture, cancel);
      });
    }
  }
  std::vector<std::string> cubins;
  for (absl::StatusOr<CudaProgram>& program : compiled) {
    KC_RETURN_IF_ERROR(program.status());
    cubins.push_back(std::move(program->cubin));
  }
  return cubins;
}

absl::StatusOr<std::shared_ptr<const CudaPrograms>> TrustedPrograms::Get(
    const Problem& problem, const std::string& architecture, const CancelToken& cancel) {
  const std::string key = absl::StrCat(problem.problem_id, "/", architecture);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = programs_.find(key); found != programs_.end()) return found->second;
  }
  if (problem.task) {
    auto programs = std::make_shared<CudaPrograms>();
    KC_ASSIGN_OR_RETURN(programs->judge, CompileJudge(architecture, cancel));
    return Keep(key, std::move(programs));
  }
  const auto target = problem.targets.find(kCudaTargetName);
  if (target == problem.targets.end() || !target->second.oracle) {
    return absl::FailedPreconditionError(
        absl::StrCat("problem ", problem.name, " has no reference or no oracle for target cuda"));
  }
  const int64_t start_ns = Clock::Real().MonotonicNs();
  absl::StatusOr<std::vector<std::string>> judge;
  absl::StatusOr<CudaProgram> reference;
  absl::StatusOr<CudaProgram> oracle;
  {
    const std::jthread with_judge([&] { judge = CompileJudge(architecture, cancel); });
    const std::jthread with_reference([&] {
      reference =
          CompileProgram(target->second.reference, "problem's reference", architecture, cancel);
    });
    oracle = CompileProgram(*target->second.oracle, "problem's oracle", architecture, cancel);
  }
  KC_RETURN_IF_ERROR(judge.status());
  KC_RETURN_IF_ERROR(reference.status());
  KC_RETURN_IF_ERROR(oracle.status());
  Log(LogLevel::kDebug, "compiled the judge, reference and oracle of a problem",
      {{"problem", problem.name},
       {"architecture", architecture},
       {"compile_us", (Clock::Real().MonotonicNs() - start_ns) / 1000}});
  // Shared by the measurements that use it.
  auto programs = std::make_shared<CudaPrograms>();
  programs->judge = *std::move(judge);
  programs->reference = *std::move(reference);
  programs->oracle = *std::move(oracle);
  return Keep(key, std::move(programs));
}

std::shared_ptr<const CudaPrograms> TrustedPrograms::Keep(
    const std::string& key, std::shared_ptr<const CudaPrograms> programs) {
  const std::lock_guard lock(mutex_);
  if (programs_.size() >= kMaxTrusted) programs_.clear();
  programs_[key] = programs;
  return programs;
}

}  // namespace kernelcast::worker
