#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_TRAINING_ROW_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_TRAINING_ROW_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "services/forecaster/core/problem_context.h"

namespace kernelcast::forecaster {

// Features of a candidate.
struct CandidateFeatures {
  int template_index = -1;
  // Columns of the problem's TunableEncoder.
  std::vector<float> tunables;
  // Scaled facts; for device code also the launch features and SimulationFeatures. Empty without
  // facts of a schema that has features.
  std::vector<float> facts;
  // Row of the FeatureSchema. Empty unless candidate and reference have such facts.
  std::vector<float> shared;
  // SimulationRow, which begins with the simulated log2 speedup. Empty unless candidate and
  // reference were simulated.
  std::vector<float> simulation;
  // The simulation is compared with a recording of a task's reference, and may be one itself.
  bool is_recorded = false;
  // FailureRow. Empty unless candidate and reference have device CUDA facts.
  std::vector<float> failure;
  // The simulation found faults.
  bool has_findings = false;
  // LeavesOutputsUnwritten or HasWrongOutputs.
  bool has_wrong_outputs = false;
  // HasAgreedOutputs, and no faults.
  bool has_agreed_outputs = false;
};

// Features for a device model. Of simulations for several GPUs, those for the device model are
// used.
CandidateFeatures MakeFeatures(const ProblemContext& problem, const Candidate& candidate,
                               const CompileFacts& facts, const CompileFacts& reference_facts,
                               std::string_view device_model);

// Whether there is anything by which labels of other candidates of the problem can tell about this
// one more than about any other.
bool HasOwnFeatures(const CandidateFeatures& features);

// Equal for candidates with equal features, and stable across processes.
std::string EvidenceId(const CandidateFeatures& features);

// The row of an ensemble of the problem: tunables, then facts. Missing facts are NaN.
std::vector<float> EnsembleRow(const CandidateFeatures& features, size_t columns);

// A label in the form used for training.
struct TrainingRow {
  CandidateFeatures features;
  // Empty: the candidate failed.
  std::optional<double> log2_speedup;
  // The failure was a compile error.
  bool compile_error = false;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_TRAINING_ROW_H_
