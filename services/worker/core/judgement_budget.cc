#include "services/worker/core/judgement_budget.h"

#include <algorithm>

namespace kernelcast::worker {
namespace {

// More calls than a judgement of a slow candidate makes: those of a short one fit into
// max_judgement_ns.
constexpr int64_t kCallsOfCheck = 8;
constexpr int64_t kCallsOfShape = 600;
constexpr int64_t kMostNs = INT64_MAX / 4;

}  // namespace

JudgementBudget::JudgementBudget(const MeasureOptions& options, MeasureLevel level,
                                 const Reference& reference) {
  double limit_ns = static_cast<double>(options.max_judgement_ns);
  for (const int64_t ns : reference.check_ns) limit_ns += static_cast<double>(kCallsOfCheck * ns);
  for (const int64_t ns : reference.bench_ns) limit_ns += static_cast<double>(kCallsOfShape * ns);
  limit_ns *= options.Precision(level).runners;
  limit_ns_ = static_cast<int64_t>(std::min(limit_ns, static_cast<double>(kMostNs)));
}

}  // namespace kernelcast::worker
