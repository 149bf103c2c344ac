#include "tests/bench/experiments/simulated_search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>
#include <random>
#include <sstream>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "services/orchestrator/core/plan.h"
#include "services/orchestrator/core/ranking.h"
#include "services/orchestrator/core/state.h"
#include "services/worker/core/speedup_interval.h"

namespace kernelcast::forecaster {
namespace {

using orchestrator::EventBody;

constexpr const char* kSearch = "s";
constexpr double kPreparationAbove = 2.5;
constexpr int kDrawnByAuthor = 4;
// A block of the recorded spaces took this long, with everything around its calls.
constexpr int64_t kCudaBlockNs = 1'160'000;
constexpr int64_t kCpuBlockNs = 4'610'000;
constexpr int64_t kBlocksPerGroup = 4;

void TakePreparationOut(std::vector<int64_t>& times) {
  std::vector<int64_t> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  const int64_t median = sorted[sorted.size() / 2];
  for (int64_t& time : times) {
    if (static_cast<double>(time) > kPreparationAbove * static_cast<double>(median)) time = median;
  }
}

// Groups after which the worker looks whether a candidate is behind, and the confidence of a look.
constexpr uint32_t kLooks[] = {3, 6, 12, 24, 48};
constexpr double kLookConfidence = 0.99;

// Number of groups after which the timing of a row ends. All: it is not behind.
uint32_t GroupsUntilBehind(const RecordedTiming& timing, double log2_speedup, double stop_below,
                           bool on_gpu) {
  if (!(stop_below > 0)) return timing.groups;
  const worker::SpreadOptions options =
      on_gpu ? worker::SpreadOptions::Cuda() : worker::SpreadOptions::Cpu();
  const worker::Spread spread = worker::RunnerSpread(options).Of("");
  for (const uint32_t look : kLooks) {
    if (look >= timing.groups) break;
    const worker::RunnerValue value = {log2_speedup * std::log(2.0), timing.noise_variance / look};
    if (SpeedupInterval({&value, 1}, spread, options, kLookConfidence).high < stop_below) {
      return look;
    }
  }
  return timing.groups;
}

// Tunables in which two kernels differ. Those of different templates have nothing in common.
size_t Distance(const Candidate& a, const Candidate& b) {
  constexpr size_t kApart = 1000;
  if (a.tunables.size() != b.tunables.size()) return kApart;
  size_t distance = 0;
  for (size_t i = 0; i < a.tunables.size(); ++i) {
    if (a.tunables[i].name != b.tunables[i].name) return kApart;
    if (a.tunables[i] == b.tunables[i]) continue;
    if (a.tunables[i].name == "TEMPLATE") return kApart;
    ++distance;
  }
  return distance;
}

// The kernel as an author writes it. It is no point of the template space.
Candidate Written(Candidate candidate) {
  candidate.source += "\n";
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

// Writes each recorded kernel once.
class ReplayingAuthor {
 public:
  ReplayingAuthor(const RecordedSpace& space, uint64_t seed) : space_(space), random_(seed) {
    for (size_t row = 0; row < space.candidates.size(); ++row) unwritten_.push_back(row);
  }

  // The row of a kernel derived from the parent. Nothing: all were written.
  std::optional<size_t> Write(const std::string& parent_candidate_id) {
    if (unwritten_.empty()) return std::nullopt;
    const auto parent = space_.row_of.find(parent_candidate_id);
    const auto is_child = [&](size_t row) {
      const auto recorded = space_.row_of.find(space_.candidates[row].parent_candidate_id);
      return parent != space_.row_of.end() && recorded != space_.row_of.end() &&
             recorded->second == parent->second;
    };
    auto chosen = std::ranges::find_if(unwritten_, is_child);
    if (chosen == unwritten_.end()) {
      std::uniform_int_distribution<size_t> any(0, unwritten_.size() - 1);
      chosen = unwritten_.begin() + static_cast<ptrdiff_t>(any(random_));
      for (int i = 1; parent != space_.row_of.end() && i < kDrawnByAuthor; ++i) {
        const auto other = unwritten_.begin() + static_cast<ptrdiff_t>(any(random_));
        const Candidate& of = space_.candidates[parent->second];
        if (Distance(space_.candidates[*other], of) < Distance(space_.candidates[*chosen], of)) {
          chosen = other;
        }
      }
    }
    const size_t row = *chosen;
    unwritten_.erase(chosen);
    return row;
  }

 private:
  const RecordedSpace& space_;
  std::mt19937_64 random_;
  std::vector<size_t> unwritten_;
};

// One search: events in, the next step from the plan, on one device.
class Simulation {
 public:
  Simulation(const RecordedSpace& space, SearchForecaster* forecaster,
             orchestrator::SearchSpec spec)
      : space_(space),
        budget_ns_(spec.budget.max_device_time_ns),
        forecaster_(forecaster),
        author_(space, spec.seed) {
    const MeasuredProblem& problem = *space.problem;
    inputs_.has_writer = true;
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
      if (!StepEvaluations() && !WriteKernel() && !StepSearch() && !Measure()) break;
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
    } else if (const auto* forecast = std::get_if<orchestrator::ForecastCandidate>(&action)) {
      Apply(orchestrator::EvaluationForecast{id,
                                             forecaster_->Forecast(forecast->query, row->second)});
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
      for (size_t i = 0; i < ranking->candidate_ids.size(); ++i) {
        forecasts.push_back(forecaster_->Forecast(ranking->queries[i],
                                                  space_.row_of.at(ranking->candidate_ids[i])));
      }
      Apply(*orchestrator::Conclude(search(), *ranking, forecasts, orchestrator::kLabelPatienceNs));
    } else if (auto* request = std::get_if<orchestrator::RequestKernel>(&*action)) {
      Apply(orchestrator::GenerationRequested{kSearch, request->number,
                                              std::move(request->parent_candidate_id)});
    } else if (auto* finish = std::get_if<orchestrator::FinishSearch>(&*action)) {
      Apply(orchestrator::SearchFinishing{kSearch, finish->reason});
    } else {
      return false;
    }
    return true;
  }

  // Answers the first request for a kernel.
  bool WriteKernel() {
    inputs_.now_ns = now_ns_;
    const std::vector<uint64_t> numbers = PlanCalls(state_, search(), inputs_).kernels;
    if (numbers.empty()) return false;
    orchestrator::GenerationSettled settled;
    settled.search_id = kSearch;
    settled.number = numbers.front();
    settled.parent_candidate_id =
        search().generation->in_flight.at(settled.number).parent_candidate_id;
    const std::optional<size_t> row = author_.Write(settled.parent_candidate_id);
    if (!row) {
      settled.outcome = orchestrator::GenerationOutcome::kUnusable;
      settled.detail = "all kernels were written";
      Apply(std::move(settled));
      return true;
    }
    const std::string id = absl::StrCat(kSearch, "/kernel", settled.number);
    settled.outcome = orchestrator::GenerationOutcome::kWritten;
    settled.detail = id;
    Candidate candidate = Written(space_.candidates[*row]);
    candidate.parent_candidate_id = settled.parent_candidate_id;
    Apply(std::move(settled));
    live_.push_back(id);
    Apply(orchestrator::EvaluationAccepted{
        id, kSearch,
        search().spec.measure_everything ? orchestrator::EvaluateMode::kMeasure
                                         : orchestrator::EvaluateMode::kRoute,
        std::move(candidate), true, "", space_.problem->device_model});
    return true;
  }

  // The device time of a measurement, and whether its timing ends early.
  std::pair<int64_t, bool> TimeOf(size_t row, double stop_below) const {
    const std::optional<double>& log2_speedup = space_.problem->rows[row].log2_speedup;
    const RecordedTiming& timing = space_.timings[row];
    if (!log2_speedup) return {space_.device_times_ns[row], false};
    const bool on_gpu = space_.problem->target == kCudaTargetName;
    const int64_t left_out =
        timing.groups - GroupsUntilBehind(timing, *log2_speedup, stop_below, on_gpu);
    const int64_t saved_ns = left_out * kBlocksPerGroup * (on_gpu ? kCudaBlockNs : kCpuBlockNs);
    return {std::max(space_.device_times_ns[row] - saved_ns, space_.device_times_ns[row] / 4),
            left_out > 0};
  }

  // Ends the measurement that has waited longest for the device.
  bool Measure() {
    if (live_.empty()) return false;
    const std::string id = live_.front();
    const orchestrator::Evaluation& evaluation = *state_.FindEvaluation(id);
    const Candidate& candidate = evaluation.candidate;
    const size_t row = space_.row_of.at(candidate.candidate_id);
    orchestrator::EvaluationInputs inputs;
    inputs.now_ns = now_ns_;
    const auto measure =
        std::get<orchestrator::MeasureCandidate>(PlanEvaluation(state_, evaluation, inputs));
    const auto [device_time_ns, stopped_early] = TimeOf(row, measure.spec.StopBelow(1));
    Measurement measurement;
    measurement.candidate_id = candidate.candidate_id;
    measurement.device.model = space_.problem->device_model;
    measurement.device_time_ns = device_time_ns;
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
      found_.stopped_early += stopped_early ? 1 : 0;
      found_.device_time_ns += device_time_ns;
      if (log2_speedup) found_.speedup = std::max(found_.speedup, std::exp2(*log2_speedup));
    }
    Settle(id, measurement);
    if (search().spec.measure_everything) return true;
    std::vector<Label> labels;
    std::vector<std::string> request_ids;
    for (orchestrator::LabelOffer& offer : PlanLabels(state_, {})) {
      for (Label& label : offer.labels) {
        request_ids.push_back(label.label_id);
        labels.push_back(std::move(label));
      }
    }
    forecaster_->Learn(row, labels);
    if (!request_ids.empty()) Apply(orchestrator::LabelsObserved{std::move(request_ids)});
    return true;
  }

  const RecordedSpace& space_;
  const int64_t budget_ns_;
  SearchForecaster* const forecaster_;
  ReplayingAuthor author_;
  orchestrator::State state_;
  orchestrator::SearchInputs inputs_;
  std::deque<std::string> live_;  // requests, in order
  int64_t now_ns_ = 0;
  Found found_;
};

// For records whose intervals contain only the noise within the runner, like those of the spaces.
RecordedTiming TimingOf(const v1::MeasuredOk& ok) {
  RecordedTiming timing;
  for (const v1::ShapeTiming& shape : ok.shapes()) {
    timing.groups += shape.blocks() / static_cast<uint32_t>(kBlocksPerGroup);
  }
  const v1::Ratio& speedup = ok.speedup();
  if (timing.groups == 0 || !(speedup.low() > 0) || !(speedup.confidence() > 0)) return timing;
  const double half_width = std::log(speedup.high() / speedup.low()) / 2;
  const double deviation = half_width / worker::TwoSidedQuantile(speedup.confidence(), HUGE_VAL);
  timing.noise_variance = deviation * deviation * timing.groups;
  return timing;
}

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
    if (!ProtoFromJson(line, &record).ok()) {
      return absl::DataLossError(absl::StrCat(path, ": a record cannot be read"));
    }
    if (!record.evaluation().has_measured()) continue;
    const v1::Measurement& measured = record.evaluation().measured();
    KC_ASSIGN_OR_RETURN(Candidate candidate, kernelcast::FromProto(record.candidate()));
    const size_t row = space.candidates.size();
    if (row == problem.rows.size()) break;
    candidate.problem_id = problem.context->problem.problem_id;
    candidate.candidate_id = problem.candidate_ids[row];
    space.row_of[Written(candidate).candidate_id] = row;
    space.candidates.push_back(std::move(candidate));
    space.facts.push_back(kernelcast::FromProto(record.facts()));
    space.device_times_ns.push_back(ToNanoseconds(measured.device_time()));
    space.timings.push_back(TimingOf(measured.ok()));
  }
  if (space.facts.size() != problem.rows.size()) {
    return absl::DataLossError(absl::StrCat(path, ": has changed"));
  }
  if (problem.target == kCudaTargetName) TakePreparationOut(space.device_times_ns);
  for (const int64_t time : space.device_times_ns) space.device_time_ns += time;
  return space;
}

Found SimulateSearch(const RecordedSpace& space, SearchForecaster* forecaster,
                     orchestrator::SearchSpec spec) {
  return Simulation(space, forecaster, std::move(spec)).Run();
}

}  // namespace kernelcast::forecaster
