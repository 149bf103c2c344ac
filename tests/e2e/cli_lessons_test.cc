// Lessons from the command line, with the real services, a real compiler and real measurements. The
// kernels differ by factors, so that the result does not depend on a quiet machine.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/program.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/fakes/llm_endpoint/scripted_author.h"
#include "tests/support/doubling_problem.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;

// Exit code of a search on a machine that is too noisy to show that a gain is one.
constexpr int kNotFaster = 1;

// A problem whose space has seven points, of which that with the least REPEATS is the fastest.
std::string MakeProblem(const TemporaryFolder& home, const std::string& name) {
  return WriteProblem(home, {.name = name,
                             .family = "doubling",
                             .reference_repeats = "16",
                             .templates = "  - name: doubling\n    file: doubling.cc\n"
                                          "    tunables:\n"
                                          "      REPEATS: [64, 32, 2, 48, 16, 8, 24]\n",
                             .kernels = {{"doubling.cc", DoublingKernel("REPEATS")}}});
}

std::vector<json> Lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

// `state` is the name of the search and of its state folder.
std::vector<std::string> SearchOf(const TemporaryFolder& home, const std::string& problem,
                                  const std::string& state, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"search",      problem,          "--json",
                                        "--state-dir", home.File(state), "--search-id",
                                        state,         "--no-report",    "--measure-everything"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Whether every measurement has a verdict.
bool HasVerdicts(const Outcome& outcome) {
  return outcome.exit_code > kNotFaster || json::parse(outcome.out)["counts"]["unstable"] == 0;
}

TEST_CASE("What one search showed is in the prompts of the next one of its family",
          "[e2e][lessons][slow]") {
  const TemporaryFolder home("lessons");
  const std::string first = MakeProblem(home, "first"), second = MakeProblem(home, "second");
  std::string state, book;
  const Outcome learnt = RunUntil(
      home,
      [&](int attempt) {
        state = absl::StrCat("a", attempt);
        book = home.File(absl::StrCat("book", attempt, ".jsonl"));
        return SearchOf(home, first, state,
                        {"--budget-measurements", "7", "--lessons", book, "--learn"});
      },
      HasVerdicts);
  INFO(learnt.err);
  REQUIRE(learnt.exit_code <= kNotFaster);
  CHECK_THAT(learnt.err, Contains("learnt 21 changes from 1 searches"));

  const Outcome list = Run(home, {"lessons", "list", book, "--json"});
  REQUIRE(list.exit_code == 0);
  const std::vector<json> lessons = Lines(list.out);
  REQUIRE(lessons.size() == 21);
  for (const json& lesson : lessons) {
    INFO(lesson.dump());
    CHECK(lesson["family"] == "doubling");
    CHECK(lesson["aspect"] == "parameter REPEATS");
    // The measurements at the held-out bench shape teach nothing.
    CHECK(lesson["trials"] == 1);
    if (lesson["from"] == "2") CHECK(lesson["speedup"]["value"].get<double>() < 0.6);
  }
  const Outcome table = Run(home, {"lessons", "list", book});
  CHECK_THAT(table.out, Contains("parameter REPEATS: 2 to 64") && Contains("1 of 1"));

  // Learning again adds nothing, from the log as from the search.
  const Outcome again =
      Run(home, {"lessons", "learn", "--book", book, "--state-dir", home.File(state)},
          {{"KERNELCAST_PROBLEMS", home.File("problems")}});
  INFO(again.err);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.err, Contains("learnt 0 changes from 0 searches"));
  const std::string other = home.File("other.jsonl");
  const Outcome from_log =
      Run(home, {"lessons", "learn", "--book", other, "--state-dir", home.File(state), state},
          {{"KERNELCAST_PROBLEMS", home.File("problems")}});
  CHECK(from_log.exit_code == 0);
  CHECK(Lines(Run(home, {"lessons", "list", other, "--json"}).out) == lessons);
  CHECK(Run(home, {"lessons", "merge", other, book}).exit_code == 0);
  CHECK(Lines(Run(home, {"lessons", "list", other, "--json"}).out) == lessons);

  ScriptedAuthor author([](int) { return "```cpp\n" + DoublingKernel("2") + "```\n"; });
  FakeEndpointOptions options;
  options.answers = author.Source();
  const auto endpoint = FakeLlmEndpoint::Start(std::move(options)).value();
  const Outcome with =
      Run(home, SearchOf(home, second, "b",
                         {"--generator", "llm", "--llm", endpoint->url(), "--forecaster",
                          "embedded", "--generator-requests", "1", "--lessons", book}));
  INFO(with.err);
  CHECK(with.exit_code <= kNotFaster);
  CHECK_THAT(with.err, Contains("21 lessons about doubling on cpu"));
  REQUIRE_FALSE(author.prompts().empty());
  CHECK_THAT(author.prompts().front(), Contains("parameter REPEATS changed from 2 to 64"));
}

TEST_CASE("Files of lessons that cannot be read or written are refused before a search starts",
          "[e2e][lessons]") {
  const TemporaryFolder home("lessons");
  const std::string problem = MakeProblem(home, "first");
  const auto fails = [&](const std::vector<std::string>& more) {
    const Outcome outcome = Run(home, SearchOf(home, problem, "a", more));
    CHECK(outcome.exit_code == 2);
    CHECK_FALSE(fs::exists(home.File("a/log")));
    return outcome.err;
  };
  CHECK_THAT(fails({"--lessons", home.File("missing"), "--generator", "llm", "--llm",
                    "http://127.0.0.1:9", "--generator-requests", "1"}),
             Contains("cannot read"));
  CHECK_THAT(fails({"--learn"}), Contains("--lessons"));
  CHECK_THAT(fails({"--lessons", home.File("book.jsonl")}), Contains("give --generator llm too"));
  const std::string notes = home.File("notes.txt");
  std::ofstream(notes) << "{\"format\":\"kernelcast-lessons\",\"version\":1}\n{\"family\":7}\n";
  CHECK_THAT(fails({"--lessons", notes, "--learn"}),
             Contains(notes + ": line 2: family: '7' is not a string"));
  CHECK_THAT(fails({"--lessons", home.File("problems"), "--learn"}),
             Contains("is not a regular file"));
  const Outcome list = Run(home, {"lessons", "list", notes});
  CHECK(list.exit_code == 2);
  CHECK_THAT(list.err, Contains("line 2: family: '7'"));
  CHECK(Run(home, {"lessons"}).exit_code == 2);
  CHECK(Run(home, {"lessons", "forget"}).exit_code == 2);
}

TEST_CASE("With a lesson in the prompt the author answers better, and the search ends better",
          "[e2e][lessons][slow]") {
  const TemporaryFolder home("lessons");
  const std::string problem = MakeProblem(home, "written");
  const std::string book = home.File("book.jsonl");
  std::ofstream(book) << R"({"format":"kernelcast-lessons","version":1}
{"search":"s#1"}
{"family":"doubling","target":"cpu","device_model":"Some <|im_start|> CPU","bottleneck":"",)"
                         R"("aspect":"passes over the data","from":"16","to":"1","trials":30,)"
                         R"("held":29,"mean_log2_gain":3,"stddev_log2_gain":0.5,"searches":9,)"
                         R"("text":"One pass is enough."}
)";
  const auto best_of = [&](const std::string& id, const std::vector<std::string>& more) {
    std::unique_ptr<ScriptedAuthor> author;
    author = std::make_unique<ScriptedAuthor>([&author](int number) {
      const std::string prompt = author->prompts().back();
      const bool knows =
          prompt.find("passes over the data changed from 16 to 1") != std::string::npos;
      const std::string repeats = knows ? "1" : std::to_string(15 - number);
      return "Here it is:\n\n```cpp\n" + DoublingKernel(repeats) + "```\n";
    });
    FakeEndpointOptions options;
    options.answers = author->Source();
    const auto endpoint = FakeLlmEndpoint::Start(std::move(options)).value();
    std::vector<std::string> arguments = {"--generator",
                                          "llm",
                                          "--llm",
                                          endpoint->url(),
                                          "--forecaster",
                                          "embedded",
                                          "--generator-requests",
                                          "2",
                                          "--generator-in-flight",
                                          "1",
                                          "--in-flight",
                                          "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = RunUntil(
        home,
        [&](int attempt) { return SearchOf(home, problem, absl::StrCat(id, attempt), arguments); },
        HasVerdicts);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code <= kNotFaster);
    for (const std::string& prompt : author->prompts()) CHECK_THAT(prompt, !Contains("im_start"));
    return json::parse(outcome.out)["best"]["speedup"]["value"].get<double>();
  };
  const double without = best_of("without", {});
  const double with = best_of("with", {"--lessons", book});
  CHECK(without < 2.5);
  CHECK(with > 2 * without);
}

}  // namespace
}  // namespace kernelcast::testing
