// Chooses the device models of searches and evaluations, and handles those without workers.

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "services/orchestrator/core/engine.h"

namespace kernelcast::orchestrator {

std::string Engine::DeviceModelFor(const std::string& target, const std::string& wanted) {
  const auto [entry, inserted] = device_models_.try_emplace({target, wanted});
  if (inserted) entry->second = workers_->DeviceModelFor(target, wanted);
  if (!entry->second.empty()) return entry->second;
  device_models_.erase(entry);
  return "";
}

bool Engine::HasDevice(const Evaluation& evaluation) {
  if (!evaluation.device_model.empty()) return true;
  const std::string& request_id = evaluation.request_id;
  const Search* const search = state_.FindSearch(evaluation.search_id);
  std::string model = search != nullptr ? search->device_model
                                        : DeviceModelFor(evaluation.candidate.target,
                                                         evaluation.wanted_device_model);
  if (model.empty()) return false;
  return Emit(DeviceChosen{"", request_id, std::move(model)});
}

int64_t Engine::WaitedNs(int64_t since_ns) const { return NowNs() - std::max(since_ns, start_ns_); }

void Engine::LookForDevices() {
  const int64_t grace_ns = absl::ToInt64Nanoseconds(options_.device_grace);
  // A copy, because continuing an evaluation changes the set.
  const std::set<std::string, std::less<>> waiting = state_.without_device();
  for (const std::string& request_id : waiting) {
    const Evaluation* const evaluation = state_.FindEvaluation(request_id);
    if (evaluation == nullptr || !evaluation->device_model.empty()) continue;
    if (HasDevice(*evaluation)) {
      Advance(request_id);
    } else if (evaluation->search_id.empty() && WaitedNs(evaluation->accepted_ns) >= grace_ns) {
      // Evaluations of a search fail with it.
      Rejection rejection;
      rejection.cause = Rejection::Cause::kUnavailable;
      rejection.detail =
          NobodyMeasures(evaluation->candidate.target, evaluation->wanted_device_model);
      Reject(request_id, DecisionReason::kUnavailable, std::move(rejection));
    }
  }
}

bool Engine::CheckDevice(const std::string& search_id) {
  const Search& search = *state_.FindSearch(search_id);
  const SearchSpec& spec = search.spec;
  const std::string wanted = spec.device_models.empty() ? "" : spec.device_models.front();
  if (search.device_model.empty()) {
    std::string model = DeviceModelFor(spec.target, wanted);
    if (!model.empty() && Emit(DeviceChosen{search_id, "", std::move(model)})) LookForDevices();
  }
  const bool known = !search.device_model.empty();
  if (known && workers_->CapacityFor(spec.target, search.device_model).measure_slots > 0) {
    if (waits_.erase(search_id) > 0) {
      Log(LogLevel::kInfo, "search continues",
          {{"search_id", search_id}, {"device", search.device_model}});
    }
    return true;
  }
  const auto [entry, is_new] = waits_.try_emplace(search_id);
  Wait& wait = entry->second;
  wait.reason = NobodyMeasures(spec.target, known ? search.device_model : wanted);
  if (is_new) {
    wait.since_ns = NowNs();
    Log(LogLevel::kWarning, "search waits for a worker",
        {{"search_id", search_id}, {"reason", wait.reason}});
  }
  const bool hopeless =
      !known && WaitedNs(search.started_ns) >= absl::ToInt64Nanoseconds(options_.device_grace);
  if (!hopeless && !search.stopped) return known;
  const std::string reason = wait.reason;
  StopWriting(search_id);
  Rejection rejection;
  rejection.cause = search.stopped ? Rejection::Cause::kCancelled : Rejection::Cause::kUnavailable;
  rejection.detail = search.stopped ? absl::StrCat("the search was stopped, and ", reason) : reason;
  CancelEvaluations(search_id,
                    search.stopped ? DecisionReason::kCancelled : DecisionReason::kUnavailable,
                    rejection);
  const bool failed = !search.stopped;
  Log(failed ? LogLevel::kWarning : LogLevel::kInfo,
      failed ? "search failed: no worker measures for it" : "search ended without confirmation",
      {{"search_id", search_id}, {"reason", reason}});
  Emit(SearchClosed{search_id, "", failed, failed ? reason : ""});
  waits_.erase(search_id);
  rankings_.erase(search_id);
  return false;
}

void Engine::CancelEvaluations(const std::string& search_id, DecisionReason reason,
                               const Rejection& rejection) {
  std::vector<std::string> cancelled;
  for (const std::string& request_id : state_.EvaluationIds()) {
    if (state_.FindEvaluation(request_id)->search_id != search_id) continue;
    cancelled.push_back(request_id);
    Reject(request_id, reason, rejection);
  }
  if (cancelled.empty()) return;
  AfterCommit([this, cancelled = std::move(cancelled)] { workers_->Cancel(cancelled); });
}

void Engine::StopWriting(const std::string& search_id) {
  const auto writing = writing_stops_.find(search_id);
  if (writing == writing_stops_.end()) return;
  AfterCommit([stop = std::move(writing->second)]() mutable { stop.request_stop(); });
  writing_stops_.erase(writing);
}

std::string Engine::NobodyMeasures(const std::string& target,
                                   const std::string& device_model) const {
  std::vector<std::string> there;
  for (const Workers::Device& device : workers_->Devices()) {
    there.push_back(absl::StrCat(device.target, " on ", device.model,
                                 device.measure_slots == 0 ? " (away)" : ""));
  }
  return absl::StrCat("no worker measures ", target,
                      device_model.empty() ? "" : absl::StrCat(" on ", device_model),
                      there.empty() ? "; no worker measures anything"
                                    : absl::StrCat("; there are: ", absl::StrJoin(there, ", ")));
}

}  // namespace kernelcast::orchestrator
