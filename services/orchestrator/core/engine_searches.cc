// Starts, drives and ends searches.

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/orchestrator/core/candidate_source.h"
#include "services/orchestrator/core/decision_order.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/engine_ids.h"
#include "services/orchestrator/core/engine_inbox.h"
#include "services/orchestrator/core/plan.h"

namespace kernelcast::orchestrator {

void Engine::StartSearch(std::string search_id, SearchSpec spec, SearchDone done,
                         TraceContext trace) {
  if (options_.read_only) {
    done(ReadOnlyError());
    return;
  }
  absl::Status valid = search_id.empty() ? absl::OkStatus() : CheckId("search_id", search_id);
  if (valid.ok()) valid = MakePolicy(spec.policy, spec.policy_parameters).status();
  const auto strategy = MakeStrategy(spec.strategy, spec.strategy_parameters);
  if (valid.ok()) valid = strategy.status();
  if (!valid.ok()) {
    done(valid);
    return;
  }
  if (spec.policy.empty()) spec.policy = std::string(kDefaultPolicy);
  if (spec.strategy.empty()) spec.strategy = std::string(kDefaultStrategy);
  if ((*strategy)->measures_everything()) spec.measure_everything = true;
  auto shared_done = std::make_shared<SearchDone>(std::move(done));
  if (!inbox_->Post([this, id = std::move(search_id), spec = std::move(spec), shared_done,
                     trace = std::move(trace)]() mutable {
        HandleStartSearch(std::move(id), std::move(spec), std::move(*shared_done), trace);
      })) {
    (*shared_done)(absl::UnavailableError("the orchestrator is stopping"));
  }
}

void Engine::HandleStartSearch(std::string search_id, SearchSpec spec, SearchDone done,
                               const TraceContext& trace) {
  if (search_id.empty()) search_id = RandomId("s_");
  absl::StatusOr<SearchSnapshot> result = absl::InternalError("");
  if (spec.device_models.size() <= 1) {
    result = CreateSearch(search_id, std::move(spec), trace);
  } else {
    for (const std::string& model : spec.device_models) {
      SearchSpec one = spec;
      one.device_models = {model};
      result = CreateSearch(IdForDevice(search_id, model), std::move(one), trace);
      if (!result.ok()) break;
    }
    if (result.ok()) result = SnapshotAll(search_id);
  }
  AfterCommit([done = std::move(done), result = std::move(result)] { done(result); });
}

absl::StatusOr<SearchSnapshot> Engine::CreateSearch(const std::string& search_id, SearchSpec spec,
                                                    const TraceContext& trace) {
  if (const Search* existing = state_.FindSearch(search_id)) {
    if (existing->spec == spec) return SnapshotOf(*existing);
    return absl::AlreadyExistsError(absl::StrCat(
        "search_id: '", search_id, "' is in use by a search with another specification"));
  }
  if (draining_) return absl::UnavailableError("the orchestrator is draining");
  auto problem = state_.FindProblem(spec.problem_id);
  if (problem == nullptr) {
    return absl::NotFoundError(absl::StrCat("spec.problem_id: '", spec.problem_id,
                                            "' is not known; put the problem first"));
  }
  if (!problem->targets.contains(spec.target)) {
    return absl::InvalidArgumentError(absl::StrCat("spec.target: problem ", problem->name,
                                                   " has no reference for '", spec.target, "'"));
  }
  if (!spec.lessons.empty() && spec.generator != GeneratorKind::kLlm) {
    return absl::InvalidArgumentError("spec.lessons: are set, but only generator llm takes them");
  }
  KC_RETURN_IF_ERROR(
      SourceFor(spec.generator).Check(spec, *problem, /*has_writer=*/writer_ != nullptr));
  std::string device_model =
      DeviceModelFor(spec.target, spec.device_models.empty() ? "" : spec.device_models.front());
  Emit(SearchCreated{search_id, std::move(spec), std::move(device_model)});
  const Search& search = *state_.FindSearch(search_id);
  traces_.BeginSearch(search, trace);
  const TraceScope scope(&trace);
  Log(LogLevel::kInfo, "search started",
      {{"search_id", search_id},
       {"problem", problem->name},
       {"device", search.device_model},
       {"strategy", search.spec.strategy}});
  return SnapshotOf(search);
}

void Engine::StopSearch(std::string search_id, SearchDone done, bool abandon) {
  if (options_.read_only) {
    done(ReadOnlyError());
    return;
  }
  Post([this, id = std::move(search_id), done = std::move(done), abandon] {
    for (const Search* search : SearchesOf(id)) {
      if (search->ended_ns != 0) continue;
      if (!search->stopped) {
        Emit(SearchFinishing{search->search_id, std::string(kStoppedReason)});
      }
      if (!abandon) continue;
      AbandonSearch action;
      action.reason = DecisionReason::kCancelled;
      action.rejection.cause = Rejection::Cause::kCancelled;
      action.rejection.detail = "the search was abandoned";
      Abandon(*search, action);
    }
    AfterCommit([done, result = SnapshotAll(id)] { done(result); });
  });
}

void Engine::GetSearch(std::string search_id, SearchDone done, bool with_archive) {
  Post([this, id = std::move(search_id), done = std::move(done), with_archive] {
    AfterCommit([done, result = SnapshotAll(id, with_archive)] { done(result); });
  });
}

void Engine::ListSearches(SearchesDone done) {
  Post([this, done = std::move(done)] {
    std::vector<SearchSnapshot> result;
    for (const auto& [id, search] : state_.searches()) result.push_back(SnapshotOf(search));
    AfterCommit([done, result = std::move(result)] { done(result); });
  });
}

void Engine::DriveSearches() {
  std::set<std::string> dirty;
  dirty.swap(dirty_searches_);
  for (const std::string& search_id : dirty) {
    const Search* search = state_.FindSearch(search_id);
    // Proposing and ranking take milliseconds for large spaces.
    if (!inbox_->may_block && search != nullptr &&
        (search->generator != nullptr || search->generation != nullptr)) {
      dirty_searches_.insert(search_id);
      inbox_->searches_wait = true;
      continue;
    }
    DriveSearch(search_id);
  }
}

void Engine::DriveSearch(const std::string& search_id) {
  const Search* search = state_.FindSearch(search_id);
  if (search == nullptr || search->ended_ns != 0) return;
  const SearchInputs inputs = InputsOf(*search);
  const bool proposes = SourceFor(search->spec.generator).ProposesByItself();
  DecideInOrder(search_id, *search,
                std::max<uint64_t>(proposes ? 1 : 0, inputs.capacity.measure_slots));
  if (draining_) return;
  NoteWait(*search, inputs);
  if (search->status != SearchStatus::kRunning) StopWriting(search_id);
  StartCalls(*search, inputs);
  while (std::optional<SearchAction> action = PlanSearch(state_, *search, inputs)) {
    if (!Perform(*search, inputs, *std::move(action))) return;
  }
}

template <class Owner>
void Engine::DecideInOrder(const std::string& queue, const Owner& owner, uint64_t measure_slots) {
  OrderInputs inputs;
  inputs.now_ns = NowNs();
  inputs.measure_slots = measure_slots;
  const auto undecided = [this](const std::string& request_id) {
    const Evaluation* const evaluation = state_.FindEvaluation(request_id);
    return evaluation != nullptr && !evaluation->decision;
  };
  std::string& forecast_again = forecast_again_[queue];
  inputs.forecasts_next = acting_.contains(forecast_again) && undecided(forecast_again);
  while (const std::optional<std::string> next = NextToDecide(state_, owner, inputs)) {
    Advance(*next, /*is_next=*/true);
    // If it is not decided, it is being forecast again.
    inputs.forecasts_next = undecided(*next);
    forecast_again = *next;
  }
  if (!inputs.forecasts_next) forecast_again_.erase(queue);
}

void Engine::DriveProblems() {
  std::set<State::DeviceKey> dirty;
  dirty.swap(dirty_problems_);
  for (const State::DeviceKey& key : dirty) {
    const auto& [problem_id, target, device_model] = key;
    const ProblemHistory* const history = state_.FindHistory(problem_id, target, device_model);
    if (history == nullptr || history->undecided().empty()) continue;
    DecideInOrder(absl::StrJoin(key, "\n"), *history,
                  workers_->CapacityFor(target, device_model).measure_slots);
  }
}

void Engine::NoteProblems() {
  for (const auto& [key, history] : state_.histories()) {
    if (!history.undecided().empty()) dirty_problems_.insert(key);
  }
}

SearchInputs Engine::InputsOf(const Search& search) {
  const SearchSpec& spec = search.spec;
  SearchInputs inputs;
  inputs.now_ns = NowNs();
  inputs.capacity = workers_->CapacityFor(spec.target, search.device_model);
  inputs.ranking = rankings_.contains(search.search_id);
  inputs.has_writer = writer_ != nullptr;
  inputs.generation_backoff = options_.generation_backoff;
  inputs.max_generation_backoff = options_.max_generation_backoff;
  inputs.generation_patience = options_.generation_patience;
  inputs.confirmation.candidates = options_.confirm_candidates;
  if (search.device_model.empty()) {
    inputs.device =
        DeviceInputsFor(spec.target, spec.device_models.empty() ? "" : spec.device_models.front());
  } else if (inputs.capacity.measure_slots == 0) {
    inputs.device.devices = workers_->Devices();
  }
  return inputs;
}

void Engine::StartCalls(const Search& search, const SearchInputs& inputs) {
  const SearchCalls calls = PlanCalls(state_, search, inputs);
  if (calls.reference) {
    StartReference(search.spec.problem_id, search.spec.target, search.device_model);
  }
  for (const uint64_t number : calls.kernels) {
    if (!writing_.contains({search.search_id, number})) StartGeneration(search, number);
  }
  for (const uint64_t number : calls.advice) {
    if (!writing_.contains({search.search_id, number})) StartAdvice(search, number);
  }
}

bool Engine::Perform(const Search& search, const SearchInputs& inputs, SearchAction action) {
  struct Performer {
    Engine& engine;
    const Search& search;
    const SearchInputs& inputs;

    bool operator()(ChooseDevice& choose) const {
      if (engine.Emit(DeviceChosen{search.search_id, "", std::move(choose.device_model)})) {
        engine.LookForDevices();
      }
      // The next round knows its capacity.
      return false;
    }
    bool operator()(AbandonSearch& abandon) const {
      engine.Abandon(search, abandon);
      return false;
    }
    bool operator()(ProposeCandidate& propose) const {
      // A caller may use the id.
      if (!engine.Accept(propose.request_id, search.search_id, propose.mode,
                         std::move(propose.candidate), true)) {
        return false;
      }
      engine.Advance(propose.request_id);
      return true;
    }
    bool operator()(RequestKernel& request) const {
      if (!engine.Emit(GenerationRequested{search.search_id, request.number,
                                           std::move(request.parent_candidate_id)})) {
        return false;
      }
      engine.StartCalls(search, inputs);
      return true;
    }
    bool operator()(RankPruned& ranking) const {
      engine.StartRanking(search, std::move(ranking));
      return false;
    }
    bool operator()(FinishSearch& finish) const {
      engine.rankings_.erase(search.search_id);
      engine.Emit(SearchFinishing{search.search_id, std::move(finish.reason)});
      // The next round ends it.
      return false;
    }
    bool operator()(MeasureFinals& finals) const {
      engine.StartFinals(search, finals.candidate_ids);
      return false;
    }
    bool operator()(MeasureHeldOut& held_out) const {
      engine.StartHeldOut(search, std::move(held_out));
      return false;
    }
    bool operator()(CloseSearch& close) const {
      engine.Close(search, std::move(close.confirmed_request_id));
      return false;
    }
  };
  return std::visit(Performer{*this, search, inputs}, action);
}

}  // namespace kernelcast::orchestrator
