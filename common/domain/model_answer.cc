#include "common/domain/model_answer.h"

#include "common/base/utf8.h"

namespace kernelcast {

TokenUsage& TokenUsage::operator+=(const TokenUsage& other) {
  input_tokens += other.input_tokens;
  cached_input_tokens += other.cached_input_tokens;
  output_tokens += other.output_tokens;
  cost_dollars += other.cost_dollars;
  return *this;
}

void ModelUse::Add(const ModelAnswer& answer) {
  token_usage += answer.token_usage;
  switch (answer.outcome) {
    case ModelOutcome::kNotAsked: return;
    case ModelOutcome::kBudget: ++over_budget; return;
    case ModelOutcome::kUsed: ++used; break;
    case ModelOutcome::kDeclined: ++declined; break;
    case ModelOutcome::kUnanswered:
      ++unanswered;
      last_error = TruncateUtf8(answer.detail, kMaxModelDetailBytes);
      break;
    case ModelOutcome::kUnreadable: {
      std::string fault = answer.fault.empty() ? "other" : answer.fault;
      if (!unreadable.contains(fault) && unreadable.size() >= kMaxFaults) fault = "other";
      Unreadable& kind = unreadable[fault];
      if (kind.count++ == 0) kind.example = TruncateUtf8(answer.detail, kMaxModelDetailBytes);
      break;
    }
  }
  ++asked;
}

}  // namespace kernelcast
