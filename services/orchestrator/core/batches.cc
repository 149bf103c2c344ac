#include "services/orchestrator/core/batches.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kernelcast::orchestrator {

uint64_t Batches::Take(const std::string& parent) {
  if (Starts()) {
    parent_ = parent;
    counts_.emplace_back();
  }
  ++counts_.back().taken;
  ++counts_.back().pending;
  return turns_++;
}

void Batches::Decide(uint64_t turn, bool measured) {
  --At(turn).pending;
  if (measured) ++At(turn).admitted;
}

void Batches::Reconsider(uint64_t turn) {
  --At(turn).waiting;
  ++At(turn).pending;
}

bool Batches::IsComplete(uint64_t turn, bool ended) const {
  const Counts& counts = At(turn);
  return counts.pending == 0 && (counts.taken == size_ || ended);
}

uint64_t Batches::Open(uint64_t admit) const {
  return static_cast<uint64_t>(std::ranges::count_if(counts_, [&](const Counts& counts) {
    return counts.pending > 0 || counts.taken < size_ ||
           (counts.admitted < admit && counts.waiting > 0);
  }));
}

std::string Batches::Digest() const {
  std::string text = absl::StrCat("  batches ", turns_, " from ", parent_);
  for (const Counts& counts : counts_) {
    absl::StrAppend(&text, " ", counts.taken, "/", counts.pending, "/", counts.waiting, "/",
                    counts.admitted);
  }
  return absl::StrCat(text, "\n");
}

}  // namespace kernelcast::orchestrator
