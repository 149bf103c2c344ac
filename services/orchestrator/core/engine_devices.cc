// Chooses the device models of searches and evaluations, and handles those without workers.

#include <memory>
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
  if (model.empty()) {
    without_device_.emplace(request_id, clock_->MonotonicNs());
    return false;
  }
  without_device_.erase(request_id);
  return Emit(DeviceChosen{"", request_id, std::move(model)});
}

void Engine::LookForDevices() {
  const int64_t grace_ns = absl::ToInt64Nanoseconds(options_.device_grace);
  // A copy, because continuing an evaluation changes the map.
  const std::map<std::string, int64_t> waiting = without_device_;
  for (const auto& [request_id, since_ns] : waiting) {
    const Evaluation* const evaluation = state_.FindEvaluation(request_id);
    if (evaluation == nullptr || !evaluation->device_model.empty()) {
      without_device_.erase(request_id);
    } else if (HasDevice(*evaluation)) {
      Advance(request_id);
    } else if (evaluation->search_id.empty() && clock_->MonotonicNs() - since_ns >= grace_ns) {
      // Evaluations of a search fail with it.
      without_device_.erase(request_id);
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
    wait.since_mono_ns = clock_->MonotonicNs();
    Log(LogLevel::kWarning, "search waits for a worker",
        {{"search_id", search_id}, {"reason", wait.reason}});
  }
  const bool hopeless = !known && clock_->MonotonicNs() - wait.since_mono_ns >=
                                      absl::ToInt64Nanoseconds(options_.device_grace);
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
  reranks_.erase(search_id);
  return false;
}

void Engine::CancelEvaluations(const std::string& search_id, DecisionReason reason,
                               const Rejection& rejection) {
  std::vector<std::string> cancelled;
  for (const std::string& request_id : state_.EvaluationIds()) {
    if (state_.FindEvaluation(request_id)->search_id != search_id) continue;
    cancelled.push_back(request_id);
    without_device_.erase(request_id);
    unstable_counts_.erase(request_id);
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

std::shared_ptr<const AnchorKernel> Engine::AnchorFor(const Candidate& candidate,
                                                      const Search* search,
                                                      const std::string& device_model) const {
  if (search == nullptr) {
    const ProblemHistory* const history =
        state_.FindHistory(candidate.problem_id, candidate.target, device_model);
    return history != nullptr ? history->best() : nullptr;
  }
  std::shared_ptr<const AnchorKernel> incumbent = search->anchor;
  if (incumbent != nullptr && incumbent->speedup.value <= 1) incumbent = nullptr;
  const double best = incumbent != nullptr ? incumbent->speedup.value : 1;
  const Attempt* const parent =
      search->generation != nullptr
          ? search->generation->archive.Find(candidate.parent_candidate_id)
          : nullptr;
  // Compare with the parent, from which the candidate differs least. If the incumbent is much
  // faster, use the incumbent, because the answer would say little about whether the candidate
  // beats it.
  if (parent == nullptr || parent->speedup <= 0 || 2 * parent->speedup < best) return incumbent;
  const Ratio speedup{parent->speedup, parent->speedup, parent->speedup, 0};
  return std::make_shared<const AnchorKernel>(
      AnchorKernel{parent->candidate, parent->facts, speedup, parent->times});
}

}  // namespace kernelcast::orchestrator
