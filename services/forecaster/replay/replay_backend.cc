#include "services/forecaster/replay/replay_backend.h"

#include "absl/strings/str_cat.h"

namespace kernelcast::forecaster {
namespace {

bool Matches(const ReplayOptions& options, const ForecastResult& result) {
  const auto* forecast = std::get_if<kernelcast::Forecast>(&result);
  // An abstention names the backend without its model, and no version.
  const std::string& backend =
      forecast != nullptr ? forecast->backend : std::get<Abstention>(result).backend;
  if (!options.backend.empty() && backend != options.backend &&
      backend.substr(0, backend.find(':')) != options.backend) {
    return false;
  }
  return options.backend_version.empty() || forecast == nullptr ||
         forecast->backend_version == options.backend_version;
}

}  // namespace

ReplayBackend::ReplayBackend(std::vector<RecordedForecast> records, ReplayOptions options)
    : options_(std::move(options)) {
  for (RecordedForecast& record : records) {
    if (!Matches(options_, record.result)) continue;
    if (record.bin_scheme_id.empty()) record.bin_scheme_id = BinScheme::Default().id();
    records_[{std::move(record.candidate_id), std::move(record.problem_id),
              std::move(record.target), std::move(record.baseline_candidate_id),
              std::move(record.bin_scheme_id)}]
        .insert_or_assign(record.labels, std::move(record.result));
  }
}

void ReplayBackend::Forecast(ForecastInput input, const ForecastCall&, Done done) {
  const std::string& problem_id = input.candidate.problem_id;
  const std::string& target = input.candidate.target;
  const auto abstain = [&](const std::string& reason) {
    done(Abstention{Abstention::Cause::kNotCovered, std::string(kName), reason});
  };
  const auto found = records_.find({input.candidate.candidate_id, problem_id, target,
                                    input.baseline_candidate_id, input.bin_scheme->id()});
  if (found == records_.end()) return abstain("no forecast of this candidate is recorded");
  uint64_t labels = 0;
  {
    std::lock_guard lock(mutex_);
    const auto group = labels_.find({problem_id, target});
    if (group != labels_.end()) labels = group->second.labels;
  }
  const auto after = found->second.upper_bound(labels);
  if (after == found->second.begin()) {
    return abstain(absl::StrCat("every forecast of this candidate was made with more than the ",
                                labels, " labels that there are"));
  }
  done(std::prev(after)->second);
}

void ReplayBackend::Observe(std::vector<ObservedLabel> labels) {
  std::lock_guard lock(mutex_);
  for (const ObservedLabel& observed : labels) {
    const Candidate& candidate = observed.label.candidate;
    TargetLabels& group = labels_[{candidate.problem_id, candidate.target}];
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
  for (const auto& [key, by_labels] : records_) count += by_labels.size();
  return count;
}

}  // namespace kernelcast::forecaster
