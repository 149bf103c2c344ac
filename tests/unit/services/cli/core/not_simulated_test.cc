#include "services/cli/core/not_simulated.h"

#include <catch2/catch.hpp>

namespace kernelcast::cli {
namespace {

LaunchSimulation NotCovered(const std::string& kernel, const std::string& why) {
  LaunchSimulation launch;
  launch.kernel = kernel;
  launch.not_covered = why;
  return launch;
}

TEST_CASE("The first launch without an estimate says why a candidate is not simulated") {
  CompileFacts facts;
  CHECK(WhyNotSimulated(facts).empty());
  facts.simulations.resize(2);
  facts.simulations[0].launches = {NotCovered("first", "")};
  CHECK(WhyNotSimulated(facts).empty());
  facts.simulations[1].launches = {NotCovered("second", "uses\ntcgen05"), NotCovered("third", "x")};
  CHECK(WhyNotSimulated(facts) == "second: uses tcgen05");
  // A Python candidate as a whole.
  facts.simulations[1].launches = {NotCovered("the candidate", "uses torch.compile")};
  CHECK(WhyNotSimulated(facts) == "uses torch.compile");
}

TEST_CASE("Candidates with the same reason share a line") {
  NotSimulatedList list;
  list.Add("a", "");
  CHECK(list.Render(0).empty());
  list.Add("b", "uses torch.compile");
  list.Add("c", "launches nothing");
  list.Add("d", "uses torch.compile");
  CHECK(list.Render(0) ==
        "c: not simulated: launches nothing\nb, d: not simulated: uses torch.compile\n");
}

}  // namespace
}  // namespace kernelcast::cli
