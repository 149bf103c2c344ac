#ifndef KERNELCAST_COMMON_DOMAIN_MODEL_ANSWER_H_
#define KERNELCAST_COMMON_DOMAIN_MODEL_ANSWER_H_

#include <cstdint>
#include <map>
#include <string>

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

enum class ModelOutcome { kNotAsked, kUsed, kDeclined, kUnreadable, kUnanswered, kBudget };

inline constexpr size_t kMaxModelDetailBytes = 500;

// The contribution of a language model to one forecast.
struct ModelAnswer {
  ModelOutcome outcome = ModelOutcome::kNotAsked;
  std::string fault = {};
  std::string detail = {};
  TokenUsage token_usage = {};
};

// Totals of model outcomes over many forecasts.
struct ModelUse {
  struct Unreadable {
    uint64_t count = 0;
    std::string example;
    friend bool operator==(const Unreadable&, const Unreadable&) = default;
  };
  // Number of fault kinds counted separately. The rest count as "other".
  static constexpr size_t kMaxFaults = 16;

  uint64_t asked = 0;
  uint64_t used = 0;
  uint64_t declined = 0;
  std::map<std::string, Unreadable> unreadable;  // by fault
  uint64_t unanswered = 0;
  uint64_t over_budget = 0;
  TokenUsage token_usage;
  std::string last_error;
  friend bool operator==(const ModelUse&, const ModelUse&) = default;

  // Counts one more answer.
  void Add(const ModelAnswer& answer);
  // Whether no model was involved at all.
  bool empty() const { return asked == 0 && over_budget == 0; }
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_MODEL_ANSWER_H_
