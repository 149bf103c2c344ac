#include "services/orchestrator/core/batches.h"

#include <catch2/catch.hpp>

namespace kernelcast::orchestrator {
namespace {

TEST_CASE("A batch is a number of consecutive turns with one parent") {
  Batches batches(3);
  CHECK(batches.Starts());
  CHECK(batches.Take("a") == 0);
  CHECK_FALSE(batches.Starts());
  CHECK(batches.Take("ignored") == 1);
  CHECK(batches.parent() == "a");
  CHECK(batches.Take("a") == 2);
  CHECK(batches.Starts());
  CHECK(batches.Take("b") == 3);
  CHECK(batches.parent() == "b");
  CHECK(batches.BatchOf(2) == 0);
  CHECK(batches.BatchOf(3) == 1);
}

TEST_CASE("A batch is complete when all its turns are decided or give nothing") {
  Batches batches(3);
  for (int i = 0; i < 3; ++i) batches.Take("a");
  batches.Decide(0, false);
  batches.Prune(0);
  batches.Drop(1);
  CHECK_FALSE(batches.IsComplete(0, false));
  CHECK(batches.Open(1) == 1);
  batches.Decide(2, false);
  batches.Prune(2);
  CHECK(batches.IsComplete(1, false));
  // A batch that is not full is complete when no more turns are taken.
  batches.Take("b");
  batches.Decide(3, true);
  CHECK_FALSE(batches.IsComplete(3, false));
  CHECK(batches.IsComplete(3, true));
}

TEST_CASE("A batch is open until enough of it are admitted or none is left") {
  Batches batches(2);
  batches.Take("a");
  batches.Take("a");
  for (const uint64_t turn : {uint64_t{0}, uint64_t{1}}) {
    batches.Decide(turn, false);
    batches.Prune(turn);
  }
  CHECK(batches.Open(1) == 1);
  batches.Reconsider(0);
  CHECK_FALSE(batches.IsComplete(0, false));
  batches.Decide(0, true);
  CHECK(batches.IsFull(1, 1));
  CHECK(batches.Open(1) == 0);
  CHECK_FALSE(batches.IsFull(1, 2));
  CHECK(batches.Open(2) == 1);
  batches.Reconsider(1);
  batches.Decide(1, true);
  CHECK(batches.Open(3) == 0);
}

}  // namespace
}  // namespace kernelcast::orchestrator
