#ifndef KERNELCAST_COMMON_DOMAIN_MODEL_ANSWER_H_
#define KERNELCAST_COMMON_DOMAIN_MODEL_ANSWER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kernelcast {

// Domain twins of the messages in kernel.proto, which defines the fields.

struct TokenUsage {
  uint64_t input_tokens = 0;
  uint64_t cached_input_tokens = 0;
  uint64_t output_tokens = 0;
  double cost_dollars = 0;
  friend bool operator==(const TokenUsage&, const TokenUsage&) = default;

  TokenUsage& operator+=(const TokenUsage& other);
};

enum class ModelOutcome {
  kNotAsked,
  kUsed,
  kDeclined,
  kUnreadable,
  kUnanswered,
  kBudget,
  kLate,
  kNotWorthIt,
};

inline constexpr size_t kMaxModelDetailBytes = 500;

// The contribution of a language model to one forecast.
struct ModelAnswer {
  ModelOutcome outcome = ModelOutcome::kNotAsked;
  std::string fault = {};
  std::string detail = {};
  TokenUsage token_usage = {};
  std::vector<std::string> repairs = {};
};

// Answers that could not be used, by fault. At most kMaxFaults are counted separately, the rest as
// "other".
struct UnreadableAnswers {
  uint64_t count = 0;
  std::string example;  // the first
  friend bool operator==(const UnreadableAnswers&, const UnreadableAnswers&) = default;
};
using UnreadableByFault = std::map<std::string, UnreadableAnswers>;
inline constexpr size_t kMaxFaults = 16;
void CountUnreadable(const std::string& fault, const std::string& example,
                     UnreadableByFault& unreadable);

// Answers that had to be mended, by repair, with the same limit.
using RepairCounts = std::map<std::string, uint64_t>;
void CountRepairs(const std::vector<std::string>& repairs, RepairCounts& counts);

// Totals of model outcomes over many forecasts.
struct ModelUse {
  using Unreadable = UnreadableAnswers;
  static constexpr size_t kMaxFaults = kernelcast::kMaxFaults;

  uint64_t asked = 0;
  uint64_t used = 0;
  uint64_t declined = 0;
  UnreadableByFault unreadable;
  uint64_t unanswered = 0;
  uint64_t over_budget = 0;
  TokenUsage token_usage;
  std::string last_error;
  RepairCounts repairs;
  uint64_t late = 0;
  uint64_t not_worth_it = 0;
  friend bool operator==(const ModelUse&, const ModelUse&) = default;

  // Counts one more answer.
  void Add(const ModelAnswer& answer);
  // Whether no model was involved at all.
  bool empty() const { return asked == 0 && over_budget == 0 && not_worth_it == 0; }
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_MODEL_ANSWER_H_
