#ifndef KERNELCAST_COMMON_DOMAIN_CANDIDATE_H_
#define KERNELCAST_COMMON_DOMAIN_CANDIDATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

enum class CandidateKind { kUnspecified, kHostNative, kDeviceCuda, kPython };

struct Tunable {
  std::string name;
  std::string value;
  friend bool operator==(const Tunable&, const Tunable&) = default;
};

// One launch of a kernel. Geometry and sizes are expressions over axes and integer tunables.
struct Launch {
  std::string kernel;
  std::vector<std::string> grid;
  std::vector<std::string> block;
  std::string shared_memory_bytes;  // empty: none
  // Each a tensor, an axis, kWorkspaceArgument or a literal.
  std::vector<std::string> arguments;
  std::vector<std::string> cluster;  // empty: none
  friend bool operator==(const Launch&, const Launch&) = default;
};

// The argument that is the address of the scratch memory.
inline constexpr std::string_view kWorkspaceArgument = "workspace";

// A scalar among the arguments of a launch, such as "3:i32" or "0.5:f32".
struct LaunchLiteral {
  enum class Type { kInt32, kInt64, kFloat32, kFloat64 };
  Type type = Type::kInt32;
  int64_t integer = 0;  // of the integer types
  double real = 0;      // of the others
};

// INVALID_ARGUMENT, naming the text and what is allowed: no such suffix, not a number, out of the
// type's range.
[[nodiscard]] absl::StatusOr<LaunchLiteral> ParseLaunchLiteral(std::string_view text);

// One kernel source for one problem and target. Field meanings as in kernel.proto.
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
};

inline constexpr int64_t kMaxSourceBytes = 1 << 20;
inline constexpr int64_t kMaxFlags = 64;
inline constexpr int64_t kMaxTunables = 64;
inline constexpr int64_t kMaxLaunches = 64;
inline constexpr int64_t kMaxLaunchArguments = 64;

// "k_" and 32 hex digits over problem, target, kind, source, flags, tunables, launches and
// workspace; parent and origin do not count.
[[nodiscard]] std::string CandidateId(const Candidate& candidate);

// INVALID_ARGUMENT naming the field, the value and what is allowed: sizes, UTF-8 without NUL,
// names, launches, and candidate_id where it is set. Does not look at the problem: whether the
// expressions and arguments of launches mean something, is known with it only.
[[nodiscard]] absl::Status ValidateCandidate(const Candidate& candidate);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_CANDIDATE_H_
