#ifndef KERNELCAST_COMMON_DOMAIN_CANDIDATE_H_
#define KERNELCAST_COMMON_DOMAIN_CANDIDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate_kind.h"
#include "common/domain/launch_argument.h"

namespace kernelcast {

struct Tunable {
  std::string name;
  std::string value;
  friend bool operator==(const Tunable&, const Tunable&) = default;
};

// The value of a tl.constexpr parameter, as written. kernel.proto defines the forms.
struct Constexpr {
  std::string name;
  std::string value;
  friend bool operator==(const Constexpr&, const Constexpr&) = default;
};

// One launch of a kernel. Geometry and sizes are expressions over axes and integer tunables.
struct Launch {
  std::string kernel;
  std::vector<std::string> grid;
  std::vector<std::string> block;
  std::string shared_memory_bytes;  // empty: none
  // In the syntax of ParseLaunchArgument.
  std::vector<std::string> arguments;
  std::vector<std::string> cluster;  // empty: none
  // Expression: the launch is left out at shapes where it is 0. Empty: never.
  std::string when = {};
  // Device Triton only.
  std::vector<Constexpr> constexprs = {};
  int32_t num_warps = 0;   // 0: Triton's default
  int32_t num_stages = 0;  // 0: Triton's default
  friend bool operator==(const Launch&, const Launch&) = default;
};

// One kernel source for one problem and target. kernel.proto defines the fields.
struct Candidate {
  std::string candidate_id;
  std::string problem_id;
  std::string target;
  CandidateKind kind = CandidateKind::kHostNative;
  std::string source;
  std::vector<std::string> flags;
  std::vector<Tunable> tunables;
  std::vector<Launch> launches;
  std::string workspace_bytes;
  std::string parent_candidate_id;
  std::string origin;
  std::string name;
};

inline constexpr int64_t kMaxSourceBytes = 1 << 20;
inline constexpr int64_t kMaxFlags = 64;
inline constexpr int64_t kMaxTunables = 64;
inline constexpr int64_t kMaxLaunches = 64;
inline constexpr int64_t kMaxLaunchArguments = 64;
inline constexpr int64_t kMaxConstexprs = 64;
inline constexpr int32_t kDefaultNumWarps = 4;  // Triton's
inline constexpr int32_t kMaxNumWarps = 32;
inline constexpr int32_t kMaxNumStages = 16;

// The content id: "k_" and 32 hex digits over problem, target, kind, source, flags, tunables,
// launches and workspace. Parent, origin and name are not part of it.
[[nodiscard]] std::string CandidateId(const Candidate& candidate);

// Checks sizes, UTF-8 without NUL, names, launches, and candidate_id if it is set. INVALID_ARGUMENT
// names the field, the value and what is allowed. Does not check the expressions and arguments of
// launches, which need the problem.
[[nodiscard]] absl::Status ValidateCandidate(const Candidate& candidate);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_CANDIDATE_H_
