#include "services/worker/cuda/language/device_code.h"

#include <charconv>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/compiler/kernel_parameters.h"
#include "services/worker/cuda/compiler/ptx_facts.h"
#include "services/worker/cuda/compiler/simulation_plan.h"
#include "services/worker/cuda/compiler/wire.h"

namespace kernelcast::worker {
namespace {

using compiler_wire::Decoder;
using compiler_wire::Encoder;

// Ends an artefact, after the size of the launches. A loader of cubins ignores what follows them.
constexpr std::string_view kArtifactMark = "kernelcast launches 1\n";

void AddTexts(const std::vector<std::string>& texts, Encoder& encoder) {
  encoder.Number(texts.size());
  for (const std::string& text : texts) encoder.Text(text);
}

std::vector<std::string> ReadTexts(Decoder& decoder) {
  std::vector<std::string> texts;
  for (uint64_t left = decoder.Count(); left > 0; --left) texts.emplace_back(decoder.Text());
  return texts;
}

}  // namespace

CompileResult Refusal(std::string log, CompileStage stage) {
  CompileResult refused;
  refused.result = CompileError{stage, std::move(log)};
  return refused;
}

uint64_t ArchitectureNumber(const std::string& architecture) {
  uint64_t number = 0;
  if (!architecture.starts_with("sm_")) return 0;
  std::from_chars(architecture.data() + 3, architecture.data() + architecture.size(), number);
  return number;
}

std::string EncodeDeviceArtifact(const DeviceArtifact& artifact) {
  Encoder encoder;
  encoder.Text(artifact.source).Number(artifact.launches.size());
  for (const Launch& launch : artifact.launches) {
    encoder.Text(launch.kernel).Text(launch.shared_memory_bytes).Text(launch.when);
    AddTexts(launch.grid, encoder);
    AddTexts(launch.block, encoder);
    AddTexts(launch.arguments, encoder);
  }
  const std::string fields = encoder.TakeFields();
  Encoder size;
  size.Number(fields.size());
  return absl::StrCat(artifact.cubin, fields, size.TakeFields(), std::string(kArtifactMark));
}

absl::StatusOr<DeviceArtifact> DecodeDeviceArtifact(std::string_view content) {
  const absl::Status damaged = absl::InvalidArgumentError("the artefact does not hold launches");
  constexpr size_t kTailBytes = sizeof(uint64_t) + kArtifactMark.size();
  if (content.size() < kTailBytes || !content.ends_with(kArtifactMark)) return damaged;
  const std::string_view tail = content.substr(content.size() - kTailBytes);
  Decoder sizes(tail.substr(0, sizeof(uint64_t)));
  const uint64_t size = sizes.Number();
  content.remove_suffix(kTailBytes);
  if (size > content.size()) return damaged;
  DeviceArtifact artifact;
  artifact.cubin = std::string(content.substr(0, content.size() - size));
  Decoder decoder(content.substr(content.size() - size));
  artifact.source = decoder.Text();
  for (uint64_t left = decoder.Count(); left > 0; --left) {
    Launch& launch = artifact.launches.emplace_back();
    launch.kernel = decoder.Text();
    launch.shared_memory_bytes = decoder.Text();
    launch.when = decoder.Text();
    launch.grid = ReadTexts(decoder);
    launch.block = ReadTexts(decoder);
    launch.arguments = ReadTexts(decoder);
  }
  if (!decoder.done() || artifact.launches.empty()) return damaged;
  return artifact;
}

std::optional<std::string> UnplannedLaunches(const CompileJob& job) {
  const absl::Status plans = CheckPlans(job.problem, job.target, job.candidate.launches,
                                        job.candidate.workspace_bytes, job.candidate.tunables);
  if (plans.ok()) return std::nullopt;
  return std::string(plans.message());
}

absl::StatusOr<std::optional<std::string>> CheckAndSimulate(const CompileJob& job,
                                                            const SimulatedProgram& program,
                                                            CudaCompiler& simulator,
                                                            const CancelToken& cancel,
                                                            CompileSuccess& success) {
  const auto& [problem, target, candidate, gpu] = job;
  KC_ASSIGN_OR_RETURN(const LaunchPlan plan,
                      PlanLaunches(problem, candidate.launches, candidate.workspace_bytes,
                                   candidate.tunables, target.bench_shapes.front()));
  if (auto wrong = CheckArguments(candidate.launches, plan, ReadSignatures(success.ptx))) {
    return wrong;
  }
  KC_ASSIGN_OR_RETURN(const Cubin cubin, ReadCubin(success.artifact.content));
  const auto plan_at = [&](const AxisValues& shape) {
    return PlanSimulation(problem, candidate.launches, candidate.workspace_bytes,
                          candidate.tunables, shape, cubin);
  };
  std::vector<SimulationPlan> plans;
  for (const AxisValues& shape : target.bench_shapes) {
    KC_ASSIGN_OR_RETURN(SimulationPlan timed, plan_at(shape));
    plans.push_back(std::move(timed));
  }
  std::vector<SimulationPlan> checks;
  KC_ASSIGN_OR_RETURN(const auto cases,
                      simulator.CasesOf(problem, target, program.architecture, cancel));
  for (const SimulatedCase& at : *cases) {
    absl::StatusOr<SimulationPlan> checked = plan_at(at.spec.axes);
    if (!checked.ok()) continue;
    SetContents(at, *checked);
    checked->shape = at.text;
    checked->compared = &at;
    checks.push_back(*std::move(checked));
  }
  KC_ASSIGN_OR_RETURN(
      success.facts.simulations,
      simulator.Simulate(program, std::move(plans), std::move(checks), gpu.name, cancel));
  return std::nullopt;
}

absl::Status AddDecidedLaunchFacts(const CompileJob& job, CompileResult& result) {
  auto* const success = std::get_if<CompileSuccess>(&result.result);
  if (success == nullptr) return absl::OkStatus();
  const Candidate& candidate = job.candidate;
  KC_ASSIGN_OR_RETURN(const DeviceArtifact artifact,
                      DecodeDeviceArtifact(success->artifact.content));
  KC_ASSIGN_OR_RETURN(const Cubin cubin, ReadCubin(artifact.cubin));
  const auto plan = PlanLaunches(job.problem, artifact.launches, candidate.workspace_bytes,
                                 candidate.tunables, job.target.bench_shapes.front());
  if (!plan.ok()) {
    result = Refusal(std::string(plan.status().message()));
    return absl::OkStatus();
  }
  std::vector<Launch> launched;
  for (const PlannedLaunch& launch : plan->launches) {
    launched.push_back(artifact.launches[launch.index]);
  }
  AddLaunchFacts(LaunchShapesOf(launched, candidate.tunables), cubin, job.gpu.architecture,
                 success->facts);
  return absl::OkStatus();
}

absl::Status CheckDecidedLaunches(const CompileJob& job, CudaCompiler& simulator,
                                  const CancelToken& cancel, CompileResult& result) {
  auto* const success = std::get_if<CompileSuccess>(&result.result);
  if (success == nullptr) return absl::OkStatus();
  KC_ASSIGN_OR_RETURN(DeviceArtifact artifact, DecodeDeviceArtifact(success->artifact.content));
  Candidate launched = job.candidate;
  launched.launches = std::move(artifact.launches);
  const CompileJob launches{job.problem, job.target, launched, job.gpu};
  std::optional<std::string> wrong = UnplannedLaunches(launches);
  if (!wrong) {
    SimulatedProgram program{.architecture = job.gpu.architecture,
                             .source = std::move(artifact.source)};
    if (program.source.empty()) program.ptx = success->ptx;
    KC_ASSIGN_OR_RETURN(wrong, CheckAndSimulate(launches, program, simulator, cancel, *success));
  }
  success->ptx.clear();
  if (wrong) result = Refusal(*std::move(wrong));
  return absl::OkStatus();
}

absl::StatusOr<CudaProgram> LoadDeviceArtifact(const Candidate& candidate,
                                               const Artifact& artifact) {
  KC_ASSIGN_OR_RETURN(DeviceArtifact made, DecodeDeviceArtifact(artifact.content));
  return CudaProgram{std::move(made.cubin), std::move(made.launches), candidate.workspace_bytes,
                     candidate.tunables};
}

}  // namespace kernelcast::worker
