#include "tests/bench/experiments/simulated_search.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>
#include <sstream>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "services/orchestrator/core/plan.h"
#include "services/orchestrator/core/ranking.h"
#include "services/orchestrator/core/state.h"
#include "tests/bench/experiments/embedded_forecaster.h"

namespace kernelcast::forecaster {
namespace {

using orchestrator::EventBody;

constexpr const char* kSearch = "s";
constexpr double kPreparationAbove = 2.5;

void TakePreparationOut(std::vector<int64_t>& times) {
  std::vector<int64_t> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  const int64_t median = sorted[sorted.size() / 2];
  for (int64_t& time : times) {
    if (static_cast<double>(time) > kPreparationAbove * static_cast<double>(median)) time = median;
  }
}

// One search: events in, the next step from the plan, on one device.
class Simulation {
 public:
  Simulation(const RecordedSpace& space, std::shared_ptr<const SharedModel> shared,
             orchestrator::SearchSpec spec)
      : space_(space),
        budget_ns_(spec.budget.max_device_time_ns),
        forecaster_(*space.problem, std::move(shared), spec.seed) {
    const MeasuredProblem& problem = *space.problem;
    inputs_.capacity = {4, 1};
    inputs_.confirmation.candidates = 0;
    spec.problem_id = problem.context->problem.problem_id;
    spec.target = problem.target;
    Apply(orchestrator::ProblemPut{problem.context->problem.files});
    Apply(orchestrator::ReferenceDescribed{
        spec.problem_id, spec.target, {}, "", problem.device_model});
    Apply(orchestrator::SearchCreated{kSearch, std::move(spec), problem.device_model});
  }

  Found Run() {
    while (search().status == orchestrator::SearchStatus::kRunning) {
      if (!StepEvaluations() && !StepSearch() && !Measure()) break;
    }
    return found_;
  }

 private:
  const orchestrator::Search& search() const { return *state_.FindSearch(kSearch); }

  void Apply(EventBody body) {
    const uint64_t sequence = state_.last_sequence() + 1;
    const absl::Status applied =
        state_.Apply(sequence, orchestrator::Event{now_ns_, std::move(body)});
    if (applied.ok()) return;
    std::fprintf(stderr, "%s\n", std::string(applied.ToString()).c_str());
    std::abort();
  }

  // Whether an evaluation took a step that needs no device.
  bool StepEvaluations() {
    for (size_t i = 0; i < live_.size(); ++i) {
      const orchestrator::Evaluation& evaluation = *state_.FindEvaluation(live_[i]);
      orchestrator::EvaluationInputs inputs;
      inputs.now_ns = now_ns_;
      if (Perform(evaluation, PlanEvaluation(state_, evaluation, inputs))) return true;
    }
    return false;
  }

  bool Perform(const orchestrator::Evaluation& evaluation, orchestrator::EvaluationAction action) {
    const std::string id = evaluation.request_id;
    const auto row = space_.row_of.find(evaluation.candidate.candidate_id);
    if (std::holds_alternative<orchestrator::CompileCandidate>(action)) {
      // A point that does not compile has no record.
      if (row == space_.row_of.end()) {
        Apply(orchestrator::EvaluationCompiled{id, CompileError{}, {}});
      } else {
        Apply(orchestrator::EvaluationCompiled{id, space_.facts[row->second], {}});
      }
    } else if (std::holds_alternative<orchestrator::ForecastCandidate>(action)) {
      Apply(orchestrator::EvaluationForecast{id, forecaster_.Predict(row->second)});
    } else if (auto* decide = std::get_if<orchestrator::DecideCandidate>(&action)) {
      Apply(orchestrator::EvaluationDecided{id, decide->decision});
      if (decide->rejection) Settle(id, *decide->rejection);
    } else if (std::holds_alternative<orchestrator::SettlePruned>(action)) {
      Settle(id, orchestrator::Pruned{});
    } else if (auto* reject = std::get_if<orchestrator::RejectCandidate>(&action)) {
      if (!evaluation.decision) {
        Decision decision;
        decision.kind = DecisionKind::kReject;
        decision.reason = reject->reason;
        Apply(orchestrator::EvaluationDecided{id, decision});
      }
      Settle(id, reject->rejection);
    } else {
      return false;
    }
    return true;
  }

  void Settle(const std::string& id,
              std::variant<Measurement, orchestrator::Pruned, orchestrator::Rejection> result) {
    std::erase(live_, id);
    Apply(orchestrator::EvaluationSettled{id, std::move(result), false});
  }

  bool StepSearch() {
    inputs_.now_ns = now_ns_;
    std::optional<orchestrator::SearchAction> action = PlanSearch(state_, search(), inputs_);
    if (!action) return false;
    if (auto* propose = std::get_if<orchestrator::ProposeCandidate>(&*action)) {
      live_.push_back(propose->request_id);
      Apply(orchestrator::EvaluationAccepted{propose->request_id, kSearch, propose->mode,
                                             std::move(propose->candidate), true, "",
                                             space_.problem->device_model});
    } else if (const auto* ranking = std::get_if<orchestrator::RankPruned>(&*action)) {
      std::vector<orchestrator::ForecastResult> forecasts;
      for (const std::string& id : ranking->candidate_ids) {
        forecasts.emplace_back(forecaster_.Predict(space_.row_of.at(id)));
      }
      Apply(*orchestrator::Conclude(search(), *ranking, forecasts, orchestrator::kLabelPatienceNs));
    } else if (auto* finish = std::get_if<orchestrator::FinishSearch>(&*action)) {
      Apply(orchestrator::SearchFinishing{kSearch, finish->reason});
    } else {
      return false;
    }
    return true;
  }

  // Ends the measurement that has waited longest for the device.
  bool Measure() {
    if (live_.empty()) return false;
    const std::string id = live_.front();
    const Candidate& candidate = state_.FindEvaluation(id)->candidate;
    const size_t row = space_.row_of.at(candidate.candidate_id);
    Measurement measurement;
    measurement.candidate_id = candidate.candidate_id;
    measurement.device.model = space_.problem->device_model;
    measurement.device_time_ns = space_.device_times_ns[row];
    const std::optional<double>& log2_speedup = space_.problem->rows[row].log2_speedup;
    if (log2_speedup) {
      MeasuredOk ok;
      ok.speedup.value = ok.speedup.low = ok.speedup.high = std::exp2(*log2_speedup);
      measurement.outcome = ok;
    } else {
      measurement.outcome = WrongResult{};
    }
    now_ns_ += measurement.device_time_ns;
    if (now_ns_ <= budget_ns_) {
      ++found_.measurements;
      if (log2_speedup) found_.speedup = std::max(found_.speedup, std::exp2(*log2_speedup));
    }
    Settle(id, measurement);
    if (!search().spec.measure_everything) forecaster_.Learn(row);
    return true;
  }

  const RecordedSpace& space_;
  const int64_t budget_ns_;
  EmbeddedForecaster forecaster_;
  orchestrator::State state_;
  orchestrator::SearchInputs inputs_;
  std::deque<std::string> live_;  // requests, in order
  int64_t now_ns_ = 0;
  Found found_;
};

}  // namespace

absl::StatusOr<RecordedSpace> ReadSpace(const MeasuredProblem& problem, const std::string& path) {
  RecordedSpace space;
  space.problem = &problem;
  for (size_t row = 0; row < problem.rows.size(); ++row) {
    space.row_of[problem.candidate_ids[row]] = row;
    if (const auto& speedup = problem.rows[row].log2_speedup) {
      space.best_speedup = std::max(space.best_speedup, std::exp2(*speedup));
    }
  }
  KC_ASSIGN_OR_RETURN(const std::string content, ReadGzipFile(path));
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    v1::ExportRecord record;
    google::protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;
    if (!google::protobuf::util::JsonStringToMessage(line, &record, options).ok()) {
      return absl::DataLossError(absl::StrCat(path, ": a record cannot be read"));
    }
    if (!record.evaluation().has_measured()) continue;
    space.facts.push_back(kernelcast::FromProto(record.facts()));
    space.device_times_ns.push_back(ToNanoseconds(record.evaluation().measured().device_time()));
  }
  if (space.facts.size() != problem.rows.size()) {
    return absl::DataLossError(absl::StrCat(path, ": has changed"));
  }
  if (problem.target == kCudaTargetName) TakePreparationOut(space.device_times_ns);
  for (const int64_t time : space.device_times_ns) space.device_time_ns += time;
  return space;
}

Found SimulateSearch(const RecordedSpace& space, std::shared_ptr<const SharedModel> shared,
                     orchestrator::SearchSpec spec) {
  return Simulation(space, std::move(shared), std::move(spec)).Run();
}

}  // namespace kernelcast::forecaster
