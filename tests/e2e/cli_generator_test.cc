// Tests the program and the real services with a real compiler and real measurements, and an
// endpoint that generates scripted kernels.

#include <signal.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/e2e/program.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/fakes/llm_endpoint/scripted_author.h"
#include "tests/support/eventually.h"
#include "tests/support/recorded_problem.h"

namespace kernelcast::testing::cli_generator_test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;

std::string Kernel(const std::string& body) {
  return "Here is my plan: be fast.\n\n```cpp\n#include <kernelcast/candidate.h>\n"
         "extern \"C\" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* "
         "outputs,"
         " int32_t, void*) {\n"
         "  const float* x = kc_data<float>(inputs[0]);\n"
         "  float* y = kc_data<float>(outputs[0]);\n"
         "  const int64_t n = inputs[0].shape[0] * inputs[0].shape[1];\n" +
         body + "  return 0;\n}\n```\n";
}

// Processes many elements at once, so that the divisions overlap.
std::string Good(int width) {
  const std::string lanes = std::to_string(width);
  return Kernel("  int64_t i = 0;\n  for (; i + " + lanes + " <= n; i += " + lanes +
                ") {\n    float v[" + lanes + "];\n    for (int l = 0; l < " + lanes +
                "; ++l) v[l] = x[i + l];\n    for (int step = 0; step < 40; ++step) {\n"
                "      for (int l = 0; l < " +
                lanes +
                "; ++l) v[l] = 0.5f * v[l] + 0.3f / (1 + v[l] * v[l]);\n    }\n"
                "    for (int l = 0; l < " +
                lanes +
                "; ++l) y[i + l] = v[l] + x[i + l] / 16;\n  }\n"
                "  for (; i < n; ++i) {\n    float v = x[i];\n"
                "    for (int step = 0; step < 40; ++step) v = 0.5f * v + 0.3f / (1 + v * v);\n"
                "    y[i] = v + x[i] / 16;\n  }\n");
}

const char kBroken[] = "  y[0] = broken_name;\n";
const char kWrong[] = "  for (int64_t i = 0; i < n; ++i) y[i] = x[i];\n";

struct Site {
  explicit Site(std::function<std::string(int)> write, FakeEndpointOptions options = {})
      : home("generator"), author(std::move(write)) {
    options.answers = author.Source();
    endpoint = FakeLlmEndpoint::Start(std::move(options)).value();
  }

  std::vector<std::string> Search(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"search",
                                          SourcePath("tests/candidates/iterated_map"),
                                          "--json",
                                          "--state-dir",
                                          home.File("state"),
                                          "--search-id",
                                          "s",
                                          "--no-report",
                                          "--generator",
                                          "llm",
                                          "--llm",
                                          endpoint->url(),
                                          "--forecaster",
                                          "embedded",
                                          "--measure-everything"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // Records of the log in order of settlement.
  std::vector<json> Records() const {
    const std::string path = home.File("records.jsonl");
    const Outcome outcome =
        Run(home, {"export", "s", "--sources", "--state-dir", home.File("state"), "-o", path});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    std::vector<json> records;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) records.push_back(json::parse(line));
    return records;
  }

  TemporaryFolder home;
  ScriptedAuthor author;
  std::unique_ptr<FakeLlmEndpoint> endpoint;
};

// A busy machine measures slowly.
Outcome RunSearch(const Site& site, const std::vector<std::string>& more) {
  return Program(site.home, site.Search(more)).Wait(240);
}

pid_t OrchestratorOf(pid_t parent) {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    std::error_code error;
    if (fs::read_symlink(entry.path() / "exe", error).filename() != "kernelcast-orchestrator") {
      continue;
    }
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    if (!std::getline(stat, line)) continue;
    std::istringstream fields(line.substr(line.rfind(')') + 2));
    char state = 0;
    pid_t ppid = 0;
    fields >> state >> ppid;
    if (ppid == parent && state != 'Z') {
      return static_cast<pid_t>(std::stol(entry.path().filename()));
    }
  }
  return -1;
}

TEST_CASE("A model writes kernels, gets feedback on its mistakes, and succeeds",
          "[e2e][generator][slow]") {
  const Site site([](int number) {
    switch (number) {
      case 1: return std::string("It is fast enough as it is.");
      case 2: return Kernel(kBroken);
      case 3: return Kernel(kWrong);
      case 4: return Good(32);
      case 5: return "Again:\n" + Good(32);
      default: return Good(32 + 16 * (number - 5));
    }
  });
  const Outcome outcome = RunSearch(
      site, {"--generator-requests", "7", "--in-flight", "1", "--generator-in-flight", "1",
             "--device-price", "3600", "--input-token-price", "1", "--output-token-price", "2"});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  const json summary = json::parse(outcome.out);
  INFO(summary.dump(1));
  CHECK(summary["best"]["speedup"]["value"].get<double>() > 1.3);
  CHECK(summary["end_reason"] == "budget: generator_requests");
  const json generation = summary["search"]["counts"]["generation"];
  CHECK(Count(generation, "requested") == 7);
  CHECK(Count(generation, "written") == 5);
  CHECK(Count(generation, "unusable") == 1);
  CHECK(Count(generation, "duplicates") == 1);
  CHECK(Count(generation, "input_tokens") > 1000);
  // The endpoint has no prices, and the device costs 1 per second.
  const json cost = summary["cost"];
  CHECK(cost["devices"].get<double>() == Approx(summary["device_seconds_spent"].get<double>()));
  CHECK(cost["tokens"].get<double>() ==
        Approx(static_cast<double>(Count(generation, "input_tokens") +
                                   2 * Count(generation, "output_tokens")) /
               1e6));
  CHECK(cost["total"].get<double>() ==
        Approx(cost["devices"].get<double>() + cost["tokens"].get<double>()));
  // The archive at the end: the reference and the kernels that were measured to be correct.
  const json archive = summary["search"]["archive"];
  CHECK(archive["strategy"] == "selection");
  CHECK(Count(archive, "total") == archive["entries"].size());
  CHECK(archive["entries"].size() >= 3);
  CHECK(archive["entries"][0]["speedup"].get<double>() > 1.3);
  CHECK_THAT(outcome.err, Contains(", cost "));

  const std::vector<std::string> prompts = site.author.prompts();
  REQUIRE(prompts.size() == 7);
  CHECK_THAT(prompts[0], Contains("kernelcast_run(const DLTensor* inputs") &&
                             Contains("for (int step = 0; step < 40; ++step)") &&
                             Contains("- Also checked at: cols=1, rows=1;"));
  CHECK_THAT(prompts[1], Contains("- no fenced block of code"));
  CHECK_THAT(prompts[2], Contains("Does not compile") && Contains("broken_name") &&
                             Contains("was not declared"));
  CHECK_THAT(prompts[3], Contains("Wrong result in output 'y' at") && Contains("instead of") &&
                             Contains("y[i] = x[i];"));
  CHECK_THAT(prompts[4], Contains("times as fast as the reference") && Contains("float v[32];") &&
                             Contains("At cols=256, rows=16 a call takes"));
  CHECK_THAT(prompts[5], Contains("- the same kernel as an earlier one"));

  size_t rejected = 0;
  size_t measured = 0;
  for (const json& record : site.Records()) {
    CHECK(record["candidate"]["origin"] == "llm:fake");
    CHECK_FALSE(record["candidate"]["parent_candidate_id"].get<std::string>().empty());
    rejected += record["evaluation"].contains("rejected") ? 1 : 0;
    measured += record["evaluation"].contains("measured") ? 1 : 0;
  }
  CHECK(rejected == 1);
  CHECK(measured >= 4);
}

TEST_CASE("One model writes the kernels, and another one forecasts them",
          "[e2e][generator][slow]") {
  const Site site([](int number) { return Good(32 + 16 * number); });
  const auto surrogate = FakeLlmEndpoint::Start({}).value();
  const Outcome outcome =
      Program(site.home,
              {"search", SourcePath("tests/candidates/iterated_map"), "--json", "--state-dir",
               site.home.File("state"), "--search-id", "s", "--no-report", "--generator", "llm",
               "--generator-llm", site.endpoint->url(), "--generator-requests", "4", "--forecaster",
               "llm", "--llm", surrogate->url()})
          .Wait(240);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(site.author.prompts().size() == 4);
  for (const std::string& prompt : site.author.prompts()) {
    CHECK_THAT(prompt, Contains("kernelcast_run"));
  }
  CHECK(surrogate->Seen().requests > 0);
  for (const std::string& body : surrogate->Seen().bodies) {
    CHECK_THAT(body, Contains("p_failure"));
  }
}

TEST_CASE("A critic reads the profile, and the model answers with edits of its own kernel",
          "[e2e][generator][slow]") {
  const Site site([](int number) -> std::string {
    // Each kernel takes two requests: one to the critic and one to the writer.
    if (number % 2 == 1)
      return "Advice " + std::to_string(number / 2 + 1) + ": process more at once.";
    if (number == 2) return Good(16);
    const auto edit = [](const std::string& search, const std::string& replace) {
      return "<<<<<<< SEARCH\n" + search + "=======\n" + replace + ">>>>>>> REPLACE\n";
    };
    if (number == 4) {
      return "Wider:\n\n```cpp\n" +
             edit("  for (; i + 16 <= n; i += 16) {\n    float v[16];\n",
                  "  // Wider.\n  for (; i + 16 <= n; i += 16) {\n    float v[32];\n") +
             "```\n";
    }
    return edit("  there_is_no_such_line();\n", "\n");
  });
  const Outcome outcome = RunSearch(site, {"--critic", "--generator-requests", "3", "--in-flight",
                                           "1", "--generator-in-flight", "1"});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  const json summary = json::parse(outcome.out);
  INFO(summary.dump(1));
  const json generation = summary["search"]["counts"]["generation"];
  CHECK(Count(generation, "requested") == 3);
  CHECK(Count(generation, "written") == 2);
  CHECK(Count(generation, "unusable") == 1);
  CHECK(Count(generation, "advised") == 3);
  const std::vector<std::string> prompts = site.author.prompts();
  REQUIRE(prompts.size() == 6);
  CHECK_THAT(prompts[0], Contains("Name the one next step"));
  CHECK_THAT(prompts[1], Contains("A reviewer of the above proposes:\n\n```text\nAdvice 1:"));
  // The parent was measured on this machine, and made the reference faster.
  CHECK_THAT(prompts[2], Contains("# What bounds it\n\n- At ") &&
                             Contains("# What made it faster") &&
                             Contains("+  for (; i + 16 <= n; i += 16) {"));
  CHECK_THAT(prompts[3], Contains("Advice 2:") && Contains("# What bounds it\n\n- At "));
  bool edited = false;
  for (const json& record : site.Records()) {
    const std::string source = record["candidate"]["source"];
    edited = edited || source.find("// Wider.") != std::string::npos;
  }
  CHECK(edited);
}

TEST_CASE("When the endpoint dies for good the search ends with its results and the reason",
          "[e2e][generator][slow]") {
  const Site site([](int number) { return Good(16 * number); });
  Program program(site.home,
                  site.Search({"--generator-requests", "1000", "--in-flight", "1",
                               "--generator-in-flight", "1", "--generator-patience-seconds", "1"}));
  REQUIRE(program.AwaitErr("measured 1"));
  site.endpoint->Die();
  const Outcome outcome = program.Wait(240);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  const json summary = json::parse(outcome.out);
  CHECK_THAT(summary["end_reason"].get<std::string>(), Contains("the model is unavailable: "));
  CHECK(Count(summary["search"]["counts"]["generation"], "unanswered") > 0);
  CHECK(summary["best"]["speedup"]["value"].get<double>() > 1.3);
}

TEST_CASE("The search resumes when the endpoint returns", "[e2e][generator][slow]") {
  const Site site([](int number) { return Good(16 * number); });
  Program program(site.home, site.Search({"--generator-requests", "5", "--in-flight", "1",
                                          "--generator-in-flight", "1",
                                          "--generator-patience-seconds", "600"}));
  // Each is requested when the one before it is measured, so most are still to come.
  REQUIRE(Eventually([&] { return site.author.prompts().size() >= 2; }));
  const size_t before = site.author.prompts().size();
  site.endpoint->Die();
  REQUIRE(program.AwaitErr("the model is unavailable: "));
  site.endpoint->Return();
  const Outcome outcome = program.Wait(240);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, Contains("the model is available again"));
  CHECK(site.author.prompts().size() > before);
  const json summary = json::parse(outcome.out);
  CHECK(summary["end_reason"] == "budget: generator_requests");
  CHECK(Count(summary["search"]["counts"]["generation"], "unanswered") > 0);
}

TEST_CASE("An orchestrator crash loses no generated kernel", "[e2e][generator][slow]") {
  FakeEndpointOptions options;
  options.latency_us = 100'000;
  const Site site([](int number) { return Good(8 * number); }, options);
  Program program(site.home, site.Search({"--generator-requests", "7"}));
  REQUIRE(Eventually([&] { return site.author.prompts().size() >= 3; }));
  const pid_t orchestrator = OrchestratorOf(program.pid());
  REQUIRE(orchestrator > 0);
  kill(orchestrator, SIGKILL);
  const Outcome outcome = program.Wait(240);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  const json generation = json::parse(outcome.out)["search"]["counts"]["generation"];
  CHECK(Count(generation, "requested") == 7);
  CHECK(Count(generation, "written") + Count(generation, "duplicates") == 7);
  std::map<std::string, int> settled;
  for (const json& record : site.Records()) {
    CHECK(++settled[record["evaluation"]["request_id"]] == 1);
  }
}

TEST_CASE("A misbehaving model costs requests and nothing else", "[e2e][generator][slow]") {
  FakeEndpointOptions options;
  for (const Fault fault :
       {Fault::kRateLimit, Fault::kServerError, Fault::kErrorInStream, Fault::kGarbage,
        Fault::kReset, Fault::kResetInStream, Fault::kTruncatedStream, Fault::kTruncatedJson,
        Fault::kHugeAnswer, Fault::kWhitespaceLoop, Fault::kPlainJson, Fault::kNoUsage}) {
    options.faults[fault] = 0.05;
  }
  const Site site([](int number) { return Good(8 * number); }, options);
  const Outcome outcome =
      RunSearch(site, {"--generator-requests", "8", "--generator-patience-seconds", "200"});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  const json generation = json::parse(outcome.out)["search"]["counts"]["generation"];
  CHECK(Count(generation, "requested") - Count(generation, "unanswered") == 8);
  CHECK(Count(generation, "written") > 2);
}

TEST_CASE("Generating kernels without a model is a one-line error before anything starts",
          "[e2e][generator]") {
  TemporaryFolder home("generator");
  const Outcome outcome = Run(home, {"search", SourcePath("tests/candidates/iterated_map"),
                                     "--generator", "llm", "--state-dir", home.File("state")});
  CHECK(outcome.exit_code != 0);
  CHECK_THAT(outcome.err, Contains("--generator llm needs a model: give --llm URL"));
  CHECK_FALSE(fs::exists(home.File("state/log")));
  const Outcome limits =
      Run(home, {"search", SourcePath("tests/candidates/iterated_map"), "--generator-requests", "5",
                 "--state-dir", home.File("state")});
  CHECK(limits.exit_code != 0);
}

}  // namespace
}  // namespace kernelcast::testing::cli_generator_test
