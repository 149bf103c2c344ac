#ifndef KERNELCAST_COMMON_DOMAIN_ARCHIVE_OVERVIEW_H_
#define KERNELCAST_COMMON_DOMAIN_ARCHIVE_OVERVIEW_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kernelcast {

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

// The kernels from which a search derives candidates, for people who watch it or read its report.
struct ArchiveOverview {
  static constexpr size_t kMaxEntries = 64;

  std::string strategy;
  std::vector<ArchiveEntry> entries;  // the first kMaxEntries
  uint64_t total = 0;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_ARCHIVE_OVERVIEW_H_
