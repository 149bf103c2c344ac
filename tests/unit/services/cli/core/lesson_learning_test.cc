#include "services/cli/core/lesson_learning.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace kernelcast::cli {
namespace {

MeasuredKernel Point(const std::string& name, std::vector<Tunable> tunables, double speedup,
                     double half_width = 0) {
  MeasuredKernel kernel;
  tunables.insert(tunables.begin(), Tunable{"TEMPLATE", name});
  kernel.candidate.tunables = std::move(tunables);
  kernel.speedup = {speedup, speedup / (1 + half_width), speedup * (1 + half_width), 0.95};
  return kernel;
}

SearchOutcome Outcome(std::vector<MeasuredKernel> kernels) {
  SearchOutcome outcome;
  outcome.family = "softmax";
  outcome.target = "cuda";
  outcome.device_model = "NVIDIA H200";
  outcome.kernels = std::move(kernels);
  return outcome;
}

const Lesson* Find(const std::vector<Lesson>& lessons, const std::string& aspect,
                   const std::string& from, const std::string& to) {
  const auto found = std::ranges::find_if(lessons, [&](const Lesson& lesson) {
    return lesson.aspect == aspect && lesson.from == from && lesson.to == to;
  });
  return found == lessons.end() ? nullptr : &*found;
}

CompileFacts Facts(std::string_view schema,
                   std::initializer_list<std::pair<std::string_view, double>> named) {
  const FactSchema& known = **FindFactSchema(schema);
  CompileFacts facts{std::string(schema), std::vector<double>(known.names.size(), 0)};
  for (const auto& [name, value] : named) {
    facts.values[static_cast<size_t>(std::ranges::find(known.names, name) - known.names.begin())] =
        value;
  }
  return facts;
}

TEST_CASE("Points that differ in one parameter teach the effect of that parameter") {
  const std::vector<Lesson> lessons =
      LearnLessons(Outcome({Point("rows", {{"VEC", "4"}, {"BLOCK", "128"}}, 4),
                            Point("rows", {{"VEC", "1"}, {"BLOCK", "128"}}, 2),
                            Point("rows", {{"VEC", "1"}, {"BLOCK", "1024"}}, 2),
                            Point("rows", {{"VEC", "4"}, {"BLOCK", "1024"}}, 16)}));
  REQUIRE(lessons.size() == 2);
  const Lesson* const vec = Find(lessons, "parameter VEC", "1", "4");
  REQUIRE(vec != nullptr);
  // Gains 1 and 3.
  CHECK(vec->trials == 2);
  CHECK(vec->held == 2);
  CHECK(vec->mean_log2_gain == Approx(2));
  CHECK(vec->stddev_log2_gain == Approx(std::sqrt(2.0)));
  CHECK(vec->searches == 1);
  CHECK(vec->family == "softmax");
  CHECK(vec->target == "cuda");
  CHECK(vec->device_model == "NVIDIA H200");
  // Gains 0 and 2. The smaller number comes first.
  const Lesson* const block = Find(lessons, "parameter BLOCK", "128", "1024");
  REQUIRE(block != nullptr);
  CHECK(block->held == 1);
  CHECK(block->mean_log2_gain == Approx(1));
}

TEST_CASE("Pairs are weighted by the precision of their measurements") {
  const std::vector<Lesson> lessons = LearnLessons(Outcome(
      {Point("rows", {{"VEC", "1"}, {"B", "1"}}, 1), Point("rows", {{"VEC", "4"}, {"B", "1"}}, 2),
       Point("rows", {{"VEC", "1"}, {"B", "2"}}, 1, 0.5),
       Point("rows", {{"VEC", "4"}, {"B", "2"}}, 0.5, 0.5)}));
  const Lesson* const vec = Find(lessons, "parameter VEC", "1", "4");
  REQUIRE(vec != nullptr);
  const double noise = std::log2(1.5) / 1.96;
  const double precise = 1 / 0.01, noisy = 1 / (2 * noise * noise + 0.01);
  CHECK(vec->mean_log2_gain == Approx((precise - noisy) / (precise + noisy)));
  CHECK(vec->held == 1);
}

TEST_CASE("The best points of two templates teach the effect of the template") {
  const std::vector<Lesson> lessons =
      LearnLessons(Outcome({Point("warp", {{"WARPS", "1"}}, 3), Point("warp", {{"WARPS", "2"}}, 1),
                            Point("block", {{"BLOCK", "128"}}, 12)}));
  const Lesson* const change = Find(lessons, "template", "block", "warp");
  REQUIRE(change != nullptr);
  CHECK(change->mean_log2_gain == Approx(-2));
  CHECK(change->trials == 1);
  CHECK(change->held == 1);
}

TEST_CASE("The value of a flag set is its flags") {
  MeasuredKernel plain = Point("rows", {{"FLAGS", "0"}}, 1);
  MeasuredKernel fast = Point("rows", {{"FLAGS", "1"}}, 2);
  fast.candidate.flags = {"-ffast-math", "-O2"};
  const std::vector<Lesson> lessons = LearnLessons(Outcome({plain, fast}));
  REQUIRE(lessons.size() == 1);
  CHECK(lessons.front().from == "-ffast-math -O2");
  CHECK(lessons.front().to == "none");
  CHECK(lessons.front().mean_log2_gain == Approx(-1));
}

TEST_CASE("A kernel and its parent teach the effect of the one trait that differs") {
  const auto kernel = [](const std::string& id, const std::string& parent, double speedup,
                         double flops_per_byte, double vector_bytes, double prefetches) {
    MeasuredKernel made;
    made.candidate.candidate_id = id;
    made.candidate.parent_candidate_id = parent;
    made.facts = Facts(kCpuAssemblySchemaId, {{"inner_vector_bytes", vector_bytes},
                                              {"inner_flops_per_byte", flops_per_byte},
                                              {"prefetches", prefetches}});
    made.speedup = {speedup, speedup, speedup, 0.95};
    return made;
  };
  SearchOutcome outcome =
      Outcome({kernel("a", "reference", 4, 2, 16, 0), kernel("b", "a", 2, 2, 16, 3),  // one trait
               kernel("c", "a", 8, 2, 64, 3),                                         // two
               kernel("d", "a", 8, 2, 16, 0),                                         // none
               kernel("e", "gone", 8, 2, 4, 0)});
  outcome.reference_id = "reference";
  outcome.reference_facts = kernel("", "", 1, 0.5, 4, 0).facts;
  const std::vector<Lesson> lessons = LearnLessons(outcome);
  REQUIRE(lessons.size() == 2);
  const Lesson* const vector = Find(lessons, "vector bytes", "4", "16");
  REQUIRE(vector != nullptr);
  CHECK(vector->mean_log2_gain == Approx(2));
  CHECK(vector->bottleneck == "memory");
  const Lesson* const prefetches = Find(lessons, "prefetches", "no", "yes");
  REQUIRE(prefetches != nullptr);
  CHECK(prefetches->mean_log2_gain == Approx(-1));
  CHECK(prefetches->bottleneck == "arithmetic");
}

TEST_CASE("Changes that fit in no lesson are left out") {
  CHECK(LearnLessons(Outcome({Point("rows", {{"V", "1"}}, 1e-9), Point("rows", {{"V", "2"}}, 1e9)}))
            .empty());
  CHECK(LearnLessons(Outcome({Point("rows", {{"V", "1"}}, 1)})).empty());
  CHECK(LearnLessons(Outcome({})).empty());
}

}  // namespace
}  // namespace kernelcast::cli
