#include "services/forecaster/rpc/question_file.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/id.h"

namespace kernelcast::forecaster {
namespace {

using nlohmann::json;

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / RandomId("kernelcast-questions-")) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

json Pair(const std::string& id, const std::string& candidate) {
  return {{"id", id},
          {"pair",
           {{"pack", "scan"},
            {"anchor_code", "import torch\n# anchor\n"},
            {"candidate_code", candidate},
            {"hardware", "NVIDIA L40S"},
            {"bin_scheme_id", "paper-floor/1"},
            {"problem_id", ""}}}};
}

std::vector<json> Lines(const std::string& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST_CASE("A pair of an unknown problem shows both kernels and claims no shapes") {
  const Folder folder;
  std::ofstream(folder.File("q")) << Pair("a", "__global__ void k() {}\n").dump() << "\n"
                                  << Pair("b", "import triton\n").dump() << "\n";
  const auto questions = ReadQuestions(folder.File("q"));
  REQUIRE(questions.ok());
  REQUIRE(questions->size() == 2);
  const ForecastInput& input = questions->front().input;
  CHECK(input.candidate.target == "cuda");
  CHECK(input.bin_scheme->id() == "paper-floor/1");
  CHECK(questions->back().input.candidate.kind == CandidateKind::kDeviceTriton);
  const ForecastPrompt prompt = *ForecastPrompt::Builtin("paper-tools/1");
  REQUIRE(WritePrompts(*questions, prompt, 1 << 20, folder.File("p")).ok());
  const std::vector<json> prompts = Lines(folder.File("p"));
  REQUIRE(prompts.size() == 2);
  CHECK(prompts[0]["id"] == "a");
  CHECK(prompts[0]["messages"][0]["role"] == "system");
  const std::string user = prompts[0]["messages"][1]["content"].get<std::string>();
  CHECK_THAT(user, Catch::Contains("```python\nimport torch\n# anchor\n```") &&
                       Catch::Contains("```cuda\n__global__ void k() {}\n```") &&
                       !Catch::Contains("Timed at"));
  CHECK(user == prompt.Render(input, {}, 1 << 20)->user);
  CHECK(prompts[0]["tools"].size() == 2);
  CHECK(prompts[0]["tool_choice"] == "auto");
}

TEST_CASE("A prompt that is too long is an error of its question alone") {
  const Folder folder;
  std::ofstream(folder.File("q")) << Pair("long", std::string(1 << 16, 'x')).dump() << "\n"
                                  << Pair("short", "x").dump() << "\n";
  const auto questions = ReadQuestions(folder.File("q"));
  REQUIRE(WritePrompts(*questions, *ForecastPrompt::Builtin("speedup-bins/2"), 1 << 15,
                       folder.File("p"))
              .ok());
  const std::vector<json> prompts = Lines(folder.File("p"));
  CHECK_THAT(prompts[0]["error"].get<std::string>(), Catch::Contains("the limit is 32768"));
  CHECK(prompts[1].contains("messages"));
}

TEST_CASE("A malformed question is reported with file and line") {
  const Folder folder;
  const auto error = [&](const std::string& line) {
    std::ofstream(folder.File("q")) << Pair("a", "x").dump() << "\n" << line << "\n";
    return std::string(ReadQuestions(folder.File("q")).status().message());
  };
  CHECK_THAT(error("{"), Catch::EndsWith("q:2: no JSON object"));
  CHECK_THAT(error("{}"), Catch::EndsWith("q:2: id: a string is wanted"));
  CHECK_THAT(error(R"({"id": "x"})"),
             Catch::EndsWith("q:2: neither a problem, nor a request, nor a pair"));
  json unknown = Pair("x", "y");
  unknown["pair"]["problem_id"] = "p_none";
  CHECK_THAT(error(unknown.dump()), Catch::EndsWith("q:2: problem_id: no problem p_none above"));
  CHECK_THAT(error(R"({"id": "x", "request": {"candidate": {"problem_id": "p"}}})"),
             Catch::Contains("q:2: candidate: "));
}

// Answers from a thread of its own, and counts the open questions.
class SlowBackend final : public Backend {
 public:
  ~SlowBackend() override {
    for (std::thread& thread : threads_) thread.join();
  }
  std::string_view name() const override { return "slow"; }
  void Forecast(ForecastInput input, const ForecastCall&, Done done) override {
    most_ = std::max(most_, ++open_);
    threads_.emplace_back([this, source = input.candidate.source, done = std::move(done)] {
      --open_;
      if (source == "defer") {
        done(Abstention{Abstention::Cause::kModelDeferred, "slow", "too hard"});
        return;
      }
      kernelcast::Forecast forecast;
      forecast.backend = "slow";
      forecast.predicted_bin = 3;
      done(forecast);
    });
  }
  void Observe(std::vector<ObservedLabel>) override {}
  BackendDescription Describe() const override { return {}; }
  int most() const { return most_; }

 private:
  std::vector<std::thread> threads_;
  std::atomic<int> open_ = 0;
  int most_ = 0;
};

TEST_CASE("Each question is answered once, a limited number at a time") {
  const Folder folder;
  std::ofstream file(folder.File("q"));
  for (int i = 0; i < 40; ++i) {
    file << Pair(std::to_string(i), i % 4 == 0 ? "defer" : "kernel").dump() << "\n";
  }
  file.close();
  SlowBackend backend;
  AskOptions options;
  options.max_in_flight = 3;
  REQUIRE(AskQuestions(*ReadQuestions(folder.File("q")), backend, options, Clock::Real(),
                       folder.File("a"))
              .ok());
  CHECK(backend.most() <= 3);
  std::map<std::string, json> answers;
  for (const json& line : Lines(folder.File("a"))) answers[line["id"].get<std::string>()] = line;
  REQUIRE(answers.size() == 40);
  CHECK(answers["0"]["abstention"]["reason"] == "too hard");
  CHECK(answers["1"]["forecast"]["predicted_bin"] == 3);
  CHECK_FALSE(AskQuestions({}, backend, options, Clock::Real(), "/nowhere/file").ok());
}

}  // namespace
}  // namespace kernelcast::forecaster
