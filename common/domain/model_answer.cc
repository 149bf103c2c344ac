#include "common/domain/model_answer.h"

#include "common/base/utf8.h"

namespace kernelcast {

std::string_view Name(ModelOutcome outcome) {
  switch (outcome) {
    case ModelOutcome::kNotAsked: return "not_asked";
    case ModelOutcome::kUsed: return "used";
    case ModelOutcome::kDeclined: return "declined";
    case ModelOutcome::kUnreadable: return "unreadable";
    case ModelOutcome::kUnanswered: return "unanswered";
    case ModelOutcome::kBudget: return "budget";
  }
  return "unknown";
}

void ModelUse::Add(const ModelAnswer& answer) {
  token_usage.input_tokens += answer.token_usage.input_tokens;
  token_usage.cached_input_tokens += answer.token_usage.cached_input_tokens;
  token_usage.output_tokens += answer.token_usage.output_tokens;
  token_usage.cost_dollars += answer.token_usage.cost_dollars;
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
