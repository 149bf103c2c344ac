#include "services/worker/rpc/record_reader.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>

#include "common/base/id.h"
#include "tests/support/deep_json.h"

namespace kernelcast::worker {
namespace {

class File {
 public:
  explicit File(const std::string& content)
      : path_((std::filesystem::temp_directory_path() / RandomId("kernelcast-records-")).string()) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

constexpr const char* kMeasured =
    R"({"sequence":"7","evaluation":{"candidateId":"k_1","measured":{"candidateId":"k_1",)"
    R"("problemId":"p_1","target":"cpu","ok":{"speedup":{"value":1.5,"low":1.4,"high":1.6},)"
    R"("comparison":"COMPARISON_FASTER"}}},)"
    R"("candidate":{"candidateId":"k_1","problemId":"p_1","target":"cpu",)"
    R"("kind":"CANDIDATE_KIND_HOST_NATIVE"},"facts":{"schema":"cpu-asm/1","values":[1,2]}})";
constexpr const char* kRefused =
    R"({"evaluation":{"candidateId":"k_2","rejected":{"compileError":{"stage":"STAGE_COMPILER",)"
    R"("log":"bad"}}},"candidate":{"problemId":"p_1","target":"cpu"}})";
constexpr const char* kPruned =
    R"({"evaluation":{"candidateId":"k_3","forecast":{"candidateId":"k_3"}},)"
    R"("candidate":{"problemId":"p_1","target":"cpu"},"facts":{"schema":"cpu-asm/1"}})";

TEST_CASE(
    "Measured, rejected and pruned records are read, and blank lines and new fields skipped") {
  const File file(std::string(kMeasured) + "\n\n" + kRefused + "\n" + kPruned +
                  "\n{\"evaluation\":{\"candidateId\":\"k_4\"},\"candidate\":{\"target\":\"h100\"},"
                  "\"somethingNew\":1}");
  const auto records = ReadRecords(file.path());
  INFO(records.status().ToString());
  REQUIRE(records.ok());
  REQUIRE(records->size() == 4);
  const ReplayRecord& measured = (*records)[0];
  CHECK(measured.candidate_id == "k_1");
  CHECK(measured.problem_id == "p_1");
  CHECK(measured.target == "cpu");
  CHECK(measured.facts->values == std::vector<double>{1, 2});
  CHECK_FALSE(measured.reference_facts.has_value());
  CHECK(MeasuredSpeedup(std::get<Measurement>(measured.result))->value == 1.5);
  CHECK(std::get<CompileError>((*records)[1].result).log == "bad");
  CHECK(std::holds_alternative<std::monostate>((*records)[2].result));
  CHECK((*records)[3].target == "h100");
}

TEST_CASE("A malformed line is reported with its number") {
  for (const char* line : {"not json", "{\"evaluation\": 3}", "{}", "[1]"}) {
    const File file(std::string(kMeasured) + "\n" + line + "\n");
    const auto records = ReadRecords(file.path());
    INFO(line);
    REQUIRE_FALSE(records.ok());
    CHECK(absl::IsInvalidArgument(records.status()));
    CHECK(std::string(records.status().message()).find(":2: ") != std::string::npos);
  }
}

TEST_CASE("A number that is not finite is named with its line and field") {
  const std::string speedup = R"("speedup":{"value":1.5)";
  for (const char* value : {"\"NaN\"", "\"Infinity\"", "\"-Infinity\"", "1e999", "\"1e999\""}) {
    std::string line = kMeasured;
    line.replace(line.find(speedup), speedup.size(), std::string(R"("speedup":{"value":)") + value);
    const File file(std::string(kMeasured) + "\n" + line + "\n");
    const auto status = ReadRecords(file.path()).status();
    INFO(status);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find(":2: ") != std::string::npos);
    if (value[0] == '"' && value[1] != '1') {
      CHECK(std::string(status.message()).find("evaluation.measured.ok.speedup.value: ") !=
            std::string::npos);
    }
  }
  std::string facts = kMeasured;
  facts.replace(facts.find("[1,2]"), 5, R"([1,"NaN"])");
  const File file(facts);
  CHECK(std::string(ReadRecords(file.path()).status().message())
            .find(":1: facts.values[1]: nan is not a finite number") != std::string::npos);
  // A kernel's output may be anything.
  const File wrong(
      R"({"evaluation":{"candidateId":"k_1","measured":{"candidateId":"k_1","problemId":"p_1",)"
      R"("target":"cpu","wrongResult":{"cause":"CAUSE_NON_FINITE","got":"NaN",)"
      R"("expected":"Infinity"}}},"candidate":{"target":"cpu"}})");
  CHECK(ReadRecords(wrong.path()).ok());
}

TEST_CASE("Compressed records are read as they were") {
  const File file("");
  const gzFile out = gzopen(file.path().c_str(), "wb");
  const std::string content = std::string(kMeasured) + "\n" + kRefused + "\n";
  REQUIRE(gzwrite(out, content.data(), static_cast<unsigned>(content.size())) > 0);
  REQUIRE(gzclose(out) == Z_OK);
  const auto records = ReadRecords(file.path());
  INFO(records.status());
  REQUIRE(records.ok());
  CHECK(records->size() == 2);
}

TEST_CASE("Deeply nested records are refused") {
  for (const int times : {100, 10'000, 100'000}) {
    for (const char* const opening : {"[", "{\"evaluation\":", "{\"more\":[", "{\"facts\":"}) {
      const File file(testing::DeepJson(opening, times) + "\n" + std::string(kMeasured) + "\n");
      const auto status = ReadRecords(file.path()).status();
      CHECK(absl::IsInvalidArgument(status));
      CHECK(status.message().size() < 1000);
    }
  }
}

TEST_CASE("A missing file is reported") {
  CHECK(absl::IsNotFound(ReadRecords("/no/such/file.jsonl").status()));
}

}  // namespace
}  // namespace kernelcast::worker
