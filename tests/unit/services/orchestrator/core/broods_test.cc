#include "services/orchestrator/core/broods.h"

#include <catch2/catch.hpp>

namespace kernelcast::orchestrator {
namespace {

TEST_CASE("A brood is a number of consecutive turns with one parent") {
  Broods broods(3);
  CHECK(broods.Starts());
  CHECK(broods.Take("a") == 0);
  CHECK_FALSE(broods.Starts());
  CHECK(broods.Take("ignored") == 1);
  CHECK(broods.parent() == "a");
  CHECK(broods.Take("a") == 2);
  CHECK(broods.Starts());
  CHECK(broods.Take("b") == 3);
  CHECK(broods.parent() == "b");
  CHECK(broods.BroodOf(2) == 0);
  CHECK(broods.BroodOf(3) == 1);
}

TEST_CASE("A brood is complete when all its turns are decided or give nothing") {
  Broods broods(3);
  for (int i = 0; i < 3; ++i) broods.Take("a");
  broods.Decide(0, false);
  broods.Prune(0);
  broods.Drop(1);
  CHECK_FALSE(broods.IsComplete(0, false));
  CHECK(broods.Open(1) == 1);
  broods.Decide(2, false);
  broods.Prune(2);
  CHECK(broods.IsComplete(1, false));
  // A brood that is not full is complete when no more turns are taken.
  broods.Take("b");
  broods.Decide(3, true);
  CHECK_FALSE(broods.IsComplete(3, false));
  CHECK(broods.IsComplete(3, true));
}

TEST_CASE("A brood is open until enough of it are admitted or none is left") {
  Broods broods(2);
  broods.Take("a");
  broods.Take("a");
  for (const uint64_t turn : {uint64_t{0}, uint64_t{1}}) {
    broods.Decide(turn, false);
    broods.Prune(turn);
  }
  CHECK(broods.Open(1) == 1);
  broods.Reconsider(0);
  CHECK_FALSE(broods.IsComplete(0, false));
  broods.Decide(0, true);
  CHECK(broods.IsFull(1, 1));
  CHECK(broods.Open(1) == 0);
  CHECK_FALSE(broods.IsFull(1, 2));
  CHECK(broods.Open(2) == 1);
  broods.Reconsider(1);
  broods.Decide(1, true);
  CHECK(broods.Open(3) == 0);
}

}  // namespace
}  // namespace kernelcast::orchestrator
