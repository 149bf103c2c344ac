#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PLAN_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PLAN_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "services/orchestrator/core/candidate_source.h"
#include "services/orchestrator/core/confirmation.h"
#include "services/orchestrator/core/ports.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// Chooses the next action, as pure functions: the same state and inputs give the same action. The
// engine performs the actions and turns their results into events. It performs an action in
// progress once, and after a restart again.

// The workers' reports, for searches and evaluations that need a worker.
struct DeviceInputs {
  // The device model for a search or evaluation without one, as Workers::DeviceModelFor finds it.
  // Empty: no worker measures what it wants.
  std::string found;
  // Where there is no worker: the devices that there are, and whether workers compile for what it
  // wants.
  std::vector<Workers::Device> devices = {};
  bool can_compile = false;
  // When the process started. A wait for a worker does not begin earlier, because workers may start
  // together with it.
  int64_t start_ns = 0;
  absl::Duration grace = absl::Seconds(10);  // EngineOptions::device_grace
};

// Event: DeviceChosen.
struct ChooseDevice {
  std::string device_model;
};

// --- Evaluations ---

// No worker measures what the evaluation wants. One may start.
struct WaitForDevice {};

// Use the measurement of this earlier request. Events: EvaluationDecided and EvaluationSettled.
struct ReuseMeasurement {
  std::string request_id;
};

// Compile the candidate. Event: EvaluationCompiled.
struct CompileCandidate {};

// Compile the problem's reference for the evaluation's target and device model. Event:
// ReferenceDescribed.
struct DescribeReference {};

// Forecast the candidate. Event: EvaluationForecast.
struct ForecastCandidate {
  ForecastQuery query;
};

// Events: EvaluationDecided and, with a rejection, EvaluationSettled. A rejection is logged with
// the decision's kind and reason alone.
struct DecideCandidate {
  Decision decision;
  std::optional<Rejection> rejection;
};

// Measure the candidate. Event: EvaluationSettled.
struct MeasureCandidate {
  MeasureSpec spec = MeasureLevel::kScreen;
  bool profile = false;
};

// NextToDecide does not return the evaluation yet.
struct WaitForOthers {};

// Settle on the forecast. Event: EvaluationSettled.
struct SettlePruned {};

// Decide to reject, if that has not happened, and settle. Events: EvaluationDecided and
// EvaluationSettled.
struct RejectCandidate {
  DecisionReason reason = DecisionReason::kUnavailable;
  Rejection rejection;
};

using EvaluationAction =
    std::variant<ChooseDevice, WaitForDevice, ReuseMeasurement, CompileCandidate, DescribeReference,
                 ForecastCandidate, DecideCandidate, WaitForOthers, MeasureCandidate, SettlePruned,
                 RejectCandidate>;

struct EvaluationInputs {
  int64_t now_ns = 0;   // since the Unix epoch
  DeviceInputs device;  // used only if the evaluation has no device model
  // Handling the evaluation's last result crashed the process twice (CrashJournal).
  bool set_aside = false;
  bool is_next = false;  // NextToDecide has returned it
};

// The next action of a live evaluation.
EvaluationAction PlanEvaluation(const State& state, const Evaluation& evaluation,
                                const EvaluationInputs& inputs);

// Whether the evaluation is measured again after this measurement, because the environment was
// unstable. Event: MeasurementRepeated. `retries` is EngineOptions::unstable_retries.
bool RepeatsMeasurement(const Evaluation& evaluation, const Measurement& measurement, int retries);

// The cause of a rejection whose decision has this reason.
Rejection::Cause CauseOf(DecisionReason reason);

// --- Searches ---

// The search cannot continue without a worker. Reject its live evaluations and close it. Events:
// EvaluationDecided and EvaluationSettled for each, and SearchClosed.
struct AbandonSearch {
  DecisionReason reason = DecisionReason::kUnavailable;
  Rejection rejection;
  bool failed = false;  // it was not stopped
};

// Measure these candidates once more, at the final level. Event: EvaluationAccepted for each.
struct MeasureFinals {
  std::vector<std::string> candidate_ids;
};

// Measure these finalists at the final level at held-out bench shapes, as candidates for the
// problem. Events: ProblemPut, if it is not known, and EvaluationAccepted for each.
struct MeasureHeldOut {
  std::vector<std::string> candidate_ids;
  std::shared_ptr<const Problem> problem;
};

// Event: SearchClosed. The request whose measurement is the search's result, or empty.
struct CloseSearch {
  std::string confirmed_request_id;
};

using SearchAction =
    std::variant<ChooseDevice, AbandonSearch, ProposeCandidate, RequestKernel, RankPruned,
                 FinishSearch, MeasureFinals, MeasureHeldOut, CloseSearch>;

struct SearchInputs : SourceInputs {
  ConfirmationLimits confirmation;
  DeviceInputs device;
};

// The next action of an open search. Nothing: it waits for results.
std::optional<SearchAction> PlanSearch(const State& state, const Search& search,
                                       const SearchInputs& inputs);

// Why the search needs a worker that is not there: "no worker measures cuda on NVIDIA H200; there
// are: cpu on AMD EPYC 9654". Empty: it needs none.
std::string MissingWorker(const Search& search, const SearchInputs& inputs);

// Closes a search that is finishing and has nothing in flight.
CloseSearch PlanClose(const Search& search);

// --- Calls ---

// Calls that an open search needs, whatever it does next. The engine makes those that are not in
// progress.
struct SearchCalls {
  // Compile the reference. Event: ReferenceDescribed.
  bool reference = false;
  // Ask the model for the kernels with these numbers, which are in the log as GenerationRequested.
  // Event: GenerationSettled.
  std::vector<uint64_t> kernels;
  // Ask the critic before the kernels with these numbers. Event: GenerationAdvised.
  std::vector<uint64_t> advice;
};
SearchCalls PlanCalls(const State& state, const Search& search, const SearchInputs& inputs);

// The work that ends when a reference cannot be compiled: these evaluations are rejected, and these
// searches fail.
struct MissingReference {
  std::vector<std::string> request_ids;
  std::vector<std::string> search_ids;
};
MissingReference PlanWithoutReference(const State& state, const std::string& problem_id,
                                      const std::string& target, const std::string& device_model);

// The evaluations that wait for a reference, sorted.
std::vector<std::string> WaitingForReference(const State& state, const std::string& problem_id,
                                             const std::string& target,
                                             const std::string& device_model);

// Labels of one problem to offer to the forecasters. Event: LabelsObserved.
struct LabelOffer {
  static constexpr size_t kMaxLabels = 256;

  std::string problem_id;
  std::vector<Label> labels;
};
// Offers of the pending labels, except those of the requests in `offered`, which are on their way.
std::vector<LabelOffer> PlanLabels(const State& state, const std::set<std::string>& offered);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PLAN_H_
