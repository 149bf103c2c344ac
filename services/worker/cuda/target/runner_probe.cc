#include "services/worker/cuda/target/runner_probe.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/process/child_process.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kRunnerProbeLimitNs = 10'000'000'000;

}  // namespace

void AddMissingProtections(const std::string& program_folder, uid_t uid,
                           std::vector<std::string>& missing) {
  ChildOptions child;
  child.argv = {absl::StrCat(program_folder, "/kernelcast-cuda-runner"), "--probe-sandbox",
                absl::StrCat(uid)};
  const auto spawned = ChildProcess::Spawn(child);
  if (!spawned.ok()) {
    return;  // starting a runner reports why
  }
  const ChildExit exit = (*spawned)->Wait(kRunnerProbeLimitNs);
  for (const auto name : absl::StrSplit(exit.output, '\n', absl::SkipEmpty())) {
    if (std::find(missing.begin(), missing.end(), name) == missing.end()) {
      missing.emplace_back(name);
    }
  }
}

}  // namespace kernelcast::worker
