#include "services/orchestrator/core/id_filter.h"

#include <bloom.h>

#include <cstdlib>

namespace kernelcast::orchestrator {
namespace {

constexpr int kEntries = 875'000;
constexpr double kError = 0.01;

}  // namespace

struct IdFilter::Impl {
  Impl() {
    if (bloom_init(&filter, kEntries, kError) != 0) std::abort();
  }
  ~Impl() { bloom_free(&filter); }
  bloom filter{};
};

IdFilter::IdFilter() : impl_(std::make_unique<Impl>()) {}
IdFilter::~IdFilter() = default;

void IdFilter::Add(std::string_view id) {
  bloom_add(&impl_->filter, id.data(), static_cast<int>(id.size()));
}

bool IdFilter::MayHold(std::string_view id) const {
  return bloom_check(&impl_->filter, id.data(), static_cast<int>(id.size())) != 0;
}

}  // namespace kernelcast::orchestrator
