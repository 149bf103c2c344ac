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

// The ways in which an answer's form can be asked for, from the strictest down.
enum class Rung {
  kJsonSchema,  // response_format json_schema, strict
  kToolsNamed,  // the submitting tool, demanded by name
  kToolsAuto,   // both tools, the model's choice
  kText,        // nothing but words: a JSON object in the text
};
inline constexpr Rung kRungs[] = {Rung::kJsonSchema, Rung::kToolsNamed, Rung::kToolsAuto,
                                  Rung::kText};

std::string_view Name(Rung rung);  // "json_schema"
// NOT_FOUND, listing the known names.
[[nodiscard]] absl::StatusOr<Rung> ParseRung(std::string_view name);

// How an attempt at a rung ended, as far as the rung is concerned.
enum class RungOutcome {
  kAnswered,    // with a forecast or a deferral
  kUnparsable,  // the endpoint answered, but nothing could be read
  kRefused,     // the endpoint does not understand such a request
  kNoVerdict,   // anything else: a timeout, an overload
};

struct LadderOptions {
  // In the order in which they are tried; not empty, none twice.
  std::vector<Rung> rungs = {Rung::kJsonSchema, Rung::kToolsNamed, Rung::kToolsAuto, Rung::kText};
  // So many unparsable answers in a row, and the rung is left.
  int unparsable_limit = 3;
  // After a demotion, so long until the rung above is tried again; doubled by each trial that
  // fails, up to the longest.
  int64_t first_expiry_ns = 600'000'000'000;
  int64_t longest_expiry_ns = 21'600'000'000'000;
  // A trial that nothing was heard of for so long is followed by another.
  int64_t trial_patience_ns = 60'000'000'000;
};

// Where each endpoint and model stands on the ladder. Pure; one thread at a time.
//
//   at rung r --refused, and a lower rung answered the same request--> at that lower rung
//   at rung r --unparsable_limit unparsable in a row-----------------> at rung r + 1
//   below the top, expiry passed: one request tries the rung above, the others stay
//     answered ---------------> at the rung above, the next trial after first_expiry_ns
//     refused or unparsable --> stays, the next trial after twice as long
//     nothing of the kind ----> stays, the next trial after trial_patience_ns
//
// That a request is refused moves nobody by itself: it may be the request's fault. How far a
// request has descended is in its own Walk.
class ResponseLadder {
 public:
  using Key = std::pair<std::string, std::string>;  // endpoint, model

  // Of one request, over all its attempts.
  struct Walk {
    // Position in LadderOptions::rungs that the request does not go above any more.
    int lowest = 0;
    bool trial = false;
    bool was_refused = false;
  };

  explicit ResponseLadder(LadderOptions options) : options_(std::move(options)) {}

  // Rung of the request's next attempt, should it go to this endpoint and model.
  Rung Next(const Key& key, Walk& walk, int64_t now_ns);
  // How an attempt at `rung`, which Next gave, ended. After a refusal and after an answer that
  // cannot be read Next gives a lower rung, where there is one. Returns whether there is.
  bool Report(const Key& key, Walk& walk, Rung rung, RungOutcome outcome, int64_t now_ns);

  // Where the endpoint and model stand.
  Rung Current(const Key& key) const;

 private:
  struct Standing {
    int position = 0;
    int unparsable_in_a_row = 0;
    // From when on the rung above may be tried, and how long the wait before was.
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
