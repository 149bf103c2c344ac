#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_BATCHES_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kernelcast::orchestrator {

// Counts the candidates that a search derives. Each takes a turn. A batch is `size` consecutive
// turns, all derived from one parent, whose candidates compete for measurements. A value type. Not
// thread-safe.
class Batches {
 public:
  struct Counts {
    uint64_t taken = 0;     // turns
    uint64_t pending = 0;   // candidates that are not written or not decided yet
    uint64_t waiting = 0;   // pruned candidates, which may still be measured
    uint64_t admitted = 0;  // candidates decided to be measured
  };

  explicit Batches(uint64_t size = 1) : size_(size) {}

  uint64_t next_turn() const { return turns_; }
  uint64_t BatchOf(uint64_t turn) const { return turn / size_; }
  // Whether the next turn starts a batch.
  bool Starts() const { return turns_ % size_ == 0; }
  // The parent of the batch that was started last.
  const std::string& parent() const { return parent_; }

  // Takes the next turn.
  uint64_t Take(const std::string& parent);
  // The turn gives no candidate.
  void Drop(uint64_t turn) { --At(turn).pending; }
  // Its candidate is decided.
  void Decide(uint64_t turn, bool measured);
  // Its candidate was pruned.
  void Prune(uint64_t turn) { ++At(turn).waiting; }
  // Its pruned candidate is evaluated again.
  void Reconsider(uint64_t turn);

  // Whether all of the turn's batch is decided. `ended`: no further turns are taken.
  bool IsComplete(uint64_t turn, bool ended) const;
  // Whether `admit` candidates of the turn's batch were admitted.
  bool IsFull(uint64_t turn, uint64_t admit) const { return At(turn).admitted >= admit; }
  // The number of batches that still compete for `admit` measurements each.
  uint64_t Open(uint64_t admit) const;

  // Used by State::Digest.
  std::string Digest() const;

 private:
  Counts& At(uint64_t turn) { return counts_[static_cast<size_t>(BatchOf(turn))]; }
  const Counts& At(uint64_t turn) const { return counts_[static_cast<size_t>(BatchOf(turn))]; }

  uint64_t size_;
  uint64_t turns_ = 0;
  std::string parent_;
  std::vector<Counts> counts_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_BATCHES_H_
