#ifndef KERNELCAST_COMMON_DOMAIN_CANDIDATE_JSON_H_
#define KERNELCAST_COMMON_DOMAIN_CANDIDATE_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"

namespace kernelcast {

// Candidates as people and models describe them in JSON, next to their source.

// INVALID_ARGUMENT: "WHERE:3:7: not JSON: ...", or "WHERE:7: ..." if `with_line` is false.
[[nodiscard]] absl::StatusOr<nlohmann::ordered_json> ParseCandidateJson(const std::string& where,
                                                                        std::string_view text,
                                                                        bool with_line);

// Fills `candidate` from an object with the optional keys target, kind, flags, tunables, parent,
// origin, launches and workspace_bytes. Keys in `more_keys` are allowed and ignored. Code with
// launches and without a kind is device CUDA. INVALID_ARGUMENT: "WHERE: FIELD: ..." for the first
// error. Does not do the checks of ValidateCandidate.
[[nodiscard]] absl::Status ApplyCandidateFields(const std::string& where,
                                                const nlohmann::ordered_json& object,
                                                const std::vector<std::string>& more_keys,
                                                Candidate& candidate);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_CANDIDATE_JSON_H_
