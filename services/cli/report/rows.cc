#include "services/cli/report/rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/convert/convert.h"
#include "services/cli/report/analysis.h"

namespace kernelcast::cli {
namespace {

bool IsRepeat(const ReportCandidate& candidate) {
  const Route route = RouteOf(candidate);
  return route == Route::kReused || route == Route::kDuplicate;
}

// Whether `later` counts instead of `standing`.
bool Replaces(const ReportCandidate& later, const ReportCandidate& standing) {
  if (IsRepeat(later)) return false;
  return IsRepeat(standing) || OutcomeOf(later) > OutcomeOf(standing);
}

// Sets the values of the search's finalists; without a search, those of the last confirmation.
void SetFinal(const ReportInput& input, ReportRow& row) {
  const std::string& id = input.candidates[row.standing].candidate.candidate_id;
  if (input.search.has_value()) {
    for (const v1::Finalist& finalist : input.search->finalists()) {
      if (finalist.candidate_id() != id || finalist.failed()) continue;
      row.final = FromProto(finalist.speedup());
      if (!row.screening.has_value() && finalist.screening().value() > 0) {
        row.screening = FromProto(finalist.screening());
      }
      return;
    }
    if (input.confirmed.has_value() && input.confirmed->candidate.candidate_id == id) {
      if (const Ratio* speedup = MeasuredSpeedup(input.confirmed->measurement)) {
        row.final = *speedup;
        return;
      }
    }
  }
  for (const size_t i : row.confirmations) {
    if (const Ratio* speedup = SpeedupOf(input.candidates[i]); speedup != nullptr) {
      row.final = *speedup;
    }
  }
}

struct Key {
  int group = 0;
  double value = 0;
  bool operator<(const Key& other) const {
    return group != other.group ? group < other.group : value < other.value;
  }
};

Key KeyOf(const ReportInput& input, const ReportRow& row) {
  if (row.final.has_value()) return {1, -row.final->value};
  const ReportCandidate& standing = input.candidates[row.standing];
  switch (FateOf(standing)) {
    case Fate::kOk: return {2, row.screening.has_value() ? -row.screening->value : 0};
    case Fate::kUnstable: return {3, 0};
    case Fate::kFailed: return {4, 0};
    case Fate::kPruned:
      return {5, standing.forecast.has_value() ? -standing.forecast->expected_log2_speedup : 99};
    case Fate::kRejected: return {6, 0};
  }
  return {7, 0};
}

}  // namespace

EvaluationOutcome OutcomeOf(const ReportCandidate& candidate) {
  if (candidate.measurement.has_value()) return kernelcast::OutcomeOf(*candidate.measurement);
  if (candidate.compile_error.has_value()) return EvaluationOutcome::kCompileError;
  return FateOf(candidate) == Fate::kPruned ? EvaluationOutcome::kPruned
                                            : EvaluationOutcome::kRefused;
}

std::vector<bool> Confirmations(const ReportInput& input) {
  std::vector<bool> confirmations;
  std::set<std::string> measured;
  for (const ReportCandidate& candidate : input.candidates) {
    const std::string& id = candidate.candidate.candidate_id;
    confirmations.push_back(candidate.measurement.has_value() && measured.count(id) > 0 &&
                            candidate.measurement->level == MeasureLevel::kFinal);
    if (candidate.measurement.has_value()) measured.insert(id);
  }
  return confirmations;
}

std::vector<ReportRow> ReportRows(const ReportInput& input,
                                  const std::vector<bool>& confirmations) {
  std::vector<ReportRow> rows;
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const auto [place, first] =
        places.emplace(input.candidates[i].candidate.candidate_id, rows.size());
    if (first) {
      rows.emplace_back().standing = i;
      continue;
    }
    ReportRow& row = rows[place->second];
    if (confirmations[i]) {
      row.confirmations.push_back(i);
    } else if (Replaces(input.candidates[i], input.candidates[row.standing])) {
      row.others.push_back(std::exchange(row.standing, i));
    } else {
      row.others.push_back(i);
    }
  }
  for (ReportRow& row : rows) {
    const ReportCandidate& standing = input.candidates[row.standing];
    if (const Ratio* speedup = SpeedupOf(standing); speedup != nullptr) {
      const bool final = standing.measurement->level == MeasureLevel::kFinal;
      (final ? row.final : row.screening) = *speedup;
    }
    SetFinal(input, row);
  }
  std::string best;
  if (input.confirmed.has_value()) best = input.confirmed->candidate.candidate_id;
  std::vector<std::pair<Key, size_t>> order;
  for (size_t i = 0; i < rows.size(); ++i) {
    Key key = KeyOf(input, rows[i]);
    // Among finalists with equal results the search names one.
    if (!best.empty() && input.candidates[rows[i].standing].candidate.candidate_id == best) {
      key.group = 0;
    }
    order.emplace_back(key, i);
  }
  std::stable_sort(order.begin(), order.end());
  std::vector<ReportRow> sorted;
  sorted.reserve(rows.size());
  for (const auto& [key, i] : order) sorted.push_back(std::move(rows[i]));
  return sorted;
}

}  // namespace kernelcast::cli
