#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_FEEDBACK_LOG_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_FEEDBACK_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "services/forecaster/core/label.h"
#include "services/forecaster/llm/forecast_text.h"

namespace kernelcast::forecaster {

// Measurements so far, for use in prompts.
//
// The feedback for a problem changes only with its 1st, 2nd, 4th, 8th, ... label. In between,
// prompts stay the same, so that answers are found in the cache and prompt prefixes in the
// endpoint's cache. The feedback consists of the fastest labels so far, fastest first, and then the
// latest ones in order, without duplicates. In addition, the label of a candidate's parent is
// included at once, before the others.
//
// Memory: kMaxKnown labels per problem and target, without sources. Not thread-safe.
class FeedbackLog {
 public:
  static constexpr size_t kFastest = 4;
  static constexpr size_t kLatest = 4;
  static constexpr size_t kMaxKnown = 4096;

  void Add(const Label& label);
  // Feedback from the device model.
  std::vector<FeedbackEntry> For(const Candidate& candidate, const std::string& device_model) const;

 private:
  struct Group {
    uint64_t labels = 0;
    std::vector<FeedbackEntry> fastest;
    std::vector<FeedbackEntry> latest;
    std::vector<FeedbackEntry> shown;
    // By candidate; the first kMaxKnown.
    std::map<std::string, FeedbackEntry> known;
  };

  // Problem id, target, device model.
  std::map<std::tuple<std::string, std::string, std::string>, Group> groups_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_FEEDBACK_LOG_H_
