#include "services/worker/virtual_gpu/execute/footprint.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace kernelcast::worker::virtual_gpu {
namespace {

uint64_t Mix(uint64_t x) {
  x *= 0x9e3779b97f4a7c15;
  return x ^ x >> 29;
}

int HalvesOf(uint32_t sectors) {
  return ((sectors & 3) != 0 ? 1 : 0) + ((sectors & 12) != 0 ? 1 : 0);
}

}  // namespace

size_t Footprint::Locate(uint64_t line) const {
  const size_t mask = keys_.size() - 1;
  size_t at = Mix(line) >> 20 & mask;
  while (keys_[at] != 0 && keys_[at] != line + 1) at = (at + 1) & mask;
  return at;
}

Footprint::Touched Footprint::Touch(uint64_t line, uint32_t sectors, float now) {
  size_t at = Locate(line);
  if (keys_[at] == 0) {
    if (used_ * 2 >= keys_.size()) {
      if (keys_.size() >= capacity_) return {std::popcount(sectors), HalvesOf(sectors), now};
      Footprint larger(capacity_, keys_.size() * 4);
      for (size_t k = 0; k < keys_.size(); ++k) {
        if (keys_[k] == 0) continue;
        const size_t to = larger.Locate(keys_[k] - 1);
        larger.keys_[to] = keys_[k];
        larger.sectors_[to] = sectors_[k];
        larger.touched_[to] = touched_[k];
      }
      keys_ = std::move(larger.keys_);
      sectors_ = std::move(larger.sectors_);
      touched_ = std::move(larger.touched_);
      at = Locate(line);
    }
    keys_[at] = line + 1;
    ++used_;
  }
  const uint32_t before = sectors_[at];
  const Touched touched = {std::popcount(sectors & ~before),
                           HalvesOf(before | sectors) - HalvesOf(before), touched_[at]};
  sectors_[at] = static_cast<uint8_t>(before | sectors);
  touched_[at] = now;
  return touched;
}

void Footprint::Clear() {
  if (used_ == 0) return;
  std::fill(keys_.begin(), keys_.end(), 0);
  std::fill(sectors_.begin(), sectors_.end(), uint8_t{0});
  used_ = 0;
}

void AddressCounts::Add(uint64_t address, double count) {
  if (keys_.empty()) {
    keys_.assign(kCapacity, 0);
    counts_.assign(kCapacity, 0);
  }
  const size_t mask = keys_.size() - 1;
  size_t at = Mix(address) >> 20 & mask;
  while (keys_[at] != 0 && keys_[at] != address + 1) at = (at + 1) & mask;
  if (keys_[at] == 0) {
    if (used_ * 2 >= keys_.size()) return;
    keys_[at] = address + 1;
    ++used_;
  }
  counts_[at] += count;
  largest_ = std::max(largest_, counts_[at]);
}

void AddressCounts::Clear() {
  keys_.clear();
  counts_.clear();
  used_ = 0;
  largest_ = 0;
}

}  // namespace kernelcast::worker::virtual_gpu
