#include "services/forecaster/llm/feedback_log.h"

#include <algorithm>
#include <bit>

namespace kernelcast::forecaster {
namespace {

bool Has(const std::vector<FeedbackEntry>& entries, const std::string& candidate_id) {
  return std::ranges::find(entries, candidate_id, &FeedbackEntry::candidate_id) != entries.end();
}

}  // namespace

void FeedbackLog::Add(const Label& label) {
  FeedbackEntry entry;
  entry.candidate_id = label.candidate.candidate_id;
  entry.origin = label.candidate.origin;
  entry.tunables = label.candidate.tunables;
  entry.flags = label.candidate.flags;
  if (const auto* speedup = std::get_if<Ratio>(&label.truth)) {
    entry.speedup = *speedup;
  } else {
    entry.failure = Name(std::get<FailureKind>(label.truth));
  }

  Group& group = groups_[{label.candidate.problem_id, label.candidate.target, label.device_model}];
  ++group.labels;
  const auto same = [&](const FeedbackEntry& other) {
    return other.candidate_id == entry.candidate_id;
  };
  std::erase_if(group.latest, same);
  group.latest.push_back(entry);
  if (group.latest.size() > kLatest) group.latest.erase(group.latest.begin());
  if (entry.speedup.has_value()) {
    std::erase_if(group.fastest, same);
    const auto slower = std::ranges::find_if(group.fastest, [&](const FeedbackEntry& other) {
      return other.speedup->value < entry.speedup->value;
    });
    group.fastest.insert(slower, entry);
    if (group.fastest.size() > kFastest) group.fastest.pop_back();
  }
  if (group.known.size() < kMaxKnown || group.known.contains(entry.candidate_id)) {
    group.known.insert_or_assign(entry.candidate_id, entry);
  }
  if (!std::has_single_bit(group.labels)) return;
  group.shown = group.fastest;
  for (const FeedbackEntry& recent : group.latest) {
    if (!Has(group.shown, recent.candidate_id)) group.shown.push_back(recent);
  }
}

std::vector<FeedbackEntry> FeedbackLog::For(const Candidate& candidate,
                                            const std::string& device_model) const {
  const auto group = groups_.find({candidate.problem_id, candidate.target, device_model});
  if (group == groups_.end()) return {};
  std::vector<FeedbackEntry> entries;
  if (const auto parent = group->second.known.find(candidate.parent_candidate_id);
      parent != group->second.known.end()) {
    entries.push_back(parent->second);
    entries.back().origin = entries.back().origin.empty()
                                ? "what the candidate was made from"
                                : entries.back().origin + ", what the candidate was made from";
  }
  for (const FeedbackEntry& entry : group->second.shown) {
    // The candidate's own label would reveal the answer.
    if (entry.candidate_id == candidate.candidate_id || Has(entries, entry.candidate_id)) continue;
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace kernelcast::forecaster
