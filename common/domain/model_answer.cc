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

void CountUnreadable(const std::string& fault, const std::string& example,
                     UnreadableByFault& unreadable) {
  const bool has_room = unreadable.contains(fault) || unreadable.size() < kMaxFaults;
  UnreadableAnswers& kind = unreadable[has_room && !fault.empty() ? fault : "other"];
  if (kind.count++ == 0) kind.example = TruncateUtf8(example, kMaxModelDetailBytes);
}

void CountRepairs(const std::vector<std::string>& repairs, RepairCounts& counts) {
  for (const std::string& repair : repairs) {
    const bool has_room = counts.contains(repair) || counts.size() < kMaxFaults;
    ++counts[has_room ? repair : "other"];
  }
}

void ModelUse::Add(const ModelAnswer& answer) {
  token_usage += answer.token_usage;
  CountRepairs(answer.repairs, repairs);
  switch (answer.outcome) {
    case ModelOutcome::kNotAsked: return;
    case ModelOutcome::kBudget: ++over_budget; return;
    case ModelOutcome::kNotWorthIt: ++not_worth_it; return;
    case ModelOutcome::kUsed: ++used; break;
    case ModelOutcome::kDeclined: ++declined; break;
    case ModelOutcome::kLate: ++late; break;
    case ModelOutcome::kUnanswered:
      ++unanswered;
      last_error = TruncateUtf8(answer.detail, kMaxModelDetailBytes);
      break;
    case ModelOutcome::kUnreadable: CountUnreadable(answer.fault, answer.detail, unreadable); break;
  }
  ++asked;
}

}  // namespace kernelcast
