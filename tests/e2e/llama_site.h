#ifndef KERNELCAST_TESTS_E2E_LLAMA_SITE_H_
#define KERNELCAST_TESTS_E2E_LLAMA_SITE_H_

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/llama_server.h"
#include "tests/support/recorded_problem.h"

namespace kernelcast::testing {

// A recorded problem on disk, and llama.cpp's server.
struct LlamaSite {
  explicit LlamaSite(const LlamaServer::Options& options = {})
      : home("llama"), recorded(MakeRecordedProblem(6, 4)), server([&] {
          auto started = LlamaServer::Start(home, options);
          INFO(started.status().ToString());
          REQUIRE(started.ok());
          return *std::move(started);
        }()) {
    problem = home.File("problems/" + recorded.problem.name);
    for (const ProblemFile& file : recorded.files) {
      const std::filesystem::path path = std::filesystem::path(problem) / file.path;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path, std::ios::binary) << file.content;
    }
    records = home.File("records.jsonl");
    WriteRecords(recorded, records);
  }

  // `count` sources, all recorded.
  std::string Candidates(size_t count) const {
    std::string path = home.File("candidates.jsonl");
    std::ofstream file(path);
    for (size_t i = 0; i < count; ++i) {
      const Candidate& candidate = recorded.candidates.at(i);
      nlohmann::ordered_json line = {{"name", "candidate " + std::to_string(i)},
                                     {"source", candidate.source},
                                     {"tunables", nlohmann::ordered_json::object()}};
      for (const Tunable& tunable : candidate.tunables) {
        line["tunables"][tunable.name] = tunable.value;
      }
      file << line.dump() << "\n";
    }
    return path;
  }

  TemporaryFolder home;
  RecordedProblem recorded;
  std::unique_ptr<LlamaServer> server;
  std::string problem;
  std::string records;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_E2E_LLAMA_SITE_H_
