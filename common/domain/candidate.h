#ifndef KERNELCAST_COMMON_DOMAIN_CANDIDATE_H_
#define KERNELCAST_COMMON_DOMAIN_CANDIDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace kernelcast {

enum class CandidateKind { kUnspecified, kHostNative, kDeviceCuda, kPython };

struct Tunable {
  std::string name;
  std::string value;
  friend bool operator==(const Tunable&, const Tunable&) = default;
};

struct Launch {
  std::string kernel;
  std::vector<std::string> grid;
  std::vector<std::string> block;
  std::string shared_memory_bytes;
  std::vector<std::string> arguments;
  std::vector<std::string> cluster;
};

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

// "k_" and 32 hex digits over problem, target, kind, source, flags, tunables, launches and
// workspace; parent and origin do not count.
[[nodiscard]] std::string CandidateId(const Candidate& candidate);

// INVALID_ARGUMENT naming the field, the value and what is allowed: sizes, UTF-8 without NUL,
// names, and candidate_id where it is set. Does not look at the problem.
[[nodiscard]] absl::Status ValidateCandidate(const Candidate& candidate);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_CANDIDATE_H_
