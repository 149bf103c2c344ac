#include "services/orchestrator/clients/waiting_jobs.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kernelcast::orchestrator::waiting_jobs_test {
namespace {

struct NamedJob final : PeerJob {
  explicit NamedJob(std::string name) { request_id = std::move(name); }
  void Send(Peer&, std::stop_token, Peer::Done) override {}
  void Finish(const absl::Status&) override {}
  // The first letter stands for the capacity.
  bool WaitsLike(const PeerJob& other) const override {
    return request_id[0] == other.request_id[0];
  }
};

struct Waiting : WaitingJobs {
  explicit Waiting(const std::vector<std::string>& names) {
    for (const std::string& name : names) Add(std::make_shared<NamedJob>(name));
  }
  // The jobs that were offered. Those of these names found no room.
  std::vector<std::string> Offer(const std::vector<std::string>& full = {},
                                 absl::Time now = absl::UnixEpoch()) {
    std::vector<std::string> offered;
    Start(now, [&](const Job& job) {
      offered.push_back(job->request_id);
      return std::ranges::find(full, job->request_id) == full.end();
    });
    return offered;
  }
};

using Names = std::vector<std::string>;

TEST_CASE("Waiting jobs start in order of arrival, whatever they wait for", "[waiting_jobs]") {
  Waiting waiting({"a1", "b1", "a2", "c1", "b2"});
  CHECK(waiting.Offer() == Names{"a1", "b1", "a2", "c1", "b2"});
  CHECK(waiting.size() == 0);
}

// A job of the problem that the second letter names.
std::shared_ptr<NamedJob> OfProblem(const std::string& name) {
  auto job = std::make_shared<NamedJob>(name);
  Problem problem;
  problem.problem_id = name.substr(1, 1);
  job->problem = std::make_shared<const Problem>(std::move(problem));
  return job;
}

TEST_CASE("Problems take turns while they wait for the same", "[waiting_jobs]") {
  Waiting waiting({});
  for (const char* name : {"ax1", "ax2", "ax3", "ax4", "ay1", "bx1", "ay2", "az1"}) {
    waiting.Add(OfProblem(name));
  }
  CHECK(waiting.Offer({"ax2", "bx1"}) == Names{"ax1", "ay1", "bx1", "az1", "ax2"});
  // A problem that comes back has no claim to turns that it did not use.
  for (const char* name : {"az2", "az3", "az4"}) waiting.Add(OfProblem(name));
  CHECK(waiting.Offer({"bx1"}) == Names{"ax2", "bx1", "ay2", "az2", "ax3", "az3", "ax4", "az4"});
}

TEST_CASE("Jobs behind one that found no room are skipped if they wait for the same",
          "[waiting_jobs]") {
  Waiting waiting({"a1", "a2", "b1", "a3", "b2"});
  CHECK(waiting.Offer({"a1"}) == Names{"a1", "b1", "b2"});
  CHECK(waiting.size() == 3);
  CHECK(waiting.Offer() == Names{"a1", "a2", "a3"});
}

TEST_CASE("Repeated jobs come first, once they are due", "[waiting_jobs]") {
  Waiting waiting({"a1"});
  const auto again = std::make_shared<NamedJob>("a0");
  again->not_before = absl::UnixEpoch() + absl::Seconds(1);
  waiting.AddAgain(again);
  CHECK(waiting.Offer({"a1"}) == Names{"a1"});
  CHECK(waiting.Offer({"a0"}, again->not_before) == Names{"a0", "a1"});
  CHECK(waiting.size() == 1);
  CHECK(waiting.Offer({}, again->not_before) == Names{"a0"});
}

TEST_CASE("Taken jobs no longer wait", "[waiting_jobs]") {
  Waiting waiting({"a1", "b1", "a2"});
  waiting.AddAgain(std::make_shared<NamedJob>("c1"));
  const auto taken = waiting.Take([](const PeerJob& job) { return job.request_id != "a2"; });
  CHECK(taken.size() == 3);
  CHECK(waiting.size() == 1);
  CHECK(waiting.Offer() == Names{"a2"});
}

}  // namespace
}  // namespace kernelcast::orchestrator::waiting_jobs_test
