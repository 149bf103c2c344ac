#include "services/worker/core/guarded_target.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "common/base/id.h"

namespace kernelcast::worker {
namespace {

// Ends the process when it gets the candidate or the problem of its id.
class FragileTarget final : public Target {
 public:
  explicit FragileTarget(std::string poison) : poison_(std::move(poison)) {}

  TargetInfo Describe() const override {
    TargetInfo info;
    info.target = "fragile";
    return info;
  }
  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        const CancelToken&) override {
    Die(request.candidate == nullptr ? request.problem.problem_id
                                     : request.candidate->candidate_id);
    return CompileResult();
  }
  absl::StatusOr<Artifact> Resolve(const Candidate&, const Artifact&) override {
    return Artifact();
  }
  absl::StatusOr<Measurement> Measure(const MeasureRequest& request, const CancelToken&) override {
    Die(request.candidate.candidate_id);
    return Measurement();
  }
  std::optional<size_t> Expect(const Problem&, const Candidate& candidate, MeasureLevel,
                               const DeviceWish&) override {
    Die(candidate.candidate_id);
    return 1;
  }
  bool Revive(size_t device) override { return device == 1; }

 private:
  void Die(const std::string& id) const {
    if (id == poison_) _exit(9);
  }
  const std::string poison_;
};

class Worker {
 public:
  Worker()
      : path_((std::filesystem::temp_directory_path() / RandomId("kernelcast-guard-")).string()) {}
  ~Worker() { std::filesystem::remove(path_); }

  // Makes the call in a process of its own. Returns its exit code: 9 if the target ended it.
  template <class Call>
  int InProcess(const Call& call) const {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto journal = CrashJournal::Open(path_);
      if (!journal.ok()) _exit(1);
      GuardedTarget target(std::make_unique<FragileTarget>("k_poison"), journal->get());
      const absl::Status status = call(target);
      _exit(status.ok() ? 0 : static_cast<int>(status.code()) + 100);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }

 private:
  const std::string path_;
};

Candidate Named(const std::string& id) {
  Candidate candidate;
  candidate.candidate_id = id;
  return candidate;
}

constexpr int kCrashed = 9;
constexpr int kRefused = 100 + static_cast<int>(absl::StatusCode::kFailedPrecondition);

TEST_CASE("A candidate that was in process at two crashes of the worker is refused") {
  const Worker worker;
  const auto measure = [](const char* id) {
    return [id](Target& target) {
      return target.Measure({{}, Named(id), {}, MeasureLevel::kScreen, 0}, CancelToken()).status();
    };
  };
  CHECK(worker.InProcess(measure("k_poison")) == kCrashed);
  CHECK(worker.InProcess(measure("k_fine")) == 0);
  CHECK(worker.InProcess(measure("k_poison")) == kCrashed);
  CHECK(worker.InProcess(measure("k_poison")) == kRefused);
  CHECK(worker.InProcess(measure("k_poison")) == kRefused);
  CHECK(worker.InProcess(measure("k_fine")) == 0);
  // Each stage counts by itself.
  const auto compile = [](Target& target) {
    const Candidate candidate = Named("k_poison");
    return target.Compile({Problem(), &candidate}, CancelToken()).status();
  };
  CHECK(worker.InProcess(compile) == kCrashed);
}

TEST_CASE("A problem whose reference was in process at two crashes is refused") {
  const Worker worker;
  const auto describe = [](Target& target) {
    Problem problem;
    problem.problem_id = "k_poison";
    target.Announce(problem, CancelToken());
    return target.Compile({problem}, CancelToken()).status();
  };
  CHECK(worker.InProcess(describe) == kCrashed);
  CHECK(worker.InProcess(describe) == kCrashed);
  CHECK(worker.InProcess(describe) == kRefused);
}

TEST_CASE("Without a journal a guarded target refuses nothing") {
  GuardedTarget target(std::make_unique<FragileTarget>("k_other"), nullptr);
  const Candidate candidate = Named("k_poison");
  CHECK(target.Compile({Problem(), &candidate}, CancelToken()).ok());
  CHECK(target.Measure({{}, Named("k_poison"), {}, MeasureLevel::kScreen}, CancelToken()).ok());
  CHECK(absl::IsUnimplemented(
      target.ProfileCandidate({{}, Named("k_poison"), {}}, CancelToken()).status()));
}

TEST_CASE("A call that is stopped before it begins does not reach the target") {
  GuardedTarget target(std::make_unique<FragileTarget>("k_poison"), nullptr);
  CancelToken stopped;
  stopped.Cancel();
  CHECK(absl::IsCancelled(target.Measure({{}, Named("k_poison"), {}}, stopped).status()));
}

TEST_CASE("A guarded target passes all other calls on") {
  GuardedTarget target(std::make_unique<FragileTarget>("k_poison"), nullptr);
  CHECK(target.Describe().target == "fragile");
  CHECK(target.Revive(1));
  CHECK_FALSE(target.Revive(2));
  const Worker worker;
  CHECK(worker.InProcess([](Target& guarded) {
    (void)guarded.Expect({}, Named("k_poison"), MeasureLevel::kScreen, {});
    return absl::OkStatus();
  }) == kCrashed);
}

}  // namespace
}  // namespace kernelcast::worker
