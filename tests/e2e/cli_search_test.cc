#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

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

TEST_CASE("A search starts as requested, is followed to its end and reported", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(8, 0.8, 0.2);
  const Outcome outcome = Run(home, Search(fake, {"--budget-measurements",
                                                  "8",
                                                  "--budget-candidates",
                                                  "100",
                                                  "--budget-seconds",
                                                  "90",
                                                  "--budget-device-seconds",
                                                  "30.5",
                                                  "--seed",
                                                  "7",
                                                  "--in-flight",
                                                  "3",
                                                  "--policy",
                                                  "threshold",
                                                  "--policy-parameter",
                                                  "margin=0.05",
                                                  "--strategy",
                                                  "beam",
                                                  "--strategy-parameter",
                                                  "width=3",
                                                  "--gate",
                                                  "drawn",
                                                  "--report",
                                                  home.File("r.html")}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("2.20x"));
  CHECK_THAT(outcome.out, Catch::Contains("confirmed at the final level"));
  CHECK_THAT(outcome.out, Catch::Contains("2% [0%, 11%] would have won, by the 1 audit."));
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
  CHECK(spec.strategy() == "beam");
  CHECK(spec.strategy_parameters().at("width") == 3);
  CHECK(spec.gate() == v1::GATE_MODE_DRAWN);
  CHECK(spec.generator() == v1::GENERATOR_TEMPLATE);
  CHECK_FALSE(spec.measure_everything());
  CHECK(spec.problem_id().substr(0, 2) == "p_");
}

TEST_CASE("Without a budget a search measures a fifth of the template space", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(2, 1.5, 0.2);
  const Outcome outcome = Run(home, Search(fake));
  CHECK(outcome.exit_code == 0);
  CHECK(fake.started()[0].spec().budget().max_measurements() >= 20);
  CHECK(fake.started()[0].spec().gate() == v1::GATE_MODE_DECLARED);
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
  CHECK(Count(result["search"]["selective_risk"], "measured") == 1);
  CHECK(result["interrupted"] == false);
  CHECK(fs::exists(result["report"].get<std::string>()));
}

TEST_CASE("A search that finds nothing faster exits with code 1", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(3, 0.5, 0.1);
  const Outcome outcome = Run(home, Search(fake));
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.out, Catch::Contains("not faster than the reference"));
}

TEST_CASE("A lost connection resumes after the last event and repeats nothing", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(10, 0.8, 0.1);
  // The middle break is between a settlement and the improvement with the same sequence number.
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
          "considered 22, measured 11, pruned 10, selected 0, deferred 0, promoted 0, audited 0, "
          "rejected 1, best 1.70x"));
  CHECK(fake.started().size() == 1);
}

TEST_CASE("A call lost by one of several orchestrators is retried with the same ids", "[e2e]") {
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
  // The error is temporary.
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
  // Stopping has no effect: the search never ends.
  fake.script.events.pop_back();
  fake.watch_breaks = std::vector<size_t>(1000, 1000);
  fake.errors["WatchSearch"] = grpc::Status(grpc::StatusCode::UNAVAILABLE, "never");
  Program program(home, Search(fake));
  REQUIRE(program.AwaitErr("connection lost"));
  program.Signal(SIGINT);
  REQUIRE(program.AwaitErr("interrupt again to quit"));
  program.Signal(SIGINT);
  CHECK(program.Wait(5).exit_code == 4);
}

TEST_CASE("On a terminal one block is redrawn and the cursor is restored", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(5, 1.2, 0.1);
  fake.wait_for_stop = true;
  Program program(home, Search(fake), {}, Program::Streams::kTerminal, 90);
  REQUIRE(program.AwaitOut("considered"));
  REQUIRE(program.AwaitOut("1.60x"));
  program.Type("\x03");  // as sent by the terminal
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

TEST_CASE("Service output cannot control the terminal", "[e2e]") {
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

TEST_CASE("The orchestrator's errors keep their meaning", "[e2e]") {
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

TEST_CASE("Exporting an unknown search is refused in every format", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(2, 1.2, 0.1);
  for (const char* format : {"records", "rl", "prediction-rows", "search-events"}) {
    INFO(format);
    const Outcome outcome = Run(home, {"export", "s_none", "--format", format, "-o",
                                       home.File("out"), "--orchestrator", fake.address()});
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, Catch::Contains("'s_none' is not known"));
    CHECK_FALSE(fs::exists(home.File("out")));
  }
}

TEST_CASE("The best kernel of a search is written with everything needed to evaluate it again",
          "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(6, 0.8, 0.2);
  fake.script.finished.set_search_id("s1");
  const auto best = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"best", "s1", "--orchestrator", fake.address()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(home, arguments);
  };
  const std::string source = fake.script.finished.confirmed_best().candidate().source();
  REQUIRE_FALSE(source.empty());
  const Outcome printed = best({});
  CHECK(printed.exit_code == 0);
  CHECK(printed.out == source);
  CHECK_THAT(printed.err, Catch::Contains("fake: 1.80x") && Catch::Contains("confirmed"));
  const Outcome written = best({"-o", home.File("fast.cc"), "--json"});
  CHECK(written.exit_code == 0);
  CHECK(ReadFile(home.File("fast.cc")).value() == source);
  CHECK(json::parse(ReadFile(home.File("fast.json")).value())["kind"] == "host_native");
  const json said = json::parse(written.out);
  CHECK(said["output"] == home.File("fast.cc"));
  CHECK(said["best"]["speedup"]["value"] == Approx(1.8));
  CHECK(best({"-o", home.File("fast.json")}).exit_code == 2);
  CHECK(best({"--device-model", "abacus"}).exit_code == 2);
  CHECK(Run(home, {"best", "s_none", "--orchestrator", fake.address()}).exit_code == 2);

  // The same candidates are submitted again.
  const Outcome evaluated = Run(home, {"evaluate", "row_softmax", "--candidates",
                                       home.File("fast.cc"), "--orchestrator", "127.0.0.1:1"});
  CHECK(evaluated.exit_code == 3);
}

TEST_CASE("A search on several device models has a best kernel for each", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(3, 1.2, 0.1);
  fake.script.finished.set_search_id("s1");
  fake.device_models = {"NVIDIA H200", "NVIDIA L40S"};
  const auto best = [&](const std::string& model) {
    return Run(home,
               {"best", "s1", "--orchestrator", fake.address(), "--json", "--device-model", model});
  };
  const Outcome any = Run(home, {"best", "s1", "--orchestrator", fake.address()});
  CHECK(any.exit_code == 2);
  CHECK_THAT(any.err, Catch::Contains("choose one; there are: NVIDIA H200, NVIDIA L40S"));
  CHECK(json::parse(best("l40s").out)["search_id"] == "s1@nvidia-l40s");
  CHECK(json::parse(best("NVIDIA H200").out)["search_id"] == "s1@nvidia-h200");
  CHECK_THAT(best("nvidia").err, Catch::Contains("'nvidia' fits several"));
  CHECK_THAT(best("A100").err, Catch::Contains("did not run on 'A100'"));
}

TEST_CASE("A search on several device models is followed and reported for each", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(4, 1.2, 0.1);
  fake.device_models = {"NVIDIA H200", "NVIDIA L40S"};
  const Outcome outcome = Run(home, Search(fake, {"--search-id", "s1", "--json", "--device-model",
                                                  "h200", "--device-model", "l40s"}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  const v1::SearchSpec spec = fake.started()[0].spec();
  CHECK(std::vector<std::string>(spec.device_models().begin(), spec.device_models().end()) ==
        std::vector<std::string>{"h200", "l40s"});
  std::istringstream lines(outcome.out);
  std::vector<std::string> ids;
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    ids.push_back(one["search_id"]);
    CHECK(fs::exists(one["report"].get<std::string>()));
  }
  CHECK(ids == std::vector<std::string>{"s1@nvidia-h200", "s1@nvidia-l40s"});
  CHECK_THAT(outcome.err, Catch::Contains("s1@nvidia-l40s of row_softmax on cpu (NVIDIA L40S)"));
}

TEST_CASE("One id refers to the searches on all device models", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(4, 1.2, 0.1);
  fake.script.finished.set_search_id("s1");
  fake.device_models = {"NVIDIA H200", "NVIDIA L40S"};
  const std::vector<std::string> both = {"s1@nvidia-h200", "s1@nvidia-l40s"};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--orchestrator", fake.address()});
    const Outcome outcome = Run(home, arguments);
    INFO(outcome.err);
    return outcome;
  };
  const auto ids = [](const std::string& out) {
    std::istringstream lines(out);
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      const json one = json::parse(line);
      found.push_back(one[one.contains("searchId") ? "searchId" : "search_id"]);
      if (one.contains("report")) CHECK(fs::exists(one["report"].get<std::string>()));
    }
    return found;
  };
  for (const char* command : {"report", "watch", "stop"}) {
    INFO(command);
    const Outcome outcome = run({command, "s1", "--json"});
    CHECK(outcome.exit_code == 0);
    CHECK(ids(outcome.out) == both);
  }
  const std::vector<v1::WatchSearchRequest> watched = fake.watched();
  REQUIRE(watched.size() == 2);
  CHECK(watched[1].search_id() == both[1]);
  CHECK_THAT(run({"stop", "s1"}).out, Catch::Contains("s1@nvidia-h200 is finishing\n") &&
                                          Catch::Contains("s1@nvidia-l40s is finishing\n"));
  // Commands that accept one search list the candidates for it.
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"report", "s1", "-o", home.File("one.html")},
        std::vector<std::string>{"watch", "s1", "--report", home.File("one.html")},
        std::vector<std::string>{"export", "s1", "--format", "search-events"}}) {
    INFO(arguments[0]);
    const Outcome outcome = run(arguments);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, Catch::Contains("name one of s1@nvidia-h200, s1@nvidia-l40s"));
  }
  CHECK_FALSE(fs::exists(home.File("one.html")));
  CHECK(ids(run({"stop", "s1@nvidia-l40s", "--json"}).out) == std::vector<std::string>{both[1]});
}

TEST_CASE("A search that generated no kernel reports what happened to its requests", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(0, 1, 0.1);
  fake.script.records.clear();
  fake.script.finished.set_search_id("s1");
  fake.script.finished.set_end_reason("budget: generator_requests");
  fake.script.finished.clear_counts();
  fake.script.finished.clear_selective_risk();
  fake.script.finished.mutable_spec()->set_generator(v1::GENERATOR_LLM);
  v1::GenerationCounts& generation = *fake.script.finished.mutable_counts()->mutable_generation();
  generation.set_requested(6);
  generation.set_unusable(3);
  generation.set_duplicates(1);
  generation.set_unanswered(2);
  const Outcome outcome =
      Run(home, {"report", "s1", "--orchestrator", fake.address(), "-o", home.File("r.html")});
  CHECK(outcome.exit_code == 0);
  const std::string text =
      "Asked a model for 6 kernels: 0 written, 1 repeated, 3 unusable, 2 unanswered";
  CHECK_THAT(outcome.out, Catch::Contains(text));
  const std::string page = ReadFile(home.File("r.html")).value();
  CHECK_THAT(page, Catch::Contains(text));
  CHECK_THAT(page, Catch::Contains("The search ended without a candidate"));
  CHECK_THAT(page, !Catch::Contains("Nothing has been settled yet"));
}

TEST_CASE("The report shows how models contributed to a search's forecasts", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(3, 1.2, 0.1);
  fake.script.finished.set_search_id("s1");
  v1::ModelUse& use = *fake.script.finished.mutable_counts()->mutable_model_use();
  use.set_asked(9);
  use.set_declined(2);
  use.set_unanswered(3);
  use.set_last_error("connection refused");
  use.mutable_token_usage()->set_input_tokens(1234);
  v1::UnreadableAnswers& unreadable = *use.add_unreadable();
  unreadable.set_fault("no_json");
  unreadable.set_count(4);
  unreadable.set_example("I think\nit is fast");
  v1::UnreadableAnswers& cut_off = *use.add_unreadable();
  cut_off.set_fault("cut_off");
  cut_off.set_count(1);
  use.set_late(5);
  use.set_not_worth_it(6);
  (*use.mutable_repairs())["trailing_comma"] = 2;
  const Outcome outcome = Run(home, {"report", "s1", "--orchestrator", fake.address(), "-o",
                                     home.File("r.html"), "--json"});
  CHECK(outcome.exit_code == 0);
  const json said = json::parse(outcome.out)["search"]["counts"]["model_use"];
  CHECK(Count(said["unreadable"][0], "count") == 4);
  const std::string text =
      Run(home, {"report", "s1", "--orchestrator", fake.address(), "-o", home.File("r.html")}).out;
  for (const std::string& where : {text, ReadFile(home.File("r.html")).value()}) {
    CHECK_THAT(where, Catch::Contains("9 forecasts: 0 used, 2 declined, 5 unreadable (4 no_json, 1 "
                                      "cut_off), 3 unanswered, 5 late; 1,234 tokens.") &&
                          Catch::Contains("Not asked for 6 more: its answers gain less than they "
                                          "cost.") &&
                          Catch::Contains("Answers mended: 2 trailing_comma.") &&
                          Catch::Contains("Raise --llm-max-tokens: answers were cut off.") &&
                          Catch::Contains("No forecast uses an answer of a model.") &&
                          Catch::Contains("it is fast") && Catch::Contains("connection refused"));
  }
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

  // Records with impossible measurements are omitted and change no score.
  std::string impossible;
  std::istringstream lines(ReadFile(records).value());
  for (std::string line; std::getline(lines, line);) {
    json record = json::parse(line);
    if (!record["evaluation"].contains("measured")) continue;
    json& measured = record["evaluation"]["measured"];
    if (!measured.contains("ok")) continue;
    for (const char* const value : {"NaN", "Infinity", "-Infinity"}) {
      measured["ok"]["speedup"]["value"] = value;
      impossible += record.dump() + "\n";
    }
    break;
  }
  // A forecast of theirs counts as little.
  std::istringstream again(ReadFile(records).value());
  for (std::string line; std::getline(again, line);) {
    json record = json::parse(line);
    if (!record["evaluation"].contains("forecast")) continue;
    record["evaluation"]["forecast"]["expected_log2_speedup"] = "NaN";
    impossible += record.dump() + "\n";
    break;
  }
  REQUIRE(std::count(impossible.begin(), impossible.end(), '\n') == 4);
  std::ofstream(records, std::ios::app) << impossible;
  const Outcome cleaned = Run(home, {"eval", records, "--json"});
  CHECK(cleaned.exit_code == 0);
  CHECK(json::parse(cleaned.out)["items"] == 12);
  CHECK_THAT(cleaned.err, Catch::Contains("4 records left out: the figures are impossible") &&
                              Catch::Contains("ok.speedup"));
  // A report draws what it is given, and refuses them.
  const Outcome refused = Run(home, {"report", "--records", records, "-o", home.File("r.html")});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Catch::Contains(records + ":27: evaluation.measured.ok.speedup.value: "
                                                    "nan is not a finite number"));
}

TEST_CASE("An export resumes after a broken stream and has each record once", "[e2e]") {
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
  // The first export uses up the breaks.
  REQUIRE(asked.size() == 5);
  CHECK(asked[3].from_sequence() == 0);
  CHECK(broken.watched().size() == 4);
}

TEST_CASE("A full export distinguishes searches whose requests have the same ids", "[e2e]") {
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

TEST_CASE("Exporting one search requests only what follows its last record", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(12, 0.6, 0.2);
  fake.script.finished.set_search_id("s1");
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

TEST_CASE("Damaged records are reported with file and line", "[e2e]") {
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

TEST_CASE("Searches are listed across all pages and stopped by name", "[e2e]") {
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

TEST_CASE("A failed write of an orchestrator's answers is exit code 3", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(3, 1.2, 0.1);
  fake.script.finished.set_search_id("s1");
  fake.searches = {fake.script.finished};
  fs::create_directories(home.path() / "candidates");
  std::ofstream(home.File("candidates/a.cc")) << "int a;\n";
  fake.on_evaluate = [&](const v1::EvaluateRequest& request) {
    v1::EvaluateReply reply;
    reply.set_request_id(request.request_id());
    *reply.mutable_evaluation() = fake.script.records[0].evaluation();
    reply.mutable_evaluation()->set_request_id(request.request_id());
    return reply;
  };
  const std::vector<std::string> commands[] = {
      {"searches"},
      {"searches", "--json"},
      {"searches", "--ids"},
      {"search", "row_softmax", "--search-id", "s1", "--no-report"},
      {"search", "row_softmax", "--search-id", "s1", "--json"},
      {"search", "row_softmax", "--search-id", "s1", "--report", "-"},
      {"watch", "s1", "--json"},
      {"evaluate", "row_softmax", "--candidates", home.File("candidates"), "--json"},
      {"evaluate", "row_softmax", "--candidates", home.File("candidates")},
      {"best", "s1"},
      {"best", "s1", "--json"},
      {"report", "s1"},
      {"report", "s1", "-o", "-"},
      {"export", "s1"},
      {"export", "s1", "--format", "search-events"},
      {"stop", "s1"}};
  for (std::vector<std::string> arguments : commands) {
    INFO(arguments.front() << " " << arguments.back());
    arguments.insert(arguments.end(), {"--orchestrator", fake.address()});
    const Outcome outcome = Program(home, arguments, {}, Program::Streams::kFullOutput).Wait();
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err,
               Catch::Contains("cannot write to standard output: No space left on device"));
  }
  // The same for a file.
  const fs::path full = home.path() / "full";
  fs::create_symlink("/dev/full", full);
  const std::vector<std::string> writing[] = {
      {"search", "row_softmax", "--search-id", "s1", "--report", full},
      {"watch", "s1", "--report", full},
      {"best", "s1", "-o", full},
      {"report", "s1", "-o", full},
      {"export", "s1", "-o", full}};
  for (std::vector<std::string> arguments : writing) {
    INFO(arguments.front());
    arguments.insert(arguments.end(), {"--orchestrator", fake.address()});
    const Outcome outcome = Run(home, arguments);
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err,
               Catch::Contains("cannot write " + full.string() + ": No space left on device"));
    CHECK(fs::is_symlink(full));
  }
  // Nor is a description written next to a device.
  CHECK_FALSE(fs::exists(home.path() / "full.json"));
}

TEST_CASE("Commands accept the beginning of an id, and latest", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(4, 1.2, 0.1);
  fake.script.finished.set_search_id("s_abc");
  for (const auto& [id, seconds] : {std::pair("s_abc", 20), std::pair("s_abd", 10)}) {
    v1::Search search = fake.script.finished;
    search.set_search_id(id);
    search.mutable_started_at()->set_seconds(seconds);
    fake.searches.push_back(search);
  }
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--orchestrator", fake.address()});
    return Run(home, arguments);
  };
  CHECK(run({"searches", "--ids"}).out == "s_abc\ns_abd\n");
  for (const char* given : {"latest", "s_abc"}) {
    INFO(given);
    CHECK(json::parse(run({"best", given, "--json"}).out)["search_id"] == "s_abc");
    CHECK(json::parse(run({"watch", given, "--no-report", "--json"}).out)["search_id"] == "s_abc");
    CHECK(
        json::parse(run({"report", given, "-o", home.File("r.html"), "--json"}).out)["search_id"] ==
        "s_abc");
    CHECK_THAT(run({"stop", given}).out, Catch::Contains("s_abc is finishing"));
    REQUIRE(run({"export", given, "-o", home.File("records.jsonl")}).exit_code == 0);
    CHECK(fake.exported().back().search_id() == "s_abc");
  }
  // The fake knows s_abc only, so other ids are looked for in the list.
  CHECK_THAT(run({"stop", "s_abd"}).out, Catch::Contains("s_abd is finishing"));
  const Outcome several = run({"best", "s_ab"});
  CHECK(several.exit_code == 2);
  CHECK_THAT(several.err, Catch::Contains("'s_ab' is the beginning of 2 ids: s_abc, s_abd"));
  const Outcome none = run({"best", "s_x"});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Catch::Contains("'s_x' is not known"));
  // In a file of records too.
  CHECK(Run(home, {"report", "latest", "--records", home.File("records.jsonl"), "-o",
                   home.File("r.html")})
            .exit_code == 0);
}

TEST_CASE("The orchestrator address is read from the environment", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(2, 1.2, 0.1);
  const Outcome outcome = Run(home, {"search", "row_softmax", "--no-report"},
                              {{"KERNELCAST_ORCHESTRATOR", fake.address()}});
  CHECK(outcome.exit_code == 0);
  CHECK(fake.started().size() == 1);
}

TEST_CASE("A search's events are exported as the published record kinds", "[e2e]") {
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
  // The problem is missing, and so is the reference.
  const Outcome rows = exported("evaluation-rows");
  CHECK(rows.exit_code != 0);
  CHECK_THAT(rows.err, Catch::Contains("8 rows left out: a source is neither in the records"));
  CHECK_FALSE(fs::exists(home.File("evaluation-rows")));
}

}  // namespace
}  // namespace kernelcast::testing
