#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_SCORER_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_SCORER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/bins.h"
#include "common/domain/forecast.h"
#include "common/domain/scoring.h"
#include "services/forecaster/core/answer_parser.h"
#include "services/forecaster/core/label.h"

namespace kernelcast::forecaster {

struct Speedup {
  double value = 0;
};
struct TrueBin {
  int bin = 0;
};

// A prediction and its true outcome.
struct ScoreItem {
  std::string item_id;
  std::string group_id;
  // A forecast, or a model's raw answer.
  std::variant<Forecast, std::string> prediction;
  std::variant<Speedup, TrueBin, FailureKind> truth;
};

struct ItemScore {
  std::string item_id;
  double reward = 0;
  double hit = 0;
  double half_brier = 0;
  double crps = 0;
  double negative_log_likelihood = 0;
  int true_bin = 0;  // 0 for failures
  int predicted_bin = 0;
  ParseStatus parse_status = ParseStatus::kOk;
};

struct GroupScore {
  std::string group_id;
  uint32_t items = 0;
  double mean_reward = 0;
  // Population standard deviation over the group.
  double stddev_reward = 0;
};

struct Scores {
  std::vector<ItemScore> items;    // in the order of the request
  std::vector<GroupScore> groups;  // by id
  ForecastMetrics metrics;
};

// Must change whenever the same item may get different numbers because of the rules below,
// common/domain/scoring.h or answer_parser.h.
inline constexpr std::string_view kScoringVersion = "scoring/1";

// Scores predictions by the rules of common/domain/scoring.h.
//
// - An unparsable answer has reward 0 and counts as a uniform forecast in the metrics' means.
// - A deferral has reward 0 and is not part of the metrics.
// - A failed candidate has no bin. Its forecast is scored on P(failure) as a binary event: it is a
//   hit above 0.5, half-Brier and CRPS are (1 - P)^2, and the log likelihood is that of P. Such an
//   item is not part of the metrics, which are about bins. A raw answer without "p_failure" has
//   reward 0.
//
// INVALID_ARGUMENT names the item: a forecast with another scheme or with probabilities that do not
// sum to 1, a speedup that is not positive, or a bin out of range.
[[nodiscard]] absl::StatusOr<Scores> Score(const BinScheme& scheme, RewardKind reward,
                                           std::span<const ScoreItem> items);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_SCORER_H_
