#include "common/llm/stats.h"

namespace kernelcast::llm {

std::string_view BreakerStateName(BreakerState state) {
  switch (state) {
    case BreakerState::kClosed: return "closed";
    case BreakerState::kOpen: return "open";
    case BreakerState::kHalfOpen: return "half_open";
  }
  return "unknown";
}

}  // namespace kernelcast::llm
