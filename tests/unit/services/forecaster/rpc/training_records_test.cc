#include "services/forecaster/rpc/training_records.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/services.h"

namespace kernelcast::forecaster {
namespace {

std::string Measured(const std::string& file) {
  return testing::SourcePath("data/measured/nvidia-h200/spaces/" + file);
}
std::string Problems() { return testing::SourcePath("examples/problems"); }

TEST_CASE("Measured spaces are read with their simulations", "[forecaster][training_records]") {
  const auto measured = ReadMeasuredProblem(Measured("rmsnorm_bf16.jsonl.gz"), Problems());
  REQUIRE(measured.ok());
  CHECK(measured->name == "rmsnorm_bf16");
  CHECK(measured->target == "cuda");
  CHECK(measured->family == "normalization");
  CHECK(measured->rows.size() == 80);
  size_t correct = 0;
  for (const TrainingRow& row : measured->rows) {
    if (row.log2_speedup.has_value()) ++correct;
    CHECK_FALSE(row.features.simulation.empty());
    CHECK(row.features.template_index >= 0);
  }
  CHECK(correct == 76);
}

TEST_CASE("The same records and seed give the same prior", "[forecaster][training_records]") {
  std::vector<std::string> priors;
  for (const uint64_t seed : {1u, 1u, 2u}) {
    std::vector<MeasuredProblem> all;
    for (const char* file : {"transpose.jsonl.gz", "rmsnorm.jsonl.gz"}) {
      auto measured = ReadMeasuredProblem(Measured(file), Problems());
      REQUIRE(measured.ok());
      measured->rows.resize(30);
      all.push_back(*std::move(measured));
    }
    const auto prior = TrainPrior(all, seed);
    REQUIRE(prior.ok());
    priors.push_back(*prior);
  }
  CHECK(priors[0] == priors[1]);
  CHECK(priors[0] != priors[2]);
  const auto parsed = ParsePrior(priors[0]);
  REQUIRE(parsed.ok());
  CHECK(parsed->models.at({"cuda", "NVIDIA H200"})->problems() == 2);
  CHECK(TrainPrior({}, 1).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("The shipped prior is loadable by this program", "[forecaster][training_records]") {
  const auto prior = ReadPrior(testing::SourcePath("data/models/prior.json"));
  REQUIRE(prior.ok());
  CHECK(prior->models.at({"cuda", "NVIDIA H200"})->uses_simulations());
  CHECK_FALSE(prior->models.at({"cpu", "AMD EPYC"})->uses_simulations());
}

TEST_CASE("File errors are reported with their line", "[forecaster][training_records]") {
  const testing::TemporaryFolder folder("records");
  const std::string path = folder.File("transpose.jsonl");
  std::ofstream(path) << "{}\nnothing\n";
  const auto measured = ReadMeasuredProblem(path, Problems());
  CHECK(measured.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(measured.status().message()).find("transpose.jsonl:2: ") != std::string::npos);
  CHECK(ReadMeasuredProblems(folder.File("none"), Problems()).status().code() ==
        absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace kernelcast::forecaster
