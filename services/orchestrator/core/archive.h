#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ARCHIVE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ARCHIVE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/archive_overview.h"
#include "services/orchestrator/core/attempt.h"

namespace kernelcast::orchestrator {

struct ArchiveLimits {
  size_t parents = 64;
  size_t children = 8;  // of the same parent
};

// A search's memory of its kernels, for deriving new ones: the best measured kernels, which become
// parents, and the latest failures. A SearchStrategy chooses parents from it.
//
// A derivation counts as an expansion of its parent as soon as it begins, so that concurrent ones
// spread out and a slow one blocks nobody.
//
// Deterministic: depends only on the sequence of calls. Keeps as many kernels as the limits say,
// and kMaxSetbacks setbacks. Not thread-safe.
class Archive {
 public:
  static constexpr size_t kMaxSetbacks = 16;

  struct Node {
    Attempt attempt;    // for the reference only the id
    double reward = 0;  // log2 of the speedup
    uint64_t batch = 0;
    uint64_t expansions = 0;
    bool has_children = false;
    double best_child = 0;  // its reward

    const std::string& id() const { return attempt.candidate.candidate_id; }
  };

  // The reference, given by its id, is always among the parents.
  explicit Archive(std::string reference_id, ArchiveLimits limits = {});

  // Adds an attempt of this batch whose outcome is known.
  void Add(Attempt attempt, uint64_t batch = 0);
  // Kernels are being derived from this parent. Unknown ids are ignored.
  void Expand(std::string_view parent_id);

  // The reference and the measured kernels, best first; of equal ones the earlier first. Never
  // empty. Valid until the next Add.
  std::vector<const Node*> BestFirst() const;
  uint64_t expansions() const { return expansions_; }

  const std::string& reference_id() const { return reference_id_; }
  // Null for the reference and for kernels that are not among the parents.
  const Attempt* Find(std::string_view candidate_id) const;
  // Null before the first correct measurement.
  const Attempt* Best() const;
  // Number of measured kernels that were derived from this one.
  uint64_t Children(std::string_view parent_id) const;
  // At most `count` setbacks: those derived from the same parent first, then the others, latest
  // first in each group.
  std::vector<Attempt> Setbacks(std::string_view parent_id, size_t count) const;

  // Used by State::Digest.
  std::string Digest() const;

 private:
  Node* FindNode(std::string_view candidate_id);
  void Trim(const std::string& parent_id);

  std::string reference_id_;
  ArchiveLimits limits_;
  // In order of arrival. The reference is the first.
  std::vector<Node> nodes_;
  std::deque<Attempt> setbacks_;  // latest last
  uint64_t expansions_ = 0;
};

// The entry of a single kernel or, with `kernels` above 1, of a place whose best kernel it is.
// Without `children`, which the overview adds.
ArchiveEntry EntryOf(const Archive& archive, const Archive::Node& node, std::string place = "",
                     uint64_t kernels = 1);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ARCHIVE_H_
