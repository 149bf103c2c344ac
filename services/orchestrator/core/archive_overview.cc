#include "services/orchestrator/core/archive_overview.h"

#include <cmath>
#include <utility>

namespace kernelcast::orchestrator {

ArchiveEntry EntryOf(const Archive& archive, const Archive::Node& node, std::string place,
                     uint64_t kernels) {
  ArchiveEntry entry;
  entry.place = std::move(place);
  entry.candidate_id = node.id();
  entry.name = node.attempt.candidate.name;
  entry.origin = node.id() == archive.reference_id() ? "reference" : node.attempt.candidate.origin;
  entry.speedup = std::exp2(node.reward);
  entry.kernels = kernels;
  entry.expansions = node.expansions;
  entry.value = std::exp2(node.has_children ? node.best_child : node.reward);
  return entry;
}

}  // namespace kernelcast::orchestrator
