#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ARCHIVE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ARCHIVE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "services/orchestrator/core/attempt.h"

namespace kernelcast::orchestrator {

// What a search remembers of its kernels for those that are still to be written: the best of what
// was measured, from which the next are made, and the latest that came to nothing.
//
// Parents are chosen by PUCT without waiting for anything: a request under way counts as an
// expansion of its parent from the moment it is made, so that several at once spread out, and one
// that takes long holds nobody up.
//
//   score = Q + scale P sqrt(1 + T) / (1 + n)
//
// Q is the best reward among a kernel's own children, or else its own; the reward is log2 of the
// speedup, 0 for the reference; P is larger for the better by rank; n counts a kernel's expansions,
// T all of them; scale is how far the rewards are apart.
//
// Deterministic: depends on the calls made, in their order, and on nothing else. Keeps kMaxParents
// kernels, of which kMaxChildren have the same parent, and kMaxSetbacks setbacks. Not thread-safe.
class Archive {
 public:
  static constexpr size_t kMaxParents = 64;
  static constexpr size_t kMaxChildren = 8;
  static constexpr size_t kMaxSetbacks = 16;

  // The reference, by its id, is always among the parents.
  explicit Archive(std::string reference_id);

  // One whose fate has become known.
  void Add(Attempt attempt);
  // A kernel is asked for that is to be made from this one. Unknown ids are passed over.
  void Expand(std::string_view parent_id);

  // The reference's id, or that of a measured kernel.
  const std::string& ChooseParent() const;

  const std::string& reference_id() const { return reference_id_; }
  // Null for the reference and what is not among the parents.
  const Attempt* Find(std::string_view candidate_id) const;
  // Null before the first correct measurement.
  const Attempt* Best() const;
  // At most `count`: those made from the same parent first, then the others, the latest first.
  std::vector<Attempt> Setbacks(std::string_view parent_id, size_t count) const;

  // For State::Digest.
  std::string Digest() const;

 private:
  struct Node {
    Attempt attempt;  // of the reference only the id
    double reward = 0;
    uint64_t expansions = 0;
    bool has_children = false;
    double best_child = 0;
  };

  Node* FindNode(std::string_view candidate_id);
  void Trim(const std::string& parent_id);

  std::string reference_id_;
  // In the order of their arrival; the reference is the first.
  std::vector<Node> nodes_;
  std::deque<Attempt> setbacks_;  // the latest is the last
  uint64_t expansions_ = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ARCHIVE_H_
