#include "services/orchestrator/core/id_filter.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::orchestrator {
namespace {

TEST_CASE("An id filter has no false negatives and few false positives") {
  constexpr int kIds = 875'000;
  constexpr int kProbes = 100'000;
  IdFilter filter;
  CHECK_FALSE(filter.MayHold(""));
  for (int i = 0; i < kIds; ++i) filter.Add("request-" + std::to_string(i));
  int denied = 0;
  for (int i = 0; i < kIds; i += 10)
    denied += filter.MayHold("request-" + std::to_string(i)) ? 0 : 1;
  CHECK(denied == 0);
  int mistaken = 0;
  for (int i = 0; i < kProbes; ++i)
    mistaken += filter.MayHold("other-" + std::to_string(i)) ? 1 : 0;
  // 1% is expected; the standard deviation of the count is 31.
  CHECK(mistaken > 0);
  CHECK(mistaken < kProbes / 100 + 200);
}

}  // namespace
}  // namespace kernelcast::orchestrator
