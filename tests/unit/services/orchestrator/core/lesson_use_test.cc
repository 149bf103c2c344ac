#include "services/orchestrator/core/lesson_use.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/orchestrator/core/state.h"
#include "services/orchestrator/core/template_generator.h"
#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator {
namespace {

constexpr char kDevice[] = "Fake CPU";

Lesson Known(std::string aspect, std::string from, std::string to, double mean,
             uint32_t trials = 50) {
  Lesson lesson;
  lesson.family = "toy";
  lesson.target = "cpu";
  lesson.device_model = kDevice;
  lesson.aspect = std::move(aspect);
  lesson.from = std::move(from);
  lesson.to = std::move(to);
  lesson.trials = trials;
  lesson.held = trials;
  lesson.mean_log2_gain = mean;
  lesson.stddev_log2_gain = 0.1;
  lesson.searches = 10;
  return lesson;
}

std::shared_ptr<const Problem> ToyProblem() {
  return std::make_shared<const Problem>(ParseProblem(testing::SmallProblemFiles()).value());
}

const Space& SpaceOf(const Problem& problem) { return *problem.targets.at("cpu").space; }

TEST_CASE("The merit of a point is the sum of the gains of its values") {
  const auto problem = ToyProblem();
  // 0: blocked, with BLOCK 1, 2, 4, 8, 16, 32 and UNROLL 1, 2, 4, 8, 16.
  const Lesson block = Known("parameter BLOCK", "1", "32", 1.2);
  const Lesson unroll = Known("parameter UNROLL", "1", "4", -0.5);
  const double gain_block = EstimateOf(block, kDevice).Expected();
  const double loss_unroll = -EstimateOf(unroll, kDevice).Expected();
  const std::vector<Lesson> lessons = {block, unroll};
  const PointMerits merits(SpaceOf(*problem), lessons, kDevice);
  REQUIRE_FALSE(merits.empty());
  // 32 gains a sixth relative to the other values, and 1 loses as much.
  CHECK(merits.Of({0, {5, 0}}) == Approx(0));
  CHECK(merits.Of({0, {3, 0}}) == Approx(-gain_block / 6));
  CHECK(merits.Of({0, {0, 0}}) == Approx(-gain_block / 3));
  CHECK(merits.Of({0, {0, 2}}) == Approx(-gain_block / 3 - 2 * loss_unroll / 5));
  CHECK(merits.Of({1, {4}}) == 0);
}

TEST_CASE("A lesson counts in both directions, and lessons about one change are combined") {
  const auto problem = ToyProblem();
  const std::vector<Lesson> forward = {Known("template", "blocked", "plain", 0.8)};
  const std::vector<Lesson> backward = {Known("template", "plain", "blocked", -0.8)};
  const PointMerits a(SpaceOf(*problem), forward, kDevice);
  const PointMerits b(SpaceOf(*problem), backward, kDevice);
  CHECK(a.Of({1, {0}}) > 0.3);
  CHECK(a.Of({0, {0, 0}}) == Approx(-a.Of({1, {0}})));
  CHECK(b.Of({1, {0}}) == Approx(a.Of({1, {0}})));
  Lesson contrary = backward.front();
  contrary.bottleneck = "memory";
  contrary.mean_log2_gain = 0.8;
  const std::vector<Lesson> cancelled = {forward.front(), contrary};
  CHECK(PointMerits(SpaceOf(*problem), cancelled, kDevice).empty());
  const std::vector<Lesson> outvoted = {forward.front(), backward.front(), contrary};
  const double less = PointMerits(SpaceOf(*problem), outvoted, kDevice).Of({1, {0}});
  CHECK(less > 0);
  CHECK(less < a.Of({1, {0}}));
}

TEST_CASE("Lessons that do not hold, of other targets or of unknown values give no merits") {
  const auto problem = ToyProblem();
  Lesson target = Known("parameter BLOCK", "1", "32", 1);
  target.target = "cuda";
  Lesson weak = Known("parameter BLOCK", "1", "32", 1);
  weak.held = 20;
  const std::vector<Lesson> lessons = {target, weak, Known("parameter BLOCK", "3", "5", 1),
                                       Known("parameter OTHER", "1", "32", 1),
                                       Known("vector bytes", "4", "16", 1)};
  CHECK(PointMerits(SpaceOf(*problem), lessons, kDevice).empty());
  CHECK(PointMerits(SpaceOf(*problem), {}, kDevice).empty());
}

TEST_CASE("A search with lessons starts with the points of largest merit") {
  const auto problem = ToyProblem();
  std::vector<Lesson> lessons = {Known("template", "blocked", "plain", 0.5)};
  for (const char* value : {"1", "2", "3", "4", "5", "6", "8", "9", "10"}) {
    lessons.push_back(Known("parameter WIDTH", value, "7", 0.4));
  }
  const PointMerits merits(SpaceOf(*problem), lessons, kDevice);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    TemplateGenerator generator(problem, "cpu", seed);
    generator.Prefer(merits);
    const Candidate first = *generator.Next();
    CHECK(first.tunables == std::vector<Tunable>{{"TEMPLATE", "plain"}, {"WIDTH", "7"}});
    CHECK(generator.IsStart(first.candidate_id));
    generator.Accept(first.candidate_id);
    CHECK(generator.Next()->tunables.front().value == "blocked");
  }
}

// Mean number of proposals until a point with BLOCK 8 and UNROLL 4 or 8, by the default's rules or
// by derivation from the best.
double ProposalsUntilGood(const PointMerits& merits, bool derive) {
  constexpr int kSeeds = 100;
  size_t proposals = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    TemplateGenerator generator(ToyProblem(), "cpu", seed);
    generator.Prefer(merits);
    std::string best;
    for (double most = 0;;) {
      const Candidate next = derive ? *generator.Derive(best, best) : *generator.Next();
      generator.Accept(next.candidate_id);
      const double speedup = testing::ToySpeedup(next);
      generator.Reward(next.candidate_id, speedup);
      if (speedup > most) {
        most = speedup;
        best = next.candidate_id;
      }
      if (next.tunables[1] == Tunable{"BLOCK", "8"} && next.tunables.size() > 2 &&
          (next.tunables[2].value == "4" || next.tunables[2].value == "8")) {
        break;
      }
    }
    proposals += generator.proposed();
  }
  return static_cast<double>(proposals) / kSeeds;
}

TEST_CASE("Random points and variations prefer points with a larger merit, and miss none") {
  std::vector<Lesson> lessons;
  for (const char* value : {"1", "2", "4", "16", "32"}) {
    lessons.push_back(Known("parameter BLOCK", value, "8", 0.6));
  }
  const PointMerits merits(SpaceOf(*ToyProblem()), lessons, kDevice);
  for (const bool derive : {false, true}) {
    CHECK(ProposalsUntilGood(merits, derive) < 0.9 * ProposalsUntilGood({}, derive));
  }
  TemplateGenerator generator(ToyProblem(), "cpu", 1);
  generator.Prefer(merits);
  while (const std::optional<Candidate> next = generator.Next()) {
    generator.Accept(next->candidate_id);
  }
  CHECK(generator.proposed() == generator.space_size());
}

TEST_CASE("Without merits proposals are those of a search without lessons") {
  TemplateGenerator plain(ToyProblem(), "cpu", 5), none(ToyProblem(), "cpu", 5);
  none.Prefer({});
  while (const std::optional<Candidate> next = plain.Next()) {
    CHECK(none.Next()->candidate_id == next->candidate_id);
    plain.Accept(next->candidate_id);
    none.Accept(next->candidate_id);
  }
}

TEST_CASE("A search uses lessons for the device model that is chosen later") {
  State state;
  const std::string problem_id = ToyProblem()->problem_id;
  SearchSpec spec;
  spec.problem_id = problem_id;
  spec.target = "cpu";
  spec.budget.max_measurements = 5;
  for (const char* value : {"1", "2", "3", "4", "5", "6", "8", "9", "10"}) {
    spec.lessons.push_back(Known("parameter WIDTH", value, "7", 0.4));
  }
  REQUIRE(state.Apply(1, {0, ProblemPut{testing::SmallProblemFiles()}}).ok());
  REQUIRE(state.Apply(2, {0, SearchCreated{"s", spec, ""}}).ok());
  REQUIRE(state.Apply(3, {0, DeviceChosen{"s", "", kDevice}}).ok());
  const TemplateGenerator& generator = *state.FindSearch("s")->generator;
  const auto best = CandidateFromPoint(SpaceOf(*ToyProblem()), {1, {6}}, problem_id);
  CHECK(generator.IsStart(best.candidate_id));
}

TEST_CASE("The most useful lessons come first, one of each change") {
  Lesson other_bound = Known("vector bytes", "4", "16", 0.6);
  other_bound.bottleneck = "issue";
  Lesson weak = Known("launches", "1", "2", 2);
  weak.held = 10;
  Lesson same_change = Known("shared memory", "yes", "no", 0.3);
  Lesson other_device = Known("tensor cores", "no", "yes", 0.5);
  other_device.device_model = "Other";
  const std::vector<Lesson> lessons = {other_bound, weak, Known("shared memory", "no", "yes", -0.5),
                                       same_change, other_device};
  const auto aspects = [&](std::string_view bound, size_t count) {
    std::string text;
    for (const Lesson& lesson : MostUseful(lessons, "cpu", kDevice, bound, count)) {
      text += lesson.aspect + ";";
    }
    return text;
  };
  CHECK(aspects("issue", 8) == "vector bytes;shared memory;tensor cores;");
  CHECK(aspects("", 8) == "vector bytes;shared memory;tensor cores;");
  CHECK(aspects("dram", 8) == "shared memory;tensor cores;vector bytes;");
  CHECK(aspects("issue", 2) == "vector bytes;shared memory;");
  CHECK(MostUseful(lessons, "cuda", kDevice, "", 8).empty());
}

}  // namespace
}  // namespace kernelcast::orchestrator
