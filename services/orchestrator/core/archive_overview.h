#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ARCHIVE_OVERVIEW_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ARCHIVE_OVERVIEW_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "services/orchestrator/core/archive.h"

namespace kernelcast::orchestrator {

// A kernel, niche or island that a strategy derives candidates from. ArchiveEntry in
// orchestrator.proto defines the fields.
struct ArchiveEntry {
  std::string place;
  std::string candidate_id;
  std::string name;
  std::string origin;
  double speedup = 0;
  uint64_t kernels = 0;
  uint64_t children = 0;
  uint64_t expansions = 0;
  double value = 0;
};

// What a search derives candidates from, for people who watch it.
struct ArchiveOverview {
  static constexpr size_t kMaxEntries = 64;

  std::string strategy;
  std::vector<ArchiveEntry> entries;  // the first kMaxEntries
  uint64_t total = 0;
};

// The entry of a single kernel or, with `kernels` above 1, of a place whose best kernel it is.
// Without `children`, which the overview adds.
ArchiveEntry EntryOf(const Archive& archive, const Archive::Node& node, std::string place = "",
                     uint64_t kernels = 1);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ARCHIVE_OVERVIEW_H_
