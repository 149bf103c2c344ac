#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "tests/e2e/program.h"
#include "tests/fakes/fake_orchestrator.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> Search(const FakeOrchestrator& fake, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"search", "row_softmax", "--orchestrator", fake.address()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_CASE("A search is started as asked, followed to its end and reported", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(8, 0.8, 0.2);
  const Outcome outcome = Run(
      home, Search(fake, {"--budget-measurements", "8", "--budget-candidates", "100",
                          "--budget-seconds", "90", "--budget-device-seconds", "30.5", "--seed",
                          "7", "--in-flight", "3", "--policy", "threshold", "--policy-parameter",
                          "margin=0.05", "--report", home.File("r.html")}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("2.20x"));
  CHECK_THAT(outcome.out, Catch::Contains("confirmed at the final level"));
  CHECK_THAT(outcome.out, Catch::Contains("2% [0%, 11%] would have won, by the 1 that was"));
  CHECK_THAT(outcome.err, Catch::Contains("report: " + home.File("r.html")));
  CHECK_THAT(ReadFile(home.File("r.html")).value(), Catch::Contains("2.20×"));

  REQUIRE(fake.started().size() == 1);
  const v1::SearchSpec spec = fake.started()[0].spec();
  CHECK(spec.budget().max_measurements() == 8);
  CHECK(spec.budget().max_candidates() == 100);
  CHECK(spec.budget().max_wall_time().seconds() == 90);
  CHECK(spec.budget().max_device_time().nanos() == 500'000'000);
  CHECK(spec.seed() == 7);
  CHECK(spec.max_in_flight() == 3);
  CHECK(spec.policy() == "threshold");
  CHECK(spec.policy_parameters().at("margin") == Approx(0.05));
  CHECK(spec.generator() == v1::GENERATOR_TEMPLATE);
  CHECK_FALSE(spec.measure_everything());
  CHECK(spec.problem_id().substr(0, 2) == "p_");
}

TEST_CASE("Without a budget a fifth of the template space is measured", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(2, 1.5, 0.2);
  const Outcome outcome = Run(home, Search(fake));
  CHECK(outcome.exit_code == 0);
  CHECK(fake.started()[0].spec().budget().max_measurements() >= 20);
  CHECK_THAT(outcome.err, Catch::Contains("no budget was given"));
  CHECK(fs::exists(home.path() / "state" / "kernelcast" / "reports" /
                   (fake.started()[0].search_id() + ".html")));
}

TEST_CASE("With --json standard output is one JSON object", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(6, 0.8, 0.2);
  const Outcome outcome = Run(home, Search(fake, {"--json"}));
  CHECK(outcome.exit_code == 0);
  const json result = json::parse(outcome.out);
  CHECK(result["best"]["speedup"]["value"] == Approx(1.8));
  CHECK(result["best"]["confirmed"] == true);
  CHECK(result["counts"]["considered"] == 14);
  CHECK(result["counts"]["measured"] == 7);
  CHECK(result["counts"]["pruned"] == 6);
  CHECK(result["counts"]["rejected"] == 1);
  CHECK(result["selective_risk"]["measured"] == 1);
  CHECK(result["interrupted"] == false);
  CHECK(fs::exists(result["report"].get<std::string>()));
}

TEST_CASE("A search that finds nothing faster ends with code 1", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(3, 0.5, 0.1);
  const Outcome outcome = Run(home, Search(fake));
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.out, Catch::Contains("not faster than the reference"));
}

TEST_CASE("A lost connection is taken up after the last event seen, and nothing is told twice",
          "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(10, 0.8, 0.1);
  // The second break is between a settlement and the improvement of the same sequence number.
  fake.watch_breaks = {3, 0, 7};
  const Outcome outcome = Run(home, Search(fake));
  CHECK(outcome.exit_code == 0);
  const auto watched = fake.watched();
  REQUIRE(watched.size() == 4);
  CHECK(watched[0].from_sequence() == 0);
  CHECK(watched[1].from_sequence() == 3);
  CHECK(watched[2].from_sequence() == 3);
  CHECK(watched[3].from_sequence() > 3);
  CHECK_THAT(outcome.err, Catch::Contains("connection lost: the fake breaks off"));
  // The last line of progress has every figure once.
  CHECK_THAT(
      outcome.err,
      Catch::Contains(
          "considered 22, measured 11, pruned 10, deferred 0, audited 0, rejected 1, best 1.70x"));
  CHECK(fake.started().size() == 1);
}

TEST_CASE("A call that an orchestrator of several loses is made again with the same ids", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(2, 1.2, 0.1);
  const grpc::Status gone(grpc::StatusCode::UNAVAILABLE, "the shard has gone");
  fake.errors = {{"StartSearch", gone}, {"GetSearch", gone}, {"Export", gone}};
  fake.error_counts["StartSearch"] = 1;
  fake.error_counts["GetSearch"] = 2;
  fake.error_counts["Export"] = 1;
  const Outcome outcome = Run(home, Search(fake, {"--json"}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(json::parse(outcome.out)["counts"]["considered"] == 6);
  REQUIRE(fake.started().size() == 2);
  CHECK(fake.started()[0].search_id() == fake.started()[1].search_id());
  // Not for ever.
  fake.error_counts.clear();
  const Outcome never = Run(home, {"watch", "s_1", "--orchestrator", fake.address()});
  CHECK(never.exit_code == 3);
  CHECK_THAT(never.err, Catch::Contains("the shard has gone"));
}

TEST_CASE("Ctrl-C stops the search gracefully and still reports", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(5, 1.2, 0.1);
  fake.wait_for_stop = true;
  Program program(home, Search(fake, {"--json", "--report", home.File("r.html")}));
  REQUIRE(program.AwaitErr("best 1.60x"));
  program.Signal(SIGINT);
  const Outcome outcome = program.Wait(20);
  CHECK(outcome.exit_code == 4);
  CHECK(fake.stops() == 1);
  CHECK(json::parse(outcome.out)["interrupted"] == true);
  CHECK(fs::exists(home.File("r.html")));
}

TEST_CASE("A second Ctrl-C quits at once", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(5, 1.2, 0.1);
  // Stopping does not help: the search never ends.
  fake.script.events.pop_back();
  fake.watch_breaks = std::vector<size_t>(1000, 1000);
  fake.errors["WatchSearch"] = grpc::Status(grpc::StatusCode::UNAVAILABLE, "never");
  Program program(home, Search(fake));
  REQUIRE(program.AwaitErr("connection lost"));
  program.Signal(SIGINT);
  REQUIRE(program.AwaitErr("once more to quit"));
  const auto start = std::chrono::steady_clock::now();
  program.Signal(SIGINT);
  CHECK(program.Wait(20).exit_code == 4);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
}

TEST_CASE("On a terminal one block is redrawn and the cursor comes back", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(5, 1.2, 0.1);
  fake.wait_for_stop = true;
  Program program(home, Search(fake), {}, Program::Streams::kTerminal, 90);
  REQUIRE(program.AwaitOut("considered"));
  REQUIRE(program.AwaitOut("1.60x"));
  program.Type("\x03");  // as the terminal sends it
  const Outcome outcome = program.Wait(20);
  CHECK(outcome.exit_code == 4);
  CHECK_THAT(outcome.out, Catch::Contains("\x1b[?25l"));
  CHECK(outcome.out.rfind("\x1b[?25h") > outcome.out.rfind("\x1b[?25l"));
  CHECK_THAT(outcome.out, Catch::Contains("A\r\x1b[2K"));
}

TEST_CASE("NO_COLOR gives plain lines on a terminal too", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(5, 1.2, 0.1);
  Program program(home, Search(fake), {{"NO_COLOR", "1"}}, Program::Streams::kTerminal, 90);
  const Outcome outcome = program.Wait(20);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find('\x1b') == std::string::npos);
  CHECK_THAT(outcome.out, Catch::Contains("considered 12"));
}

TEST_CASE("Nothing that a service says drives the terminal", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(3, 1.2, 0.1);
  const std::string hostile = "\x1b]0;owned\x07\x1b[2J";
  fake.script.finished.set_end_reason(hostile);
  fake.script.finished.set_problem_name(hostile);
  for (v1::ExportRecord& record : fake.script.records) {
    record.mutable_candidate()->set_origin(hostile);
    record.mutable_evaluation()->set_text_feedback(hostile);
  }
  for (v1::SearchEvent& event : fake.script.events) {
    if (event.has_proposed()) event.mutable_proposed()->set_origin(hostile);
    if (event.has_settled() && event.settled().has_measured()) {
      event.mutable_settled()->mutable_measured()->mutable_device()->set_model(hostile);
    }
  }
  const Outcome outcome = Run(home, Search(fake));
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find('\x1b') == std::string::npos);
  CHECK(outcome.err.find('\x1b') == std::string::npos);
  fake.searches = {fake.script.finished};
  CHECK(Run(home, {"searches", "--orchestrator", fake.address()}).out.find('\x1b') ==
        std::string::npos);
}

TEST_CASE("The orchestrator's refusals keep their meaning", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(2, 1.2, 0.1);
  const Outcome unknown = Run(home, {"report", "s_none", "--orchestrator", fake.address()});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Catch::Contains("'s_none' is not known"));
  fake.errors["StartSearch"] = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "policy: no such");
  CHECK(Run(home, Search(fake)).exit_code == 2);
  fake.errors["StartSearch"] = grpc::Status(grpc::StatusCode::INTERNAL, "oops");
  CHECK(Run(home, Search(fake)).exit_code == 5);
}

TEST_CASE("Exported records give the same report and can be scored", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(12, 0.6, 0.2);
  const std::string records = home.File("records.jsonl");
  const Outcome exported = Run(home, {"export", "--all", "--sources", "--output", records,
                                      "--orchestrator", fake.address()});
  CHECK(exported.exit_code == 0);
  CHECK_THAT(exported.err, Catch::Contains("26 records"));
  const Outcome piped = Run(home, {"export", "--all", "--orchestrator", fake.address()});
  CHECK(std::count(piped.out.begin(), piped.out.end(), '\n') == 26);
  CHECK(piped.out.find("source_of") == std::string::npos);

  const Outcome report =
      Run(home, {"report", "--records", records, "-o", home.File("r.html"), "--json"});
  CHECK(report.exit_code == 0);
  CHECK(json::parse(report.out)["counts"]["measured"] == 13);
  CHECK_THAT(ReadFile(home.File("r.html")).value(), Catch::Contains("source_of"));

  const Outcome eval = Run(home, {"eval", records, "--json"});
  CHECK(eval.exit_code == 0);
  const json scores = json::parse(eval.out);
  CHECK(scores["items"] == 12);
  CHECK(scores["failures"] == 1);
  CHECK(scores["spearman"]["value"] == Approx(1));
  CHECK(scores["accuracy"]["low"].get<double>() <= scores["accuracy"]["value"].get<double>());
  CHECK_THAT(Run(home, {"eval", records}).out, Catch::Contains("calibration error (ECE)"));
}

TEST_CASE("An export goes on where a stream broke, with each record once", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator whole;
  whole.script = MakeSearchScript(12, 0.6, 0.2);
  whole.script.finished.set_search_id("s1");
  FakeOrchestrator broken;
  broken.script = whole.script;
  broken.export_breaks = {5, 0, 9};
  broken.watch_breaks = {4, 0, 11};
  for (const std::vector<std::string>& what :
       {std::vector<std::string>{"--all"}, {"s1"}, {"s1", "--format", "search-events"}}) {
    const auto exported = [&](const FakeOrchestrator& from) {
      std::vector<std::string> arguments = {"export", "--orchestrator", from.address()};
      arguments.insert(arguments.end(), what.begin(), what.end());
      const Outcome outcome = Run(home, arguments);
      INFO(outcome.err);
      CHECK(outcome.exit_code == 0);
      return outcome.out;
    };
    const std::string expected = exported(whole);
    CHECK(std::count(expected.begin(), expected.end(), '\n') >= 26);
    CHECK(exported(broken) == expected);
  }
  const std::vector<v1::ExportRequest> asked = broken.exported();
  // The breaks are used up by the first export.
  REQUIRE(asked.size() == 5);
  CHECK(asked[3].from_sequence() == 0);
  CHECK(broken.watched().size() == 4);
}

TEST_CASE("An export of everything tells searches apart whose requests have the same ids",
          "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(12, 0.6, 0.2);
  fake.export_breaks = {20};
  const std::vector<v1::ExportRecord> records = fake.script.records;
  fake.script.records.clear();
  for (const char* search : {"s1", "s2"}) {
    for (v1::ExportRecord record : records) {
      record.mutable_evaluation()->set_search_id(search);
      fake.script.records.push_back(record);
    }
  }
  const Outcome outcome = Run(home, {"export", "--all", "--orchestrator", fake.address()});
  CHECK(outcome.exit_code == 0);
  CHECK(fake.exported().size() == 2);
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') ==
        static_cast<int64_t>(2 * records.size()));
}

TEST_CASE("An export of one search asks for what comes after its last record", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(12, 0.6, 0.2);
  fake.export_breaks = {5, 0, 9};
  const Outcome outcome = Run(home, {"export", "s1", "--orchestrator", fake.address()});
  CHECK(outcome.exit_code == 0);
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 26);
  const std::vector<v1::ExportRequest> asked = fake.exported();
  REQUIRE(asked.size() == 4);
  CHECK(asked[0].from_sequence() == 0);
  CHECK(asked[1].from_sequence() == fake.script.records[4].sequence() + 1);
  CHECK(asked[2].from_sequence() == asked[1].from_sequence());
  CHECK(asked[3].from_sequence() == fake.script.records[13].sequence() + 1);
}

TEST_CASE("Damaged records are named with file and line", "[e2e]") {
  const TemporaryFolder home("cli");
  const std::string records = home.File("records.jsonl");
  std::ofstream(records) << "\n{\"sequence\": \"1\"\n";
  const Outcome eval = Run(home, {"eval", records});
  CHECK(eval.exit_code == 2);
  CHECK_THAT(eval.err, Catch::Contains("records.jsonl:2: "));
  CHECK(Run(home, {"report", "--records", records}).exit_code == 2);
  CHECK(Run(home, {"eval", home.File("none.jsonl")}).exit_code == 2);
  std::ofstream(records, std::ios::trunc) << "";
  CHECK(Run(home, {"eval", records}).exit_code == 2);
}

TEST_CASE("Searches are listed over all pages and stopped by name", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(2, 1.2, 0.1);
  for (int i = 0; i < 5; ++i) {
    v1::Search search = fake.script.finished;
    search.set_search_id("s_" + std::to_string(i));
    fake.searches.push_back(search);
  }
  const Outcome list = Run(home, {"searches", "--orchestrator", fake.address()});
  CHECK(list.exit_code == 0);
  for (int i = 0; i < 5; ++i) CHECK_THAT(list.out, Catch::Contains("s_" + std::to_string(i)));
  const Outcome stop = Run(home, {"stop", "s_3", "--orchestrator", fake.address()});
  CHECK(stop.exit_code == 0);
  CHECK_THAT(stop.out, Catch::Contains("s_3 is finishing"));
  CHECK(fake.stops() == 1);
}

TEST_CASE("An orchestrator named by the environment is used", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(2, 1.2, 0.1);
  const Outcome outcome = Run(home, {"search", "row_softmax", "--no-report"},
                              {{"KERNELCAST_ORCHESTRATOR", fake.address()}});
  CHECK(outcome.exit_code == 0);
  CHECK(fake.started().size() == 1);
}

TEST_CASE("A search's events are exported as the published kinds", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(8, 0.8, 0.2);
  fake.script.finished.set_search_id("s1");
  const auto exported = [&](const std::string& format) {
    return Run(home, {"export", "s1", "--orchestrator", fake.address(), "--format", format, "-o",
                      home.File(format)});
  };
  const Outcome events = exported("search-events");
  INFO(events.err);
  REQUIRE(events.exit_code == 0);
  std::map<std::string, int> kinds;
  std::ifstream lines(home.File("search-events"));
  int index = 0;
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    CHECK(event["event_index"] == index++);
    ++kinds[event["event_kind"]];
  }
  CHECK(kinds["search_initialized"] == 1);
  CHECK(kinds["mutation_completed"] == 18);
  CHECK(kinds["evaluation_completed"] == 8);
  CHECK(kinds["evaluation_failed"] == 2);
  CHECK(kinds["evaluations_drained"] == 1);
  CHECK(exported("prediction-rows").exit_code == 0);
  // The problem is not at hand, and so the reference is not.
  const Outcome rows = exported("evaluation-rows");
  CHECK(rows.exit_code != 0);
  CHECK_THAT(rows.err, Catch::Contains("8 rows left out: a source is neither in the records"));
  CHECK_FALSE(fs::exists(home.File("evaluation-rows")));
}

}  // namespace
}  // namespace kernelcast::testing
