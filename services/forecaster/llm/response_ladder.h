#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_RESPONSE_LADDER_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_RESPONSE_LADDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::forecaster {

// Ways to request the answer format, strictest first.
enum class Rung {
  kJsonSchema,  // response_format json_schema, strict
  kToolsNamed,  // the submit tool, required by name
  kToolsAuto,   // both tools, the model's choice
  kText,        // plain text containing a JSON object
};
inline constexpr Rung kRungs[] = {Rung::kJsonSchema, Rung::kToolsNamed, Rung::kToolsAuto,
                                  Rung::kText};

std::string_view Name(Rung rung);  // "json_schema"
// NOT_FOUND lists the known names.
[[nodiscard]] absl::StatusOr<Rung> ParseRung(std::string_view name);

// The result of an attempt at a rung.
enum class RungOutcome {
  kAnswered,    // with a forecast or a deferral
  kUnparsable,  // the answer was unreadable
  kRefused,     // the endpoint does not support such a request
  kNoVerdict,   // anything else, such as a timeout or an overload
};

struct LadderOptions {
  // In the order in which they are tried. Not empty, without duplicates.
  std::vector<Rung> rungs = {Rung::kJsonSchema, Rung::kToolsNamed, Rung::kToolsAuto, Rung::kText};
  // Number of consecutive unparsable answers after which the rung is left.
  int unparsable_limit = 3;
  // Delay after a demotion before the rung above is tried again. Doubles with each failed trial, up
  // to the maximum.
  int64_t first_expiry_ns = 600'000'000'000;
  int64_t longest_expiry_ns = 21'600'000'000'000;
  // If a trial has no result for this long, another one is made.
  int64_t trial_patience_ns = 60'000'000'000;
};

// Current rung of each endpoint and model. Pure. Not thread-safe.
//
//   at rung r --refused, and a lower rung answered the same request--> at that lower rung
//   at rung r --unparsable_limit unparsable in a row-----------------> at rung r + 1
//   below the top, expiry passed: one request tries the rung above, the others stay
//     answered ---------------> at the rung above, the next trial after first_expiry_ns
//     refused or unparsable --> stays, the next trial after twice as long
//     anything else ----------> stays, the next trial after trial_patience_ns
//
// A refusal alone changes no rung, because the request may be at fault. The rungs that a request
// has descended are in its Walk.
class ResponseLadder {
 public:
  using Key = std::pair<std::string, std::string>;  // endpoint, model

  // State of one request over all its attempts.
  struct Walk {
    // Index into LadderOptions::rungs. The request no longer uses the rungs above it.
    int lowest = 0;
    bool trial = false;
    bool was_refused = false;
  };

  explicit ResponseLadder(LadderOptions options) : options_(std::move(options)) {}

  // Rung of the request's next attempt at this endpoint and model.
  Rung Next(const Key& key, Walk& walk, int64_t now_ns);
  // Reports the result of an attempt at `rung`, which Next returned. After a refusal or an
  // unreadable answer, Next returns a lower rung if there is one. Returns whether there is one.
  bool Report(const Key& key, Walk& walk, Rung rung, RungOutcome outcome, int64_t now_ns);

  // Current rung of the endpoint and model.
  Rung Current(const Key& key) const;

 private:
  struct Standing {
    int position = 0;
    int unparsable_in_a_row = 0;
    // When the rung above may be tried again, and the length of the last delay.
    int64_t expires_ns = 0;
    int64_t expiry_ns = 0;
  };

  int last() const { return static_cast<int>(options_.rungs.size()) - 1; }
  void MoveTo(Standing& standing, int position, int64_t now_ns);

  const LadderOptions options_;
  std::map<Key, Standing> standings_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_RESPONSE_LADDER_H_
