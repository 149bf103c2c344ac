#include "tests/bench/worker/measured_estimates.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/domain/scoring.h"
#include "services/worker/core/statistics.h"
#include "services/worker/cuda/target/cuda_target.h"
#include "tests/bench/worker/estimate_ranks.h"
#include "tests/support/kernel_examples.h"
#include "tests/support/services.h"
#include "tests/support/task_examples.h"

namespace kernelcast::testing {
namespace {

// A candidate of either kind.
struct Example {
  std::string kind;
  std::string task;
  Candidate candidate;
  std::shared_ptr<const Problem> problem;

  std::string name() const { return absl::StrCat(task, "/", candidate.name); }
};

std::vector<Example> ReadExamples(const MeasuredEstimatesOptions& options) {
  std::vector<Example> examples;
  std::map<std::string, std::shared_ptr<const Problem>> problems;
  for (KernelExample& triton : ReadKernelExamples(options.triton_folder)) {
    std::shared_ptr<const Problem>& problem = problems[triton.problem];
    if (problem == nullptr) {
      problem = std::make_shared<const Problem>(ReadExampleProblem(triton.problem));
    }
    examples.push_back({"device_triton", triton.problem, std::move(triton.candidate), problem});
  }
  for (const auto& tasks : {ReadTaskExamples(), MakeTaskVariants()}) {
    for (const TaskExample& example : tasks) {
      examples.push_back({"python", example.task, CandidateOf(example), example.problem});
    }
  }
  std::erase_if(examples, [&](const Example& example) {
    return example.name().find(options.only) == std::string::npos;
  });
  return examples;
}

absl::StatusOr<std::unique_ptr<worker::CudaTarget>> MakeTarget(
    const MeasuredEstimatesOptions& options, const TemporaryFolder& folder, bool on_gpu) {
  worker::CudaTargetOptions with;
  with.program_folder = ProgramFolder();
  with.cache_directory = folder.File("cache");
  with.cuda_home = options.cuda_home;
  with.python = options.python;
  with.untrusted_uid = 65534;
  with.compile_processes = 2;
  if (!on_gpu) {
    with.architecture = options.architecture;
    with.gpus = "none";
  }
  return worker::CudaTarget::Make(std::move(with));
}

MeasuredExample DescribeMeasurement(const Example& example, const std::string& device,
                                    const Measurement& measurement) {
  MeasuredExample measured;
  measured.kind = example.kind;
  measured.task = example.task;
  measured.name = example.candidate.name;
  measured.device = device;
  measured.outcome = OutcomeName(measurement.outcome);
  const auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome);
  if (ok == nullptr) return measured;
  for (const ShapeTiming& shape : ok->shapes) {
    measured.candidate_ns.push_back(shape.candidate.median_ns);
    measured.reference_ns.push_back(shape.reference.median_ns);
    if (shape.eager) measured.eager_ns.push_back(shape.eager->candidate.median_ns);
  }
  return measured;
}

// By shape. Empty: a launch is not covered, for `reason`.
std::vector<double> TimesOf(const CompileFacts& facts, std::string& reason) {
  const auto& names = (*FindSimulationSchema(kCudaSimulationSchemaId))->names;
  const auto index = static_cast<size_t>(std::ranges::find(names, "estimated_ns") - names.begin());
  std::vector<double> times;
  if (facts.simulations.empty()) reason = "not simulated";
  for (const ShapeSimulation& shape : facts.simulations) {
    double& sum = times.emplace_back(0);
    for (const LaunchSimulation& launch : shape.launches) {
      if (launch.values.size() <= index) {
        reason = absl::StrCat(launch.kernel, ": ", launch.not_covered);
        return {};
      }
      sum += launch.values[index];
    }
  }
  return times;
}

absl::StatusOr<std::vector<double>> EstimateTimes(worker::CudaTarget& target,
                                                  const Problem& problem,
                                                  const Candidate& candidate, std::string& reason) {
  KC_ASSIGN_OR_RETURN(const auto compiled,
                      target.Compile({problem, &candidate}, worker::CancelToken()));
  if (const auto* const error = std::get_if<CompileError>(&compiled.result)) {
    reason = absl::StrCat("does not compile: ", error->log.substr(0, error->log.find('\n')));
    return std::vector<double>();
  }
  return TimesOf(std::get<worker::CompileSuccess>(compiled.result).facts, reason);
}

void PrintRanks(std::span<const ComparedExample> compared) {
  std::vector<double> ranks;
  std::vector<double> errors;
  std::vector<double> speedups;
  std::vector<double> measured_speedups;
  std::printf("\n%-64s %10s %9s %22s\n", "task", "candidates", "Spearman", "error of the speedup");
  for (const TaskRanks& task : RankTasks(compared)) {
    std::vector<double> own;
    for (size_t i = 0; i < task.log2_errors.size(); ++i) {
      own.push_back(std::abs(task.log2_errors[i]));
      speedups.push_back(task.log2_speedups[i]);
      measured_speedups.push_back(task.log2_speedups[i] - task.log2_errors[i]);
    }
    errors.insert(errors.end(), own.begin(), own.end());
    const double spearman = task.Spearman();
    if (!std::isnan(spearman)) ranks.push_back(spearman);
    std::printf("%-64s %10zu %9.3f", task.task.c_str(), task.measured_log2_ns.size(), spearman);
    if (!own.empty()) std::printf(" %21.2fx", std::exp2(worker::Median(own)));
    std::printf("\n");
  }
  if (!ranks.empty()) {
    std::printf("Spearman of the times, by task: %.3f in the median, %.3f at worst, %zu tasks\n",
                worker::Median(ranks), *std::ranges::min_element(ranks), ranks.size());
  }
  if (errors.empty()) return;
  std::printf(
      "Spearman of the speedups, over all tasks: %.3f, %zu candidates; half of the estimated "
      "speedups are within %.2fx\n",
      Spearman(speedups, measured_speedups), errors.size(), std::exp2(worker::Median(errors)));
}

}  // namespace

absl::Status MeasureExamples(const MeasuredEstimatesOptions& options) {
  const TemporaryFolder folder("measured-estimates");
  KC_ASSIGN_OR_RETURN(const auto target, MakeTarget(options, folder, /*on_gpu=*/true));
  const worker::TargetInfo info = target->Describe();
  if (!info.can_measure) return absl::UnavailableError(info.unavailable_reason);
  for (const std::string& missing : info.missing_tools) std::printf("%s\n", missing.c_str());
  std::ofstream file(options.file, std::ios::app);
  for (const Example& example : ReadExamples(options)) {
    KC_ASSIGN_OR_RETURN(const auto compiled, target->Compile({*example.problem, &example.candidate},
                                                             worker::CancelToken()));
    Measurement measurement;
    if (const auto* const error = std::get_if<CompileError>(&compiled.result)) {
      std::printf("%s: does not compile: %s\n", example.name().c_str(), error->log.c_str());
      continue;
    }
    KC_ASSIGN_OR_RETURN(measurement,
                        target->Measure({*example.problem, example.candidate,
                                         std::get<worker::CompileSuccess>(compiled.result).artifact,
                                         MeasureLevel::kScreen},
                                        worker::CancelToken()));
    std::printf("%s: %s\n", example.name().c_str(), MeasurementFeedback(measurement).c_str());
    std::fflush(stdout);
    file << ToJsonLine(DescribeMeasurement(example, info.device.model, measurement)) << std::endl;
    if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", options.file));
  }
  return absl::OkStatus();
}

absl::Status CompareWithMeasured(const MeasuredEstimatesOptions& options) {
  KC_ASSIGN_OR_RETURN(const std::string lines, ReadFile(options.file));
  KC_ASSIGN_OR_RETURN(const std::vector<MeasuredExample> measured, ParseMeasuredExamples(lines));
  const TemporaryFolder folder("measured-estimates");
  KC_ASSIGN_OR_RETURN(const auto target, MakeTarget(options, folder, /*on_gpu=*/false));
  std::map<std::string, Example> examples;
  for (Example& example : ReadExamples(options)) {
    std::string name = example.name();
    examples.emplace(std::move(name), std::move(example));
  }
  std::map<std::string, std::vector<double>> references;
  std::vector<ComparedExample> compared;
  std::set<std::string> unknown;
  int recorded = 0;
  int python = 0;
  std::printf("%-78s %12s %12s\n", "candidate", "measured us", "estimated us");
  for (const MeasuredExample& one : measured) {
    const auto found = examples.find(absl::StrCat(one.task, "/", one.name));
    if (found == examples.end()) {
      if (options.only.empty()) unknown.insert(absl::StrCat(one.task, "/", one.name));
      continue;
    }
    const auto& [name, example] = *found;
    const Problem& problem = *example.problem;
    std::string reason;
    ComparedExample& both = compared.emplace_back();
    both.measured = one;
    KC_ASSIGN_OR_RETURN(both.estimated.candidate_ns,
                        EstimateTimes(*target, problem, example.candidate, reason));
    if (!references.contains(one.task)) {
      std::string ignored;
      KC_ASSIGN_OR_RETURN(const Candidate reference, ReferenceCandidate(problem, kCudaTargetName));
      KC_ASSIGN_OR_RETURN(references[one.task],
                          EstimateTimes(*target, problem, reference, ignored));
    }
    both.estimated.reference_ns = references[one.task];
    const bool estimated = !both.estimated.candidate_ns.empty();
    if (one.kind == "python") {
      ++python;
      if (estimated) ++recorded;
    }
    std::printf("%-78s ", name.c_str());
    if (one.candidate_ns.empty()) {
      std::printf("%12s ", one.outcome.c_str());
    } else {
      std::printf("%12.1f ", one.candidate_ns[0] / 1000);
    }
    if (estimated) {
      std::printf("%12.1f\n", both.estimated.candidate_ns[0] / 1000);
    } else {
      std::printf("%s\n", reason.c_str());
    }
    std::fflush(stdout);
  }
  for (const std::string& name : unknown) std::printf("%s: no such example\n", name.c_str());
  PrintRanks(compared);
  std::printf("Python candidates recorded: %d of %d\n", recorded, python);
  return absl::OkStatus();
}

}  // namespace kernelcast::testing
