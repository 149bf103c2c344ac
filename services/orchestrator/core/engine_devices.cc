// Chooses the device models of searches and evaluations, and handles those without workers.

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/engine_ids.h"

namespace kernelcast::orchestrator {

std::string Engine::DeviceModelFor(const std::string& target, const std::string& wanted) {
  const auto [entry, inserted] = device_models_.try_emplace({target, wanted});
  if (inserted) entry->second = workers_->DeviceModelFor(target, wanted);
  if (!entry->second.empty()) return entry->second;
  device_models_.erase(entry);
  return "";
}

DeviceInputs Engine::DeviceInputsFor(const std::string& target, const std::string& wanted) {
  DeviceInputs inputs;
  inputs.found = DeviceModelFor(target, wanted);
  if (inputs.found.empty()) {
    inputs.devices = workers_->Devices();
    inputs.can_compile = workers_->CapacityFor(target, wanted).compile_credits > 0;
  }
  inputs.start_ns = start_ns_;
  inputs.grace = options_.device_grace;
  return inputs;
}

void Engine::LookForDevices() {
  // A copy, because continuing an evaluation changes the set.
  const std::set<std::string, std::less<>> waiting = state_.without_device();
  for (const std::string& request_id : waiting) Advance(request_id);
}

void Engine::NoteWait(const Search& search, const SearchInputs& inputs) {
  const std::string& search_id = search.search_id;
  std::string reason = MissingWorker(search, inputs);
  if (reason.empty()) {
    if (waits_.erase(search_id) > 0) {
      Log(LogLevel::kInfo, "search continues",
          {{"search_id", search_id}, {"device", search.device_model}});
    }
    return;
  }
  const auto [entry, is_new] = waits_.try_emplace(search_id);
  if (is_new) {
    entry->second.since_ns = NowNs();
    Log(LogLevel::kWarning, "search waits for a worker",
        {{"search_id", search_id}, {"reason", reason}});
  }
  entry->second.reason = std::move(reason);
}

void Engine::Abandon(const Search& search, const AbandonSearch& action) {
  const std::string search_id = search.search_id;
  const std::string& reason = action.rejection.detail;
  StopWriting(search_id);
  std::vector<std::string> in_flight;
  for (const std::string& request_id : state_.EvaluationIds()) {
    if (state_.FindEvaluation(request_id)->search_id == search_id) in_flight.push_back(request_id);
  }
  CancelEvaluations(std::move(in_flight), action.reason, action.rejection);
  Log(action.failed ? LogLevel::kWarning : LogLevel::kInfo,
      action.failed ? "search failed: no worker measures for it"
                    : "search ended without confirmation",
      {{"search_id", search_id}, {"reason", reason}});
  Emit(SearchClosed{search_id, "", action.failed, action.failed ? reason : ""});
  waits_.erase(search_id);
  rankings_.erase(search_id);
}

void Engine::CancelEvaluations(std::vector<std::string> request_ids, DecisionReason reason,
                               const Rejection& rejection) {
  if (request_ids.empty()) return;
  for (const std::string& request_id : request_ids) Reject(request_id, reason, rejection);
  AfterCommit([this, cancelled = std::move(request_ids)] { workers_->Cancel(cancelled); });
}

void Engine::CancelEvaluation(std::string request_id) {
  Post([this, id = std::move(request_id)] {
    std::vector<std::string> live;
    for (const std::string& one : state_.EvaluationIds()) {
      if (one == id || IdOfSeveral(one) == id) live.push_back(one);
    }
    Rejection rejection;
    rejection.cause = Rejection::Cause::kCancelled;
    rejection.detail = "the call ended before the evaluation";
    CancelEvaluations(std::move(live), DecisionReason::kCancelled, rejection);
  });
}

void Engine::StopWriting(const std::string& search_id) {
  const auto writing = writing_stops_.find(search_id);
  if (writing == writing_stops_.end()) return;
  AfterCommit([stop = std::move(writing->second)]() mutable { stop.request_stop(); });
  writing_stops_.erase(writing);
}

}  // namespace kernelcast::orchestrator
