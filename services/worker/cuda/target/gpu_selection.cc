#include "services/worker/cuda/target/gpu_selection.h"

#include <sched.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kernelcast::worker {

absl::StatusOr<std::vector<int>> SelectGpus(const std::string& wish,
                                            const std::vector<std::string>& uuids) {
  const int count = static_cast<int>(uuids.size());
  std::vector<int> chosen;
  if (wish == "none") {
    return chosen;
  }
  if (wish.empty() || wish == "all") {
    chosen.resize(uuids.size());
    std::iota(chosen.begin(), chosen.end(), 0);
    return chosen;
  }
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(wish, ','))) {
    int ordinal = -1;
    if (!absl::SimpleAtoi(name, &ordinal)) {
      const auto found = std::find_if(uuids.begin(), uuids.end(), [&](const std::string& uuid) {
        return !name.empty() && absl::StartsWith(uuid, name);
      });
      ordinal = found == uuids.end() ? -1 : static_cast<int>(found - uuids.begin());
    }
    if (ordinal < 0 || ordinal >= count) {
      return absl::InvalidArgumentError(
          absl::StrCat("--gpus: no GPU '", name, "'; the driver shows ", count));
    }
    if (std::find(chosen.begin(), chosen.end(), ordinal) == chosen.end()) {
      chosen.push_back(ordinal);
    }
  }
  return chosen;
}

std::string VisibleDevice(int ordinal, int count, const char* own) {
  if (count <= 1) {
    return "";
  }
  if (own != nullptr) {
    const std::vector<std::string> names = absl::StrSplit(own, ',');
    if (static_cast<size_t>(ordinal) < names.size()) {
      return names[static_cast<size_t>(ordinal)];
    }
  }
  return absl::StrCat(ordinal);
}

int TimingCpu(int ordinal) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return -1;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &allowed)) cpus.push_back(cpu);
  }
  return cpus.size() < 3 ? -1 : cpus[1 + static_cast<size_t>(ordinal) % (cpus.size() - 2)];
}

}  // namespace kernelcast::worker
