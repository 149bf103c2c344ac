#include "services/forecaster/llm/token_budgets.h"

#include "absl/strings/str_cat.h"

namespace kernelcast::forecaster {
absl::StatusOr<TokenBudgets::Reservation> TokenBudgets::Reserve(const std::string& problem_id,
                                                                const ForecastCall& call,
                                                                uint64_t estimate) {
  struct Account {
    std::string key;
    uint64_t limit;
    const char* of;
  };
  const Account accounts[] = {
      {absl::StrCat("problem ", problem_id), max_problem_tokens_, "problem"},
      {absl::StrCat("search ", call.search_id), call.max_search_tokens, "search"}};
  for (const Account& account : accounts) {
    if (account.limit > 0 && tokens_[account.key] + estimate > account.limit) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the ", account.limit, " tokens for this ", account.of, " are spent"));
    }
  }
  Reservation reserved;
  for (const Account& account : accounts) {
    if (account.limit == 0) continue;
    tokens_[account.key] += estimate;
    reserved.accounts.push_back(account.key);
  }
  reserved.tokens = estimate;
  return reserved;
}

void TokenBudgets::Charge(const Reservation& reserved, uint64_t used) {
  for (const std::string& account : reserved.accounts) {
    uint64_t& tokens = tokens_[account];
    tokens -= reserved.tokens;
    tokens += used;
  }
}

}  // namespace kernelcast::forecaster
