#include "common/domain/expected_verdicts.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/id.h"

namespace kernelcast {
namespace {

Space VerdictSpace() {
  Space space;
  space.target = "cpu";
  SpaceTemplate plain;
  plain.name = "plain";
  plain.dimensions = {{"LANES", {"4", "8"}}, {"MODE", {"fast", "exact"}}};
  SpaceTemplate other;
  other.name = "other";
  space.templates = {plain, other};
  return space;
}

constexpr const char* kGood =
    "other:\n"
    "  verdict: race\n"
    "  note: sometimes\n"
    "plain:\n"
    "  verdict: ok\n"
    "  note: mostly\n"
    "  except:\n"
    "    - {verdict: compile_error, at: {LANES: [8], MODE: [fast]}}\n"
    "    - {verdict: wrong_result, at: {MODE: [fast]}}\n";

std::string Complaint(const std::string& content) {
  const auto verdicts = ParseExpectedVerdicts("v.yaml", content, VerdictSpace());
  REQUIRE(absl::IsInvalidArgument(verdicts.status()));
  return std::string(verdicts.status().message());
}

std::string Replaced(const std::string& from, const std::string& to) {
  std::string content = kGood;
  content.replace(content.find(from), from.size(), to);
  return content;
}

TEST_CASE("Expected verdicts are read in space order", "[unit]") {
  const Space space = VerdictSpace();
  const auto verdicts = ParseExpectedVerdicts("v.yaml", kGood, space);
  INFO(verdicts.status().ToString());
  REQUIRE(verdicts.ok());
  REQUIRE(verdicts->size() == 2);
  CHECK(verdicts->at(0).verdict == ExpectedVerdict::kOk);
  CHECK(verdicts->at(0).note == "mostly");
  CHECK(verdicts->at(1).verdict == ExpectedVerdict::kRace);

  const auto at = [&](int template_index, std::vector<int> values) {
    return ExceptionAt(*verdicts, space,
                       {.template_index = template_index, .values = std::move(values)});
  };
  CHECK(at(0, {0, 1}) == nullptr);
  CHECK(at(0, {1, 1}) == nullptr);
  CHECK(at(1, {}) == nullptr);
  REQUIRE(at(0, {0, 0}) != nullptr);
  CHECK(at(0, {0, 0})->verdict == ExpectedVerdict::kWrongResult);
  // The first match counts.
  REQUIRE(at(0, {1, 0}) != nullptr);
  CHECK(at(0, {1, 0})->verdict == ExpectedVerdict::kCompileError);
}

TEST_CASE("A mistake in expected verdicts is reported with line and field", "[unit]") {
  CHECK(Complaint(Replaced("plain:", "plane:")) ==
        "v.yaml:4: plane: the space has no such template; it has plain, other");
  CHECK(Complaint("plain: {verdict: ok, note: why}\n") ==
        "v.yaml:1: other: the template has no verdict");
  CHECK(Complaint(Replaced("race", "good")) ==
        "v.yaml:2: other.verdict: 'good' is not one of ok, wrong_result, compile_error, race");
  CHECK(Complaint(Replaced("  verdict: race\n", "")) == "v.yaml:2: other: missing key 'verdict'");
  CHECK(Complaint(Replaced("  note: mostly\n", "")) ==
        "v.yaml:5: plain: missing a 'note' that says why");
  CHECK(Complaint(Replaced("LANES: [8]", "LANES: [8, 16]")) ==
        "v.yaml:8: plain.except[0].at.LANES: '16' is not one of 4, 8");
  CHECK(Complaint(Replaced("LANES: [8]", "WIDTH: [8]")) ==
        "v.yaml:8: plain.except[0].at.WIDTH: the template has no such tunable");
  CHECK(Complaint(Replaced("LANES: [8]", "LANES: 8")) ==
        "v.yaml:8: plain.except[0].at.LANES: expected a list of values");
  CHECK(Complaint(Replaced(", at: {MODE: [fast]}", "")) ==
        "v.yaml:9: plain.except[1]: missing 'at': tunables with lists of their values");
  CHECK(Complaint(Replaced("  except:\n", "  expect:\n")) ==
        "v.yaml:7: plain: unknown key 'expect'; allowed are verdict, note, except");
  CHECK(Complaint("- plain\n") == "v.yaml:1: expected a mapping of templates to their verdicts");
  CHECK_THAT(Complaint("a: [\n"), Catch::StartsWith("v.yaml:"));
}

TEST_CASE("Optional expected verdicts are read from the problem's folder", "[unit]") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / RandomId("kernelcast-verdicts-");
  std::filesystem::create_directories(folder / "space");
  const auto none = ReadExpectedVerdicts(folder.string(), VerdictSpace());
  REQUIRE(none.ok());
  CHECK_FALSE(none->has_value());
  std::ofstream(folder / "space/expected_verdicts_cpu.yaml") << kGood;
  const auto some = ReadExpectedVerdicts(folder.string(), VerdictSpace());
  REQUIRE(some.ok());
  CHECK(some->has_value());
  std::ofstream(folder / "space/expected_verdicts_cpu.yaml") << "plain: 3\n";
  CHECK_THAT(std::string(ReadExpectedVerdicts(folder.string(), VerdictSpace()).status().message()),
             Catch::StartsWith("space/expected_verdicts_cpu.yaml:1: "));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kernelcast
