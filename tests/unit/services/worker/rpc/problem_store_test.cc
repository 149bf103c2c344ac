#include "services/worker/rpc/problem_store.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::worker {
namespace {

Problem Named(const std::string& id, size_t bytes = 10) {
  Problem problem;
  problem.problem_id = id;
  problem.files = {{"problem.yaml", std::string(bytes, 'x')}};
  return problem;
}

TEST_CASE("A problem is found until more recent ones evict it") {
  ProblemStore store(2, 1 << 20);
  CHECK(store.Find("p_1") == nullptr);
  store.Put(Named("p_1"));
  store.Put(Named("p_2"));
  CHECK(store.Find("p_1") != nullptr);
  store.Put(Named("p_3"));
  CHECK(store.Find("p_2") == nullptr);
  CHECK(store.Find("p_1") != nullptr);
  CHECK(store.size() == 2);
}

TEST_CASE("Putting a problem again keeps one copy") {
  ProblemStore store(2, 1 << 20);
  store.Put(Named("p_1"));
  const auto first = store.Find("p_1");
  store.Put(Named("p_1"));
  CHECK(store.Find("p_1") == first);
  CHECK(store.size() == 1);
}

TEST_CASE("The size is bounded, but the latest problem always stays") {
  ProblemStore store(100, 1000);
  store.Put(Named("p_1", 600));
  store.Put(Named("p_2", 600));
  CHECK(store.Find("p_1") == nullptr);
  store.Put(Named("p_3", 5000));
  CHECK(store.Find("p_3") != nullptr);
  CHECK(store.size() == 1);
}

TEST_CASE("A problem in use survives its eviction") {
  ProblemStore store(1, 1 << 20);
  store.Put(Named("p_1"));
  const auto held = store.Find("p_1");
  store.Put(Named("p_2"));
  CHECK(held->problem_id == "p_1");
}

}  // namespace
}  // namespace kernelcast::worker
