#include "services/forecaster/replay/replay_backend.h"

#include "absl/strings/str_cat.h"

namespace kernelcast::forecaster {
ReplayBackend::ReplayBackend(std::vector<RecordedForecast> records) {
  for (RecordedForecast& record : records) {
    if (record.bin_scheme_id.empty()) record.bin_scheme_id = BinScheme::Default().id();
    records_[{std::move(record.candidate_id), std::move(record.problem_id),
              std::move(record.target), std::move(record.baseline_candidate_id),
              std::move(record.bin_scheme_id), std::move(record.device_model)}]
        .insert_or_assign(record.time, std::move(record.result));
  }
}

void ReplayBackend::Forecast(ForecastInput input, const ForecastCall&, Done done) {
  Key key = {input.candidate.candidate_id, input.candidate.problem_id, input.candidate.target,
             input.baseline_candidate_id,  input.bin_scheme->id(),     input.device_model};
  auto found = records_.find(key);
  if (found == records_.end()) {
    std::get<5>(key).clear();
    found = records_.find(key);
  }
  if (found == records_.end()) {
    return done(Abstention{Abstention::Cause::kNotCovered, std::string(kName),
                           "no forecast of this candidate is recorded"});
  }
  uint64_t time = 0;
  {
    std::lock_guard lock(mutex_);
    time = ++asked_[key];
  }
  // The first record may be later than this request; then the first record is the nearest.
  const auto after = found->second.upper_bound(time);
  ForecastResult result = (after == found->second.begin() ? after : std::prev(after))->second;
  if (auto* forecast = std::get_if<kernelcast::Forecast>(&result)) forecast->token_usage = {};
  done(std::move(result));
}

void ReplayBackend::Observe(std::vector<ObservedLabel> labels) {
  std::lock_guard lock(mutex_);
  for (const ObservedLabel& observed : labels) {
    const Candidate& candidate = observed.label.candidate;
    const std::string& device_model = observed.label.device_model;
    TargetLabels& group = labels_[{candidate.problem_id, candidate.target, device_model}];
    group.device_model = device_model;
    group.problem_id = candidate.problem_id;
    group.target = candidate.target;
    ++group.labels;
    if (!std::holds_alternative<Ratio>(observed.label.truth)) ++group.failures;
  }
}

BackendDescription ReplayBackend::Describe() const {
  BackendDescription description;
  description.name = kName;
  description.version = absl::StrCat("replay/1;records=", size());
  std::lock_guard lock(mutex_);
  for (const auto& [key, group] : labels_) description.labels.push_back(group);
  return description;
}

size_t ReplayBackend::size() const {
  size_t count = 0;
  for (const auto& [key, by_time] : records_) count += by_time.size();
  return count;
}

}  // namespace kernelcast::forecaster
