#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_TOKEN_BUDGETS_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_TOKEN_BUDGETS_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "services/forecaster/core/backend.h"

namespace kernelcast::forecaster {

// Tokens spent on each problem and by each search that has a limit. Questions in progress count by
// an estimate. Not thread-safe.
class TokenBudgets {
 public:
  // 0: problems have no limit.
  explicit TokenBudgets(uint64_t max_problem_tokens) : max_problem_tokens_(max_problem_tokens) {}

  struct Reservation {
    std::vector<std::string> accounts;
    uint64_t tokens = 0;
  };
  // RESOURCE_EXHAUSTED: a limit does not allow `estimate` more tokens; nothing is reserved. The
  // message is for the caller.
  [[nodiscard]] absl::StatusOr<Reservation> Reserve(const std::string& problem_id,
                                                    const ForecastCall& call, uint64_t estimate);
  // Replaces a reservation by what was used.
  void Charge(const Reservation& reserved, uint64_t used);

 private:
  const uint64_t max_problem_tokens_;
  std::unordered_map<std::string, uint64_t> tokens_;  // by account
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_TOKEN_BUDGETS_H_
