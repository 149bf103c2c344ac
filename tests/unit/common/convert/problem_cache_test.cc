#include "common/convert/problem_cache.h"

#include <catch2/catch.hpp>
#include <memory>

#include "absl/status/status.h"

namespace kernelcast::problem_cache_test {
namespace {

v1::Problem Task(const std::string& source) {
  v1::Problem problem;
  v1::SourceFile& file = *problem.add_files();
  file.set_path("task.py");
  file.set_content(source);
  return problem;
}

constexpr char kTask[] = R"(import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand(16, 16)]

def get_init_inputs():
    return []
)";

TEST_CASE("A problem is parsed once, with or without its id") {
  ProblemCache cache;
  v1::Problem task = Task(kTask);
  const auto first = cache.Put(task);
  REQUIRE(first.ok());
  task.set_problem_id((*first)->problem_id);
  const auto again = cache.Put(task);
  REQUIRE(again.ok());
  CHECK(*again == *first);
  CHECK(cache.Find((*first)->problem_id) == *first);
  const auto other = cache.Put(Task(std::string(kTask) + "# another one\n"));
  REQUIRE(other.ok());
  CHECK((*other)->problem_id != (*first)->problem_id);
}

TEST_CASE("A problem under the id of another is refused, known or not") {
  ProblemCache cache;
  v1::Problem task = Task(kTask);
  const auto known = cache.Put(task);
  REQUIRE(known.ok());
  v1::Problem other = Task(std::string(kTask) + "# another one\n");
  other.set_problem_id((*known)->problem_id);
  CHECK(absl::IsInvalidArgument(cache.Put(other).status()));
  CHECK(cache.Find("p_0") == nullptr);
  CHECK(absl::IsInvalidArgument(cache.Put(Task("")).status()));
}

}  // namespace
}  // namespace kernelcast::problem_cache_test
