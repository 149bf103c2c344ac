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

// A forecast or an abstention as it was given once.
struct RecordedForecast {
  std::string problem_id;
  std::string target;
  std::string candidate_id;
  // Empty: the problem's reference.
  std::string baseline_candidate_id;
  std::string bin_scheme_id;
  // How many times the same was asked for by then, this time included.
  uint64_t time = 1;
  ForecastResult result;
};

struct ReplayOptions {
  // Only forecasts of this backend, named as in Forecast::backend or by what stands before its
  // colon ("llm" for "llm:gpt-oss-20b"), and of this version. Empty: any.
  std::string backend;
  std::string backend_version;
};

// Answers from records, for running a search again exactly as it was. What is asked for the n-th
// time
// - the same candidate, problem, target, baseline and bin scheme - is answered as it was the n-th
// time, or the last time before that was recorded; of records of one time the last counts. A search
// with one candidate in flight asks in the same order again; with several it is the machine's speed
// that says which of them comes first. Tokens that were spent then are not spent again and not told
// of. Thread-safe.
class ReplayBackend final : public Backend {
 public:
  static constexpr std::string_view kName = "replay";

  ReplayBackend(std::vector<RecordedForecast> records, ReplayOptions options);

  std::string_view name() const override { return kName; }
  // What is not recorded is an abstention, kNotCovered.
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Observe(std::vector<ObservedLabel> labels) override;
  BackendDescription Describe() const override;

  // Records that can be answered from.
  size_t size() const;

 private:
  // Candidate, problem, target, baseline, bin scheme.
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string>;
  using GroupKey = std::pair<std::string, std::string>;  // problem, target

  const ReplayOptions options_;
  // By time. Constant after construction.
  std::map<Key, std::map<uint64_t, ForecastResult>> records_;

  mutable std::mutex mutex_;  // guards what follows
  std::map<Key, uint64_t> asked_;
  std::map<GroupKey, TargetLabels> labels_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_REPLAY_REPLAY_BACKEND_H_
