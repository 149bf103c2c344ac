#include "services/cli/core/search_ids.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::cli {
namespace {

TEST_CASE("An id may be shortened to a unique beginning, or be the latest") {
  const std::vector<KnownSearch> known = {
      {"s_1", 5}, {"s_12", 7}, {"s_2a@nvidia-h200", 9}, {"s_2a@nvidia-l40s", 8}, {"other", 6}};
  CHECK(ChooseSearchId("o", known).value() == "other");
  CHECK(ChooseSearchId("s_12", known).value() == "s_12");
  // Also the beginning of another id.
  CHECK(ChooseSearchId("s_1", known).value() == "s_1");
  // Searches on several device models count as one.
  CHECK(ChooseSearchId("s_2", known).value() == "s_2a");
  CHECK(ChooseSearchId("s_2a@nvidia-h", known).value() == "s_2a@nvidia-h200");
  CHECK(ChooseSearchId("latest", known).value() == "s_2a");

  const absl::Status several = ChooseSearchId("s_", known).status();
  CHECK(absl::IsInvalidArgument(several));
  CHECK(several.message() == "'s_' is the beginning of 3 ids: s_1, s_12, s_2a");
  CHECK(absl::IsInvalidArgument(ChooseSearchId("s_2a@nvidia", known).status()));
  CHECK(absl::IsNotFound(ChooseSearchId("x", known).status()));
  CHECK(absl::IsNotFound(ChooseSearchId("", known).status()));
  CHECK(absl::IsNotFound(ChooseSearchId("latest", {}).status()));
}

}  // namespace
}  // namespace kernelcast::cli
