#ifndef KERNELCAST_SERVICES_FORECASTER_REPLAY_REPLAY_BACKEND_H_
#define KERNELCAST_SERVICES_FORECASTER_REPLAY_REPLAY_BACKEND_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "services/forecaster/core/backend.h"

namespace kernelcast::forecaster {

// A recorded forecast or abstention.
struct RecordedForecast {
  std::string problem_id;
  std::string target;
  std::string candidate_id;
  // Empty: the problem's reference.
  std::string baseline_candidate_id;
  std::string bin_scheme_id;
  // How many times the same forecast had been requested, including this time.
  uint64_t time = 1;
  ForecastResult result;
  // Empty in records of earlier versions: any.
  std::string device_model = {};
};

// Answers from records, to repeat a search exactly. The n-th request with the same candidate,
// problem, target, baseline, bin scheme and device model gets the answer of the n-th time, or of
// the last recorded time before it. If several records have the same time, the last one counts. A
// search with one candidate in flight repeats its requests in the same order; with several in
// flight the order depends on the machine's speed. Token usage is not reported again. Thread-safe.
class ReplayBackend final : public Backend {
 public:
  static constexpr std::string_view kName = "replay";

  explicit ReplayBackend(std::vector<RecordedForecast> records);

  std::string_view name() const override { return kName; }
  // A request without a record is answered with an abstention, kNotCovered.
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Observe(std::vector<ObservedLabel> labels) override;
  BackendDescription Describe() const override;

  // Number of usable records.
  size_t size() const;

 private:
  // Candidate, problem, target, baseline, bin scheme, device model.
  using Key =
      std::tuple<std::string, std::string, std::string, std::string, std::string, std::string>;
  using GroupKey = std::tuple<std::string, std::string, std::string>;  // problem, target, device

  // By time. Constant after construction.
  std::map<Key, std::map<uint64_t, ForecastResult>> records_;

  mutable std::mutex mutex_;  // guards the members below
  std::map<Key, uint64_t> asked_;
  std::map<GroupKey, TargetLabels> labels_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_REPLAY_REPLAY_BACKEND_H_
