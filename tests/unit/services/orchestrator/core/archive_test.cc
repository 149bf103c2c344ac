#include "services/orchestrator/core/archive.h"

#include <catch2/catch.hpp>
#include <map>

#include "services/orchestrator/core/puct.h"

namespace kernelcast::orchestrator {
namespace {

Attempt Made(const std::string& id, const std::string& parent, double speedup) {
  Attempt attempt;
  attempt.candidate.candidate_id = id;
  attempt.candidate.parent_candidate_id = parent;
  attempt.speedup = speedup;
  if (speedup <= 0) attempt.failure = FailureKind::kWrongResult;
  return attempt;
}

TEST_CASE("A search begins with the reference", "[orchestrator][archive]") {
  Archive archive("k_ref");
  CHECK(ChooseByPuct(archive, 1) == "k_ref");
  CHECK(archive.Best() == nullptr);
  CHECK(archive.Find("k_ref") == nullptr);
  CHECK(archive.Setbacks("k_ref", 4).empty());
}

TEST_CASE("Parents are the best candidates and pending requests spread over them",
          "[orchestrator][archive]") {
  Archive archive("k_ref");
  archive.Expand("k_ref");
  archive.Add(Made("k_fast", "k_ref", 4));
  archive.Expand("k_ref");
  archive.Add(Made("k_slow", "k_ref", 0.5));
  CHECK(archive.Best()->candidate.candidate_id == "k_fast");
  std::map<std::string, int> chosen;
  for (int i = 0; i < 40; ++i) {
    const std::string parent = ChooseByPuct(archive, 1);
    ++chosen[parent];
    archive.Expand(parent);
  }
  CHECK(chosen["k_fast"] > chosen["k_slow"]);
  CHECK(chosen["k_fast"] >= 15);
  // Every promising candidate is tried again eventually.
  CHECK(chosen["k_ref"] > 0);
  CHECK(chosen["k_fast"] < 40);
}

TEST_CASE("A parent is valued by its children", "[orchestrator][archive]") {
  Archive archive("k_ref");
  archive.Add(Made("k_a", "k_ref", 2));
  archive.Add(Made("k_b", "k_ref", 2));
  for (int i = 0; i < 6; ++i) {
    archive.Expand("k_a");
    archive.Expand("k_b");
  }
  archive.Add(Made("k_a1", "k_a", 0.9));
  archive.Add(Made("k_b1", "k_b", 8));
  std::map<std::string, int> chosen;
  for (int i = 0; i < 20; ++i) {
    const std::string parent = ChooseByPuct(archive, 1);
    ++chosen[parent];
    archive.Expand(parent);
  }
  CHECK(chosen["k_b1"] + chosen["k_b"] > chosen["k_a"] + chosen["k_a1"]);
  CHECK(chosen["k_a"] < chosen["k_b"]);
}

TEST_CASE("The archive is bounded and keeps the best", "[orchestrator][archive]") {
  Archive archive("k_ref");
  for (int i = 1; i <= 500; ++i) {
    archive.Add(Made("k_" + std::to_string(i), i < 4 ? "k_ref" : "k_" + std::to_string(i / 4),
                     0.5 + 0.01 * ((i * 7919) % 500)));
  }
  CHECK(archive.Best()->speedup == Approx(0.5 + 0.01 * 499));
  int kept = 0;
  for (int i = 1; i <= 500; ++i) kept += archive.Find("k_" + std::to_string(i)) != nullptr ? 1 : 0;
  CHECK(kept == static_cast<int>(ArchiveLimits().parents) - 1);

  Archive siblings("k_ref");
  for (int i = 1; i <= 20; ++i) siblings.Add(Made("k_" + std::to_string(i), "k_ref", i));
  CHECK(siblings.Find("k_12") == nullptr);
  CHECK(siblings.Find("k_13") != nullptr);
}

TEST_CASE("Failures of the same parent come first, latest first", "[orchestrator][archive]") {
  Archive archive("k_ref");
  for (int i = 1; i <= 40; ++i) {
    archive.Add(Made("k_" + std::to_string(i), i % 2 == 0 ? "k_ref" : "k_other", 0));
  }
  const std::vector<Attempt> setbacks = archive.Setbacks("k_ref", 10);
  REQUIRE(setbacks.size() == 10);
  CHECK(setbacks[0].candidate.candidate_id == "k_40");
  CHECK(setbacks[1].candidate.candidate_id == "k_38");
  CHECK(setbacks[8].candidate.candidate_id == "k_39");
  CHECK(archive.Setbacks("k_ref", 100).size() == Archive::kMaxSetbacks);
  CHECK(archive.Best() == nullptr);
}

TEST_CASE("The archive is deterministic", "[orchestrator][archive]") {
  const auto build = [] {
    Archive archive("k_ref");
    std::string digests;
    for (int i = 1; i <= 50; ++i) {
      const std::string parent = ChooseByPuct(archive, 1);
      archive.Expand(parent);
      archive.Add(Made("k_" + std::to_string(i), parent, (i * 31) % 17 * 0.2));
      digests += archive.Digest();
    }
    return digests;
  };
  CHECK(build() == build());
}

}  // namespace
}  // namespace kernelcast::orchestrator
