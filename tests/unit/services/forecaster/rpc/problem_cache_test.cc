#include "services/forecaster/rpc/problem_cache.h"

#include <catch2/catch.hpp>

#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

TEST_CASE("The least recently used problem is evicted", "[forecaster][cache]") {
  const PlantedProblem a("a");
  const PlantedProblem b("b");
  const PlantedProblem c("c");
  const auto id = [](const PlantedProblem& p) { return p.context()->problem.problem_id; };
  ProblemCache cache(2, 1 << 20);
  cache.Put(a.context());
  cache.Put(b.context());
  CHECK(cache.Find(id(a)) == a.context());
  cache.Put(c.context());
  CHECK(cache.Find(id(b)) == nullptr);
  CHECK(cache.Find(id(a)) == a.context());
  CHECK(cache.Find(id(c)) == c.context());
}

TEST_CASE("Size bounds the cache too, but one problem always fits", "[forecaster][cache]") {
  const PlantedProblem a("a");
  const PlantedProblem b("b");
  ProblemCache cache(10, a.context()->SizeBytes() + 1);
  cache.Put(a.context());
  CHECK(cache.Find(a.context()->problem.problem_id) != nullptr);
  cache.Put(b.context());
  CHECK(cache.Find(a.context()->problem.problem_id) == nullptr);
  CHECK(cache.Find(b.context()->problem.problem_id) != nullptr);
}

TEST_CASE("Putting a problem again keeps the first", "[forecaster][cache]") {
  const PlantedProblem first("a");
  const PlantedProblem second("a");
  ProblemCache cache(10, 1 << 20);
  cache.Put(first.context());
  cache.Put(second.context());
  CHECK(cache.Find(first.context()->problem.problem_id) == first.context());
}

}  // namespace
}  // namespace kernelcast::forecaster
