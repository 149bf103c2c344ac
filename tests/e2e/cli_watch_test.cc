// Tests what search, watch and report display: cost, tree, archive, and the effect of learning.

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "tests/e2e/program.h"
#include "tests/fakes/fake_orchestrator.h"

namespace kernelcast::testing {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

// A search of which each candidate is derived from the one proposed before it, with an archive.
SearchScript DerivedScript() {
  SearchScript script = MakeSearchScript(5, 1.2, 0.1);
  std::string parent;
  for (v1::SearchEvent& event : script.events) {
    if (!event.has_proposed()) continue;
    event.mutable_proposed()->set_parent_candidate_id(parent);
    parent = event.proposed().candidate_id();
  }
  v1::SearchArchive* archive = script.finished.mutable_archive();
  archive->set_strategy("islands");
  archive->set_total(70);
  v1::ArchiveEntry* entry = archive->add_entries();
  entry->set_place("island 1");
  entry->set_candidate_id("k_0123456789");
  entry->set_name("widest");
  entry->set_speedup(1.6);
  entry->set_kernels(3);
  return script;
}

std::vector<std::string> SearchArguments(const FakeOrchestrator& fake,
                                         std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"search", "row_softmax", "--orchestrator", fake.address(),
                                        "--no-report"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_CASE("A terminal shows the tree, the archive, the cost and what was learnt", "[e2e][watch]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = DerivedScript();
  fake.wait_for_stop = true;
  Program program(
      home,
      SearchArguments(fake, {"--search-id", "s", "--tree", "--archive", "--device-price", "360"}),
      {}, Program::Streams::kTerminal, 110);
  // 6 screenings of 2 s at a tenth per second.
  REQUIRE(program.AwaitOut("1.20: 1.20 devices"));
  REQUIRE(program.AwaitOut("└ fake k_00000000 1.20x"));
  REQUIRE(program.AwaitOut("island 1"));
  REQUIRE(program.AwaitOut("The first 1 of 70."));
  REQUIRE(program.AwaitOut("forecasts in the measured bin: "));
  program.Type("\x03");
  const Outcome outcome = program.Wait(20);
  CHECK(outcome.exit_code == 4);
  // Another program watches the same search. It shows only what its own flags ask for.
  fake.wait_for_stop = false;
  const Outcome watched =
      Run(home, {"watch", "s", "--orchestrator", fake.address(), "--no-report"});
  CHECK_THAT(watched.out, Contains("island 1") && !Contains("cost"));
  CHECK_THAT(watched.err, !Contains("cost"));
}

TEST_CASE("Prices come from the options or the environment", "[e2e][watch]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = DerivedScript();
  v1::SearchCounts* counts = fake.script.finished.mutable_counts();
  counts->mutable_model_use()->set_asked(2);
  counts->mutable_model_use()->mutable_token_usage()->set_cost_dollars(0.25);
  counts->mutable_unpriced_tokens()->set_input_tokens(2'000'000);
  counts->mutable_unpriced_tokens()->set_cached_input_tokens(1'000'000);
  counts->mutable_unpriced_tokens()->set_output_tokens(500'000);
  counts->mutable_device_time_avoided()->set_seconds(3600);
  const auto cost = [&](const std::map<std::string, std::string>& environment,
                        std::vector<std::string> more) {
    more.push_back("--json");
    const Outcome outcome = Run(home, SearchArguments(fake, more), environment);
    INFO(outcome.err);
    const json summary = json::parse(outcome.out);
    return summary.contains("cost") ? summary["cost"] : json();
  };
  CHECK(cost({}, {}).is_null());
  const json all = cost({{"KERNELCAST_DEVICE_PRICE", "360"},
                         {"KERNELCAST_CACHED_TOKEN_PRICE", "0.5"},
                         {"KERNELCAST_OUTPUT_TOKEN_PRICE", "4"}},
                        {"--input-token-price", "1"});
  CHECK(all["devices"].get<double>() == Approx(1.2));
  CHECK(all["tokens"].get<double>() == Approx(0.25 + 1 + 0.5 + 2));
  CHECK(all["total"].get<double>() == Approx(4.95));
  CHECK(all["avoided"].get<double>() == Approx(360));
  CHECK(all["prices"]["device_hour"] == 360);
  CHECK_FALSE(all.contains("unpriced_tokens"));
  const json devices = cost({}, {"--device-price", "360"});
  CHECK(devices["total"].get<double>() == Approx(1.45));
  CHECK(devices["unpriced_tokens"] == 2'500'000);
  const Outcome bad = Run(home, SearchArguments(fake, {"--device-price", "-1"}));
  CHECK(bad.exit_code == 2);
}

TEST_CASE("The report has the cost, the archive and what was learnt", "[e2e][watch]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = DerivedScript();
  fake.script.finished.mutable_spec()->add_lessons()->set_family("softmax");
  const std::string path = home.File("r.html");
  const Outcome started = Run(home, SearchArguments(fake, {"--search-id", "s"}));
  CHECK(started.exit_code == 0);
  const Outcome outcome = Run(
      home, {"report", "s", "--orchestrator", fake.address(), "-o", path, "--device-price", "360"});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Contains("cost 1.20: 1.20 devices\n") &&
                              Contains("Started with 1 lesson from earlier searches.") &&
                              Contains("widest k_01234567"));
  const std::string page = ReadFile(path).value();
  CHECK_THAT(page, Contains("<span>cost</span><b>1.20</b>") && Contains("id=archive") &&
                       Contains("The first 1 of 70.") && Contains("What was learnt") &&
                       Contains("Started with 1 lesson from earlier searches."));
  const json summary = json::parse(Run(home, {"report", "s", "--orchestrator", fake.address(), "-o",
                                              path, "--device-price", "360", "--json"})
                                       .out);
  CHECK(summary["usage"]["device_hours"].get<double>() == Approx(12.0 / 3600));
  CHECK(summary["cost"]["total"].get<double>() == Approx(1.2));
  CHECK(summary["cost"]["prices"] == json({{"device_hour", 360.0}}));
  CHECK(summary["search"]["archive"]["entries"][0]["name"] == "widest");
  CHECK(summary["learning"]["labels"] == 20);
  CHECK(summary["lessons"] == 1);
}

}  // namespace
}  // namespace kernelcast::testing
