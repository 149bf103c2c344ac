// Accepts problems and evaluations.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/engine_ids.h"
#include "services/orchestrator/core/engine_inbox.h"

namespace kernelcast::orchestrator {

void Engine::PutProblem(std::shared_ptr<const Problem> problem, ProblemDone done) {
  if (options_.read_only) {
    done(ReadOnlyError());
    return;
  }
  Post([this, problem = std::move(problem), done = std::move(done)] {
    const bool known = state_.FindProblem(problem->problem_id) != nullptr ||
                       Emit(ProblemPut{problem->files, problem});
    AfterCommit([done, problem, known] {
      known ? done(problem) : done(absl::InternalError("the problem could not be stored"));
    });
  });
}

void Engine::Evaluate(EvaluateCommand command, EvaluateDone done) {
  std::vector<EvaluateCall> calls;
  calls.push_back({std::move(command), std::move(done)});
  Evaluate(std::move(calls));
}

void Engine::Evaluate(std::vector<EvaluateCall> calls) {
  if (options_.read_only) {
    for (const EvaluateCall& call : calls) call.done(ReadOnlyError());
    return;
  }
  if (!failure().ok()) {
    for (const EvaluateCall& call : calls) {
      call.done(absl::UnavailableError("the event log cannot be written"));
    }
    return;
  }
  // Shared because tasks must be copyable.
  const auto valid = std::make_shared<std::vector<EvaluateCall>>();
  valid->reserve(calls.size());
  for (EvaluateCall& call : calls) {
    absl::Status status = CheckId("request_id", call.command.request_id);
    if (status.ok()) status = ValidateCandidate(call.command.candidate);
    if (!status.ok()) {
      call.done(status);
      continue;
    }
    // A set id has been compared with the content.
    if (call.command.candidate.candidate_id.empty()) {
      call.command.candidate.candidate_id = CandidateId(call.command.candidate);
    }
    valid->push_back(std::move(call));
  }
  if (valid->empty()) return;
  const auto handle = [this, valid] {
    for (EvaluateCall& call : *valid) {
      HandleEvaluate(std::move(call.command), std::move(call.done));
    }
  };
  if (!inbox_->Post(handle, valid->size())) {
    for (const EvaluateCall& call : *valid) {
      call.done(absl::UnavailableError("the orchestrator is stopping"));
    }
  }
}

absl::Status Engine::Admit(const EvaluateCommand& command) const {
  if (draining_) {
    return absl::UnavailableError("the orchestrator is draining");
  }
  const Candidate& candidate = command.candidate;
  if (!command.search_id.empty() && !command.device_models.empty()) {
    return absl::InvalidArgumentError(
        "device_models: is not allowed with a search_id, whose device model applies");
  }
  if (!command.search_id.empty() && command.mode == EvaluateMode::kCheck) {
    return absl::InvalidArgumentError(
        "mode: a check is no measurement, so it is not allowed with a search_id");
  }
  auto problem = state_.FindProblem(candidate.problem_id);
  if (problem == nullptr) {
    return absl::NotFoundError(absl::StrCat("candidate.problem_id: '", candidate.problem_id,
                                            "' is not known; put the problem first"));
  }
  if (!problem->targets.contains(candidate.target)) {
    return absl::InvalidArgumentError(absl::StrCat("candidate.target: problem ", problem->name,
                                                   " has no reference for '", candidate.target,
                                                   "'"));
  }
  if (!command.search_id.empty()) {
    const Search* search = state_.FindSearch(command.search_id);
    if (search == nullptr) {
      return absl::NotFoundError(absl::StrCat("search_id: '", command.search_id, "' is not known"));
    }
    if (search->status != SearchStatus::kRunning) {
      return absl::FailedPreconditionError(
          absl::StrCat("search_id: '", command.search_id, "' has ended"));
    }
    if (search->spec.problem_id != candidate.problem_id ||
        search->spec.target != candidate.target) {
      return absl::InvalidArgumentError(absl::StrCat("candidate: search ", command.search_id,
                                                     " is for problem ", search->spec.problem_id,
                                                     " on ", search->spec.target));
    }
  }
  if (state_.evaluations().size() >= options_.max_live_evaluations) {
    return absl::ResourceExhaustedError(absl::StrCat("there are ", state_.evaluations().size(),
                                                     " evaluations in flight, the limit is ",
                                                     options_.max_live_evaluations));
  }
  return absl::OkStatus();
}

void Engine::HandleEvaluate(EvaluateCommand command, EvaluateDone done) {
  auto answer = [&](absl::StatusOr<EvaluationRecord> result) {
    AfterCommit([done = std::move(done), result = std::move(result)] { done(result); });
  };
  if (IsAboutSeveral(command)) return EvaluateOnEach(std::move(command), std::move(done));
  const std::string wanted = command.device_models.empty() ? "" : command.device_models.front();
  auto same_request = [&](const auto& earlier) -> absl::Status {
    if (earlier.candidate.candidate_id == command.candidate.candidate_id &&
        earlier.search_id == command.search_id && earlier.mode == command.mode &&
        earlier.wanted_device_model == wanted) {
      return absl::OkStatus();
    }
    return absl::AlreadyExistsError(
        absl::StrCat("request_id: '", command.request_id, "' was used for candidate ",
                     earlier.candidate.candidate_id,
                     "; another candidate, search, mode or device model needs another id"));
  };

  if (const Evaluation* live = state_.FindEvaluation(command.request_id)) {
    if (absl::Status same = same_request(*live); !same.ok()) return answer(same);
    waiters_[command.request_id].push_back(std::move(done));
    return;
  }
  if (settling_.contains(command.request_id)) {
    unreadable_.emplace_back(std::move(command), std::move(done));
    return;
  }
  const bool reads = state_.MayHaveAccepted(command.request_id);
  if (reads && !inbox_->may_block) {
    // Shared because tasks must be copyable.
    const auto again =
        std::make_shared<EvaluateCall>(EvaluateCall{std::move(command), std::move(done)});
    if (!inbox_->PostToThread(
            [this, again] { HandleEvaluate(std::move(again->command), std::move(again->done)); })) {
      again->done(absl::UnavailableError("the orchestrator is stopping"));
    }
    return;
  }
  absl::StatusOr<std::vector<StoredEvent>> earlier = std::vector<StoredEvent>();
  if (reads) {
    earlier = store_->ReadEvaluation(command.request_id);
  }
  if (!earlier.ok()) {
    return answer(earlier.status());
  }
  if (std::optional<EvaluationRecord> record = FoldEvaluation(*earlier)) {
    if (absl::Status same = same_request(*record); !same.ok()) return answer(same);
    return answer(*std::move(record));
  }
  if (absl::Status admitted = Admit(command); !admitted.ok()) {
    return answer(admitted);
  }

  waiters_[command.request_id].push_back(std::move(done));
  if (Accept(command.request_id, command.search_id, command.mode, std::move(command.candidate),
             false, command.trace, wanted)) {
    Advance(command.request_id);
  }
}

bool Engine::Accept(const std::string& request_id, const std::string& search_id, EvaluateMode mode,
                    Candidate candidate, bool generated, const TraceContext& trace,
                    const std::string& wanted_device_model) {
  EvaluationAccepted accepted;
  accepted.request_id = request_id;
  accepted.search_id = search_id;
  accepted.mode = mode;
  accepted.candidate = std::move(candidate);
  accepted.generated = generated;
  const Search* const search = search_id.empty() ? nullptr : state_.FindSearch(search_id);
  accepted.device_model = search != nullptr
                              ? search->device_model
                              : DeviceModelFor(accepted.candidate.target, wanted_device_model);
  accepted.wanted_device_model = wanted_device_model;
  if (!Emit(std::move(accepted))) return false;
  traces_.Begin(*state_.FindEvaluation(request_id), trace);
  EndAfterCommit(traces_.Part(request_id, "kernelcast.accept"));
  return true;
}

}  // namespace kernelcast::orchestrator
