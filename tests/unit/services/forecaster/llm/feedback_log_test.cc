#include "services/forecaster/llm/feedback_log.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kernelcast::forecaster {
namespace {

Label MakeLabel(const std::string& id, double speedup) {
  Label label;
  label.candidate.candidate_id = id;
  label.candidate.problem_id = "p";
  label.candidate.target = "cpu";
  label.candidate.origin = "o";
  label.truth = Ratio{speedup, speedup, speedup, 0.95};
  return label;
}

Label MakeFailure(const std::string& id) {
  Label label = MakeLabel(id, 1);
  label.truth = FailureKind::kCrash;
  return label;
}

Candidate Of(const std::string& id, const std::string& parent = "") {
  Candidate candidate;
  candidate.candidate_id = id;
  candidate.problem_id = "p";
  candidate.target = "cpu";
  candidate.parent_candidate_id = parent;
  return candidate;
}

std::vector<std::string> Shown(const FeedbackLog& log, const Candidate& candidate = Of("new"),
                               const std::string& device = std::string(kUnknownDeviceModel)) {
  std::vector<std::string> ids;
  for (const FeedbackEntry& entry : log.For(candidate, device)) ids.push_back(entry.candidate_id);
  return ids;
}

using Ids = std::vector<std::string>;

TEST_CASE("Feedback changes when the number of labels is a power of two",
          "[forecaster][feedback]") {
  FeedbackLog log;
  CHECK(Shown(log).empty());
  log.Add(MakeLabel("a", 1));
  CHECK(Shown(log) == Ids{"a"});
  log.Add(MakeLabel("b", 3));
  CHECK(Shown(log) == Ids{"b", "a"});
  log.Add(MakeLabel("c", 2));
  CHECK(Shown(log) == Ids{"b", "a"});
  log.Add(MakeFailure("d"));
  CHECK(Shown(log) == Ids{"b", "c", "a", "d"});
  for (const char* id : {"e", "f", "g"}) log.Add(MakeLabel(id, 1.5));
  CHECK(Shown(log) == Ids{"b", "c", "a", "d"});
  log.Add(MakeLabel("h", 0.5));
  // The fastest four, then the latest four others.
  CHECK(Shown(log) == Ids{"b", "c", "e", "f", "g", "h"});
}

TEST_CASE("Feedback omits the candidate's own label and other problems' labels",
          "[forecaster][feedback]") {
  FeedbackLog log;
  log.Add(MakeLabel("a", 1));
  log.Add(MakeLabel("b", 3));
  CHECK(Shown(log, Of("b")) == Ids{"a"});
  Candidate other = Of("new");
  other.problem_id = "q";
  CHECK(Shown(log, other).empty());
  other = Of("new");
  other.target = "cuda";
  CHECK(Shown(log, other).empty());
}

TEST_CASE("Labels of one device model are not feedback for another", "[forecaster][feedback]") {
  FeedbackLog log;
  Label label = MakeLabel("a", 2);
  label.device_model = "NVIDIA H200";
  log.Add(label);
  CHECK(Shown(log, Of("new"), "NVIDIA H200") == Ids{"a"});
  CHECK(Shown(log, Of("new"), "NVIDIA L40S").empty());
}

TEST_CASE("The parent is the first feedback and appears immediately", "[forecaster][feedback]") {
  FeedbackLog log;
  for (const char* id : {"a", "b", "c"}) log.Add(MakeLabel(id, 1));
  const std::vector<FeedbackEntry> entries =
      log.For(Of("new", "c"), std::string(kUnknownDeviceModel));
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].candidate_id == "c");
  CHECK(entries[0].origin == "o, what the candidate was made from");
  CHECK(Shown(log, Of("new", "a")) == Ids{"a", "b"});
  CHECK(Shown(log, Of("new", "unknown")) == Ids{"a", "b"});
}

TEST_CASE("A remeasured candidate appears once with its last result", "[forecaster][feedback]") {
  FeedbackLog log;
  log.Add(MakeLabel("a", 1));
  log.Add(MakeLabel("a", 2));
  const std::vector<FeedbackEntry> entries = log.For(Of("new"), std::string(kUnknownDeviceModel));
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].speedup->value == 2);
}

TEST_CASE("Memory is bounded", "[forecaster][feedback]") {
  FeedbackLog log;
  for (size_t i = 0; i < 2 * FeedbackLog::kMaxKnown; ++i) {
    log.Add(MakeLabel(absl::StrCat("k", i), 1 + static_cast<double>(i) * 1e-6));
  }
  CHECK(Shown(log).size() <= FeedbackLog::kFastest + FeedbackLog::kLatest);
  // The first labels are kept and the last are not.
  CHECK(Shown(log, Of("new", "k7")).front() == "k7");
  CHECK(Shown(log, Of("new", absl::StrCat("k", FeedbackLog::kMaxKnown))).front() != "k4096");
}

}  // namespace
}  // namespace kernelcast::forecaster
