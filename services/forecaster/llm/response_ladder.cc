#include "services/forecaster/llm/response_ladder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"

namespace kernelcast::forecaster {

std::string_view Name(Rung rung) {
  switch (rung) {
    case Rung::kJsonSchema: return "json_schema";
    case Rung::kToolsNamed: return "tools_named";
    case Rung::kToolsAuto: return "tools_auto";
    case Rung::kText: return "text";
  }
  return "text";
}

absl::StatusOr<Rung> ParseRung(std::string_view name) {
  std::vector<std::string> known;
  for (const Rung rung : kRungs) {
    if (Name(rung) == name) return rung;
    known.emplace_back(Name(rung));
  }
  return absl::NotFoundError(
      absl::StrCat("rung ", Quoted(name), " is not one of ", CommaList(known)));
}

Rung ResponseLadder::Next(const Key& key, Walk& walk, int64_t now_ns) {
  Standing& standing = standings_[key];
  int position = std::max(standing.position, walk.lowest);
  walk.trial = walk.lowest < standing.position && now_ns >= standing.expires_ns;
  if (walk.trial) {
    position = standing.position - 1;
    standing.expires_ns = now_ns + options_.trial_patience_ns;
  }
  return options_.rungs[position];
}

bool ResponseLadder::Report(const Key& key, Walk& walk, Rung rung, RungOutcome outcome,
                            int64_t now_ns) {
  Standing& standing = standings_[key];
  const auto position =
      static_cast<int>(std::ranges::find(options_.rungs, rung) - options_.rungs.begin());
  const bool trial = walk.trial && position < standing.position;
  walk.trial = false;
  if (outcome == RungOutcome::kNoVerdict || position > last()) return false;
  if (outcome == RungOutcome::kAnswered) {
    if (position < standing.position || (walk.was_refused && position > standing.position)) {
      MoveTo(standing, position, now_ns);
    }
    if (position == standing.position) standing.unparsable_in_a_row = 0;
    return false;
  }
  walk.lowest = std::max(walk.lowest, std::min(position + 1, last()));
  if (outcome == RungOutcome::kRefused) walk.was_refused = true;
  if (trial) {
    standing.expiry_ns = std::min(standing.expiry_ns * 2, options_.longest_expiry_ns);
    standing.expires_ns = now_ns + standing.expiry_ns;
  } else if (outcome == RungOutcome::kUnparsable && position == standing.position &&
             ++standing.unparsable_in_a_row >= options_.unparsable_limit && position < last()) {
    MoveTo(standing, position + 1, now_ns);
  }
  return position < last();
}

Rung ResponseLadder::Current(const Key& key) const {
  const auto standing = standings_.find(key);
  return options_.rungs[standing == standings_.end() ? 0 : standing->second.position];
}

void ResponseLadder::MoveTo(Standing& standing, int position, int64_t now_ns) {
  standing.position = position;
  standing.unparsable_in_a_row = 0;
  standing.expiry_ns = options_.first_expiry_ns;
  standing.expires_ns = now_ns + standing.expiry_ns;
}

}  // namespace kernelcast::forecaster
