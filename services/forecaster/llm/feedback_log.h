#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_FEEDBACK_LOG_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_FEEDBACK_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "services/forecaster/core/label.h"
#include "services/forecaster/llm/forecast_text.h"

namespace kernelcast::forecaster {

// What was measured so far, as far as prompts tell of it.
//
// What is told of a problem changes with its 1st, 2nd, 4th, 8th, ... label only: prompts stay the
// same in between, so that their answers are found in the cache and their prefixes in the
// endpoint's. It is the fastest few of the labels up to then, the fastest first, and the last few
// in their order, none twice. Besides, the label of a candidate's parent is told at once, before
// the others.
//
// Memory: kMaxKnown labels a problem and target, without sources. One thread at a time.
class FeedbackLog {
 public:
  static constexpr size_t kFastest = 4;
  static constexpr size_t kLatest = 4;
  static constexpr size_t kMaxKnown = 4096;

  void Add(const Label& label);
  std::vector<FeedbackEntry> For(const Candidate& candidate) const;

 private:
  struct Group {
    uint64_t labels = 0;
    std::vector<FeedbackEntry> fastest;
    std::vector<FeedbackEntry> latest;
    std::vector<FeedbackEntry> told;
    // By candidate; the first kMaxKnown.
    std::map<std::string, FeedbackEntry> known;
  };

  std::map<std::pair<std::string, std::string>, Group> groups_;  // problem id, target
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_FEEDBACK_LOG_H_
