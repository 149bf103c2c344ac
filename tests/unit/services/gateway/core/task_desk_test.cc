#include "services/gateway/core/task_desk.h"

#include <catch2/catch.hpp>
#include <thread>

#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using testing::FakeArchive;
using testing::FakeEvaluator;

Submission Wanted(const std::string& task_id, const std::string& source = "int x;\n") {
  Submission submission;
  submission.task_id = task_id;
  submission.dialect = "popcorn";
  submission.name = "small";
  submission.candidate.problem_id = "p_00000000000000000000000000000001";
  submission.candidate.target = "cpu";
  submission.candidate.source = source;
  submission.candidate.candidate_id = CandidateId(submission.candidate);
  return submission;
}

struct Desk {
  explicit Desk(TaskDeskOptions options = {})
      : desk(options, &evaluator, &archive, &clock, nullptr) {}

  FakeEvaluator evaluator;
  FakeArchive archive;
  FakeClock clock;
  TaskDesk desk;
};

TEST_CASE("A repeated submission joins the first", "[gateway][desk]") {
  Desk world;
  CHECK(world.desk.Submit(Wanted("a"))->verdict == nullptr);
  CHECK(world.desk.Submit(Wanted("a"))->verdict == nullptr);
  CHECK(world.evaluator.request_ids.size() == 1);
  CHECK(world.desk.pending() == 1);
  world.evaluator.Answer(testing::OkVerdict());
  const auto done = world.desk.Submit(Wanted("a"));
  REQUIRE(done->verdict != nullptr);
  CHECK(done->verdict->ok()->speedup.value == 2);
  CHECK(world.evaluator.request_ids.size() == 1);
  CHECK(world.desk.pending() == 0);
}

TEST_CASE("A task's id is not used again for another candidate", "[gateway][desk]") {
  Desk world;
  REQUIRE(world.desk.Submit(Wanted("a")).ok());
  CHECK(absl::IsAlreadyExists(world.desk.Submit(Wanted("a", "int y;\n")).status()));
}

TEST_CASE("The desk takes the candidate's id and does not hash its source again",
          "[gateway][desk]") {
  Desk world;
  Submission submission = Wanted("a");
  submission.candidate.candidate_id = "k_1";
  REQUIRE(world.desk.Submit(submission).ok());
  CHECK(world.desk.Submit(submission).ok());
  submission.candidate.candidate_id = "k_2";
  CHECK(absl::IsAlreadyExists(world.desk.Submit(submission).status()));
}

TEST_CASE("A task survives a restart of the gateway, with the same request id", "[gateway][desk]") {
  Desk before;
  REQUIRE(before.desk.Submit(Wanted("a")).ok());
  Desk after;
  after.archive.tasks = before.archive.tasks;
  CHECK(absl::IsNotFound(after.desk.Find("b").status()));
  CHECK(absl::IsAlreadyExists(after.desk.Submit(Wanted("a", "int y;\n")).status()));
  const auto found = after.desk.Find("a");
  REQUIRE(found.ok());
  CHECK(found->submission->candidate.source == "int x;\n");
  CHECK(found->created_ns == before.clock.WallNs());
  CHECK(after.evaluator.request_ids == before.evaluator.request_ids);
}

TEST_CASE("A task without a verdict is evaluated again under other request ids",
          "[gateway][desk]") {
  Desk world;
  REQUIRE(world.desk.Submit(Wanted("a")).ok());
  world.evaluator.Answer(testing::NoVerdict("noise"));
  CHECK(world.desk.Find("a")->verdict == nullptr);
  world.evaluator.Answer(testing::NoVerdict("noise"));
  world.evaluator.Answer(testing::NoVerdict("still noise"));
  const auto ended = world.desk.Find("a");
  REQUIRE(ended->verdict != nullptr);
  CHECK(ended->verdict->no_verdict == "still noise");
  CHECK(world.evaluator.request_ids.size() == 3);
  // The client asks again.
  CHECK(world.desk.Submit(Wanted("a"))->verdict == nullptr);
  world.evaluator.Answer(testing::OkVerdict());
  CHECK(world.desk.Find("a")->verdict->ok() != nullptr);
  const std::set<std::string> ids(world.evaluator.request_ids.begin(),
                                  world.evaluator.request_ids.end());
  CHECK(ids.size() == 4);
  CHECK(world.desk.pending() == 0);
}

TEST_CASE("Submissions above the limits are refused", "[gateway][desk]") {
  Desk by_number({.max_pending = 1});
  REQUIRE(by_number.desk.Submit(Wanted("a")).ok());
  CHECK(absl::IsResourceExhausted(by_number.desk.Submit(Wanted("b")).status()));
  CHECK(by_number.archive.tasks.size() == 1);
  CHECK(by_number.desk.Submit(Wanted("a")).ok());
  by_number.evaluator.Answer(testing::OkVerdict());
  CHECK(by_number.desk.Submit(Wanted("b")).ok());

  Desk by_bytes({.max_pending_bytes = 3000});
  REQUIRE(by_bytes.desk.Submit(Wanted("a")).ok());
  CHECK(absl::IsResourceExhausted(
      by_bytes.desk.Submit(Wanted("b", std::string(2000, ' '))).status()));
}

TEST_CASE("A finished task that is not in memory any more is asked for again", "[gateway][desk]") {
  Desk world({.max_finished = 1});
  for (const char* id : {"a", "b"}) {
    REQUIRE(world.desk.Submit(Wanted(id)).ok());
    world.evaluator.Answer(testing::OkVerdict());
  }
  CHECK(world.desk.Find("b")->verdict != nullptr);
  CHECK(world.evaluator.request_ids.size() == 2);
  CHECK(world.desk.Find("a")->verdict == nullptr);
  REQUIRE(world.evaluator.request_ids.size() == 3);
  CHECK(world.evaluator.request_ids[2] == world.evaluator.request_ids[0]);
}

TEST_CASE("Tasks that are not in memory are recalled together", "[gateway][desk]") {
  Desk before;
  REQUIRE(before.desk.Submit(Wanted("a")).ok());
  REQUIRE(before.desk.Submit(Wanted("b")).ok());
  Desk after({.recall_wait = absl::Seconds(60)});
  after.archive.tasks = before.archive.tasks;
  std::thread recall([&after] { after.desk.Recall({"a", "b", "unknown"}); });
  // Pending tasks count as soon as they are asked for.
  while (after.desk.pending() < 2) std::this_thread::yield();
  after.evaluator.Answer(testing::OkVerdict());
  after.evaluator.Answer(testing::OkVerdict());
  recall.join();
  CHECK(after.desk.Find("a")->verdict != nullptr);
  CHECK(after.desk.Find("b")->verdict != nullptr);
  CHECK(after.evaluator.request_ids.size() == 2);
}

TEST_CASE("A task is not accepted if it cannot be stored", "[gateway][desk]") {
  Desk world;
  world.archive.failure = absl::UnavailableError("disk");
  CHECK(absl::IsUnavailable(world.desk.Submit(Wanted("a")).status()));
  CHECK(world.evaluator.request_ids.empty());
}

TEST_CASE("A wait ends with the task", "[gateway][desk]") {
  Desk world;
  REQUIRE(world.desk.Submit(Wanted("a")).ok());
  std::thread answer([&world] { world.evaluator.Answer(testing::OkVerdict()); });
  world.desk.Wait({"a"}, absl::Seconds(60));
  answer.join();
  CHECK(world.desk.Find("a")->verdict != nullptr);
}

TEST_CASE("Waits above the limit end at once", "[gateway][desk]") {
  Desk world({.max_waiting = 0});
  REQUIRE(world.desk.Submit(Wanted("a")).ok());
  world.desk.Wait({"a"}, absl::Hours(1));
  CHECK(world.desk.Find("a")->verdict == nullptr);
}

TEST_CASE("A draining desk refuses submissions and ends all waits", "[gateway][desk]") {
  Desk world;
  REQUIRE(world.desk.Submit(Wanted("a")).ok());
  std::thread waiter([&world] { world.desk.Wait({"a"}, absl::Hours(1)); });
  world.desk.Drain(absl::ZeroDuration());
  waiter.join();
  CHECK(world.desk.draining());
  CHECK(absl::IsUnavailable(world.desk.Submit(Wanted("b")).status()));
}

}  // namespace
}  // namespace kernelcast::gateway
