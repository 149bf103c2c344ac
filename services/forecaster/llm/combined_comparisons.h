#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_COMBINED_COMPARISONS_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_COMBINED_COMPARISONS_H_

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "services/forecaster/core/backend.h"
#include "services/forecaster/llm/recent_answers.h"

namespace kernelcast::forecaster {

// Values of --llm-compare.
inline constexpr std::string_view kCompareAnchor = "anchor";
inline constexpr std::string_view kCompareBoth = "both";

// The weight of a forecast relative to the anchor, when it is combined with one relative to the
// reference: V_reference / (V_anchor + V_reference), with the forecasts' own variances of log2
// speedup. These are the weights that minimise the variance of the combined mean if the errors are
// independent (J. M. Bates and C. W. J. Granger, "The Combination of Forecasts", Operational
// Research Quarterly 20, 1969). Both come from one model, so their errors are not independent; the
// weight is therefore within [0.2, 0.8]. 1/2 if both variances are zero.
double AnchorWeight(const Forecast& anchor, const Forecast& reference);

// Asks a backend two questions about a candidate that has an anchor: compared with the anchor,
// which is its measured parent or the incumbent, and compared with the reference. The result is
//
//   p = w p_anchor + (1 - w) p_reference        w = AnchorWeight
//
// over speedups relative to the reference, to which the backend converts p_anchor by the anchor's
// measured speedup (anchoring.h); LinearPool says how P(failure) enters. It names the anchor and
// counts the tokens of both. If one question has no forecast, the other's stands. Questions without
// an anchor are forwarded. A question asked again gets the combined answer, unless that is blind at
// the anchor (IsBlindAt).
//
// Forwards everything else. Thread-safe if the inner backend is.
class CombinedComparisons final : public Backend {
 public:
  // `inner` must outlive this object.
  explicit CombinedComparisons(Backend* inner);
  ~CombinedComparisons() override;

  std::string_view name() const override { return inner_.name(); }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Prepare(const std::shared_ptr<const ProblemContext>& problem) override {
    inner_.Prepare(problem);
  }
  void Observe(std::vector<ObservedLabel> labels) override { inner_.Observe(std::move(labels)); }
  BackendDescription Describe() const override { return inner_.Describe(); }
  absl::StatusOr<RenderedPrompt> ShowPrompt(const ForecastInput& input) const override {
    return inner_.ShowPrompt(input);
  }

 private:
  struct Memory {
    std::mutex mutex;
    RecentAnswers answers;  // guarded by mutex
  };

  Backend& inner_;
  // Shared with questions in progress, which may end after this object is destroyed.
  const std::shared_ptr<Memory> memory_;
};

// The result of both questions.
ForecastResult CombineComparisons(ForecastResult anchor, ForecastResult reference);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_COMBINED_COMPARISONS_H_
