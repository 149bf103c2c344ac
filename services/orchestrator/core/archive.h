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

// A search's memory of its kernels, for writing new ones: the best measured kernels, which become
// parents, and the latest failures.
//
// Parents are chosen by PUCT without waiting for results. A request counts as an expansion of its
// parent as soon as it is made, so that concurrent requests spread out and a slow one blocks
// nobody.
//
//   score = Q + scale P sqrt(1 + T) / (1 + n)
//
// Q is the best reward among a kernel's own children, or its own reward if it has none. The reward
// is log2 of the speedup; that of the reference is 0. P increases with the kernel's rank. n is the
// number of the kernel's expansions, T the total number. scale is the spread of the rewards.
//
// Deterministic: depends only on the sequence of calls. Keeps kMaxParents kernels, of which at most
// kMaxChildren have the same parent, and kMaxSetbacks setbacks. Not thread-safe.
class Archive {
 public:
  static constexpr size_t kMaxParents = 64;
  static constexpr size_t kMaxChildren = 8;
  static constexpr size_t kMaxSetbacks = 16;

  // The reference, given by its id, is always among the parents.
  explicit Archive(std::string reference_id);

  // Adds an attempt whose outcome is known.
  void Add(Attempt attempt);
  // A kernel derived from this parent is being requested. Unknown ids are ignored.
  void Expand(std::string_view parent_id);

  // Returns the id of the reference or of a measured kernel.
  const std::string& ChooseParent() const;

  const std::string& reference_id() const { return reference_id_; }
  // Null for the reference and for kernels that are not among the parents.
  const Attempt* Find(std::string_view candidate_id) const;
  // Null before the first correct measurement.
  const Attempt* Best() const;
  // At most `count` setbacks: those derived from the same parent first, then the others, latest
  // first in each group.
  std::vector<Attempt> Setbacks(std::string_view parent_id, size_t count) const;

  // Used by State::Digest.
  std::string Digest() const;

 private:
  struct Node {
    Attempt attempt;  // for the reference only the id
    double reward = 0;
    uint64_t expansions = 0;
    bool has_children = false;
    double best_child = 0;
  };

  Node* FindNode(std::string_view candidate_id);
  void Trim(const std::string& parent_id);

  std::string reference_id_;
  // In order of arrival. The reference is the first.
  std::vector<Node> nodes_;
  std::deque<Attempt> setbacks_;  // latest last
  uint64_t expansions_ = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ARCHIVE_H_
