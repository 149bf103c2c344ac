#include "tests/bench/experiments/held_out.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::forecaster {

void AddHeldOutOptions(CLI::App& app, HeldOutOptions& options, const std::string& seeds) {
  app.add_option("--problems", options.problems, "Folder of problems");
  app.add_option("--target", options.target, "cuda or cpu")->check(CLI::IsMember({"cuda", "cpu"}));
  app.add_option("--records", options.records, "Folder of measured PROBLEM.jsonl.gz");
  app.add_option("--hold-out", options.hold_out, "Excluded from training: problem or family")
      ->check(CLI::IsMember({"problem", "family"}));
  app.add_option("--seeds", options.seeds, seeds)->check(CLI::Range(1, 1000));
  app.add_option("--output", options.output, "File for the figures, as JSON");
}

std::string RecordsFolder(const HeldOutOptions& options) {
  if (!options.records.empty()) return options.records;
  return absl::StrCat(KERNELCAST_SOURCE_DIR "/data/measured/",
                      options.target == kCudaTargetName ? "nvidia-h200" : "amd-epyc", "/spaces");
}

absl::StatusOr<std::vector<MeasuredProblem>> ReadMeasured(const HeldOutOptions& options) {
  return ReadMeasuredProblems(RecordsFolder(options), options.problems);
}

absl::StatusOr<std::shared_ptr<const SharedModel>> HeldOutModels::For(
    const MeasuredProblem& problem) {
  std::shared_ptr<const SharedModel>& shared = models_[options_.Without(problem)];
  if (shared != nullptr) return shared;
  std::map<std::string, ProblemRows> rows;
  for (const MeasuredProblem& other : problems_) {
    if (!options_.Apart(problem, other)) continue;
    ProblemRows& of = rows[other.name];
    of.family = other.family;
    of.encoder = &other.context->EncoderFor(other.target);
    for (const TrainingRow& row : other.rows) of.rows.push_back(&row);
  }
  KC_ASSIGN_OR_RETURN(SharedModel model, SharedModel::Train(rows, 1));
  const ProcessPrior& errors = model.process_prior();
  std::fprintf(
      stderr,
      "without %s: trust %.3f, slope %.3f, correction %.3f, errors: scale %.3f, shape "
      "%.2f, constant %.3f, slope %.3f, template %.3f, main effects %.3f, interactions "
      "%.3f, shared effects %.3f, facts %.3f, noise %.4f, lengths %.2f %.2f, novelty %.2f\n",
      options_.Without(problem).c_str(), model.trust(), model.simulated_slope(),
      model.correction_share(), errors.scale, errors.shape, errors.weights.constant,
      errors.weights.slope, errors.weights.same_template, errors.weights.main_effects,
      errors.weights.interactions, errors.weights.shared_effects, errors.weights.facts,
      errors.noise, errors.lengths.tunables, errors.lengths.facts, errors.novelty);
  shared = std::make_shared<const SharedModel>(std::move(model));
  return shared;
}

void WriteFigures(const HeldOutOptions& options, const std::string& figures) {
  if (options.output.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(options.output).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  std::ofstream(options.output) << figures << "\n";
}

}  // namespace kernelcast::forecaster
