#ifndef KERNELCAST_COMMON_CONVERT_CANDIDATE_EXCHANGE_H_
#define KERNELCAST_COMMON_CONVERT_CANDIDATE_EXCHANGE_H_

#include <cstddef>
#include <memory>
#include <variant>

#include "absl/status/statusor.h"
#include "common/base/lru_cache.h"
#include "common/domain/candidate.h"
#include "kernelcast/v1/kernel.pb.h"

namespace kernelcast {

// A process sends the content of a candidate to a peer once. Later messages name the candidate by
// its id and leave out what the id is a hash of. A receiver that does not know the id, for example
// after a restart, answers NOT_FOUND, and the sender sends the whole candidate.
//
// Both sides are bounded. A sender remembers half of what a receiver keeps, so that a receiver with
// one sender nearly always has what the sender names.
inline constexpr size_t kMaxReceivedCandidates = 1 << 14;
inline constexpr size_t kMaxReceivedBytes = 8 << 20;

// The candidates that a process has received. Thread-safe.
class ReceivedCandidates {
 public:
  // Returns the candidate of a message, whole or by id. It is valid and has its id. NOT_FOUND: the
  // id is unknown. INVALID_ARGUMENT names the field.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const Candidate>> Read(const v1::Candidate& message);

 private:
  LruCache<Candidate> received_{kMaxReceivedCandidates, kMaxReceivedBytes};
};

// The candidates that one peer has received. Thread-safe.
class SentCandidates {
 public:
  // Names the candidate by its id if the peer has it, otherwise writes it whole.
  v1::Candidate Write(const Candidate& candidate);

  // A call with the candidate has succeeded, so the peer has it.
  void Add(const Candidate& candidate);
  // The peer does not know it.
  void Remove(const Candidate& candidate) { sent_.Erase(candidate.candidate_id); }
  // The peer is another process now.
  void Clear() { sent_.Clear(); }

 private:
  LruCache<std::monostate> sent_{kMaxReceivedCandidates / 2, kMaxReceivedBytes / 2};
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_CANDIDATE_EXCHANGE_H_
