#include "services/orchestrator/core/template_generator.h"

#include <catch2/catch.hpp>
#include <set>
#include <utility>

#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator {
namespace {

std::shared_ptr<const Problem> Toy() {
  return std::make_shared<const Problem>(ParseProblem(testing::SmallProblemFiles()).value());
}

TEST_CASE("Every point of a space is proposed once") {
  const uint64_t seed = GENERATE(0u, 1u, 99u);
  TemplateGenerator generator(Toy(), "cpu", seed);
  CHECK(generator.space_size() == 40);
  std::set<std::string> proposed;
  while (auto candidate = generator.Next()) {
    CHECK(proposed.insert(candidate->candidate_id).second);
    CHECK(ValidateCandidate(*candidate).ok());
    generator.Accept(candidate->candidate_id);
    generator.Reward(candidate->candidate_id, testing::ToySpeedup(*candidate));
  }
  CHECK(proposed.size() == 40);
  CHECK(generator.proposed() == 40);
}

TEST_CASE("Proposals have the kind and the launches of the target's space", "[cuda]") {
  std::vector<ProblemFile> files = testing::SmallProblemFiles();
  Problem problem = ParseProblem(std::move(files)).value();
  ProblemTarget device = problem.targets.at("cpu");
  device.kind = CandidateKind::kDeviceCuda;
  device.space->target = "cuda";
  for (SpaceTemplate& entry : device.space->templates) {
    entry.kind = CandidateKind::kDeviceCuda;
    entry.launches = {{.kernel = "k",
                       .grid = {"1"},
                       .block = {"32"},
                       .shared_memory_bytes = "",
                       .arguments = {"workspace"},
                       .cluster = {}}};
    entry.workspace_bytes = "64";
  }
  problem.targets.emplace("cuda", std::move(device));
  TemplateGenerator generator(std::make_shared<const Problem>(std::move(problem)), "cuda", 7);
  size_t proposed = 0;
  while (auto candidate = generator.Next()) {
    CHECK(candidate->target == "cuda");
    CHECK(candidate->kind == CandidateKind::kDeviceCuda);
    CHECK(candidate->launches.size() == 1);
    CHECK(candidate->workspace_bytes == "64");
    CHECK(ValidateCandidate(*candidate).ok());
    CHECK(generator.Find(candidate->candidate_id)->kind == CandidateKind::kDeviceCuda);
    generator.Accept(candidate->candidate_id);
    ++proposed;
  }
  CHECK(proposed == generator.space_size());
}

TEST_CASE("The start is one point of each template, proposed first") {
  std::set<std::string> first_templates;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    TemplateGenerator generator(Toy(), "cpu", seed);
    std::set<std::string> templates;
    for (size_t i = 0; i < generator.start_size(); ++i) {
      const Candidate candidate = *generator.Next();
      CHECK(generator.IsStart(candidate.candidate_id));
      const std::string name = candidate.tunables.front().value;
      CHECK(templates.insert(name).second);
      if (i == 0) first_templates.insert(name);
      generator.Accept(candidate.candidate_id);
    }
    CHECK_FALSE(generator.IsStart(generator.Next()->candidate_id));
  }
  CHECK_FALSE(first_templates.empty());
}

TEST_CASE("Proposals repeat until they are accepted") {
  TemplateGenerator generator(Toy(), "cpu", 3);
  CHECK(generator.Next()->candidate_id == generator.Next()->candidate_id);
}

TEST_CASE("The same seed and history give the same proposals, and another seed does not") {
  auto order = [](uint64_t seed) {
    TemplateGenerator generator(Toy(), "cpu", seed);
    std::vector<std::string> ids;
    while (auto candidate = generator.Next()) {
      ids.push_back(candidate->candidate_id);
      generator.Accept(candidate->candidate_id);
      generator.Reward(candidate->candidate_id, testing::ToySpeedup(*candidate));
    }
    return ids;
  };
  CHECK(order(5) == order(5));
  CHECK(order(5) != order(6));
}

TEST_CASE("Variation finds good points sooner than chance") {
  int proposals_to_best = 0;
  constexpr int kSeeds = 300;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    TemplateGenerator generator(Toy(), "cpu", seed);
    while (auto candidate = generator.Next()) {
      generator.Accept(candidate->candidate_id);
      const double speedup = testing::ToySpeedup(*candidate);
      generator.Reward(candidate->candidate_id, speedup);
      if (speedup > 3.19) break;
    }
    proposals_to_best += static_cast<int>(generator.proposed());
  }
  // Chance needs (40 + 1) / 2 = 20.5 on average.
  CHECK(proposals_to_best / static_cast<double>(kSeeds) < 18.5);
}

TEST_CASE("Foreign ids are ignored") {
  TemplateGenerator generator(Toy(), "cpu", 3);
  generator.Accept("k_00000000000000000000000000000000");
  generator.Reward("k_00000000000000000000000000000000", 100);
  CHECK(generator.proposed() == 0);
  CHECK_FALSE(generator.Find("k_00000000000000000000000000000000"));
  const Candidate first = *generator.Next();
  CHECK(generator.Find(first.candidate_id)->source == first.source);
}

TEST_CASE("A derived point is a variation of its parent or a mix of two, while there are any") {
  TemplateGenerator generator(Toy(), "cpu", 3);
  // Points of `blocked` have two dimensions.
  std::vector<Candidate> blocked;
  while (blocked.size() < 2) {
    const Candidate next = *generator.Random();
    generator.Accept(next.candidate_id);
    if (next.tunables.size() == 2) blocked.push_back(next);
  }
  const Candidate child = *generator.Derive(blocked[0].candidate_id, blocked[1].candidate_id);
  REQUIRE(child.tunables.size() == 2);
  int same = 0;
  for (size_t i = 0; i < 2; ++i) {
    same += child.tunables[i].value == blocked[0].tunables[i].value ||
                    child.tunables[i].value == blocked[1].tunables[i].value
                ? 1
                : 0;
  }
  CHECK(same >= 1);
  CHECK(child.candidate_id != blocked[0].candidate_id);
  // Nothing changes before the proposal is accepted.
  CHECK(generator.Derive(blocked[0].candidate_id, blocked[1].candidate_id)->candidate_id ==
        child.candidate_id);
  std::set<std::string> proposed;
  while (const auto next = generator.Derive(blocked[0].candidate_id, "")) {
    CHECK(proposed.insert(next->candidate_id).second);
    generator.Accept(next->candidate_id);
  }
  CHECK(generator.proposed() == generator.space_size());
  CHECK_FALSE(generator.Random());
}

TEST_CASE("Without a parent in the space the start set comes first") {
  TemplateGenerator generator(Toy(), "cpu", 3);
  for (size_t i = 0; i < generator.start_size(); ++i) {
    const Candidate next = *generator.Derive("the reference", "");
    CHECK(generator.IsStart(next.candidate_id));
    generator.Accept(next.candidate_id);
  }
  CHECK_FALSE(generator.IsStart(generator.Derive("the reference", "")->candidate_id));
}

}  // namespace
}  // namespace kernelcast::orchestrator
