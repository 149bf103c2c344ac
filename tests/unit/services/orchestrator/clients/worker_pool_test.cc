#include "services/orchestrator/clients/worker_pool.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>

#include "tests/support/recorded_problem.h"
#include "tests/unit/services/orchestrator/clients/fake_peers.h"

namespace kernelcast::orchestrator::testing::worker_pool_test {
namespace {

// Measurements under way through a pool, and their results.
class Measurements {
 public:
  Measurements()
      : recorded_(kernelcast::testing::MakeRecordedProblem(4, 4)),
        problem_(std::make_shared<const Problem>(recorded_.problem)) {}

  void Start(WorkerPool& pool, int count = 1, const std::string& target = "cpu",
             const std::string& device_model = "some CPU") {
    for (int i = 0; i < count; ++i) {
      Candidate candidate = recorded_.candidates[started_++ % recorded_.candidates.size()];
      candidate.target = target;
      pool.Measure(absl::StrCat("r", started_), problem_, candidate, device_model,
                   MeasureLevel::kScreen, /*profile=*/false,
                   [this](const absl::StatusOr<MeasureResult>& result) {
                     if (!result.ok()) {
                       ++failed_;
                     } else {
                       const std::lock_guard lock(mutex_);
                       ++by_worker_[std::get<Measurement>(*result).worker_id];
                     }
                     ++ended_;
                   });
    }
  }
  bool WaitForAll() {
    return Eventually([this] { return ended_ == started_; });
  }
  size_t ended() const { return ended_; }
  size_t failed() const { return failed_; }
  std::map<std::string, int> by_worker() const {
    const std::lock_guard lock(mutex_);
    return by_worker_;
  }

 private:
  const kernelcast::testing::RecordedProblem recorded_;
  const std::shared_ptr<const Problem> problem_;
  size_t started_ = 0;
  std::atomic<size_t> ended_ = 0;
  std::atomic<size_t> failed_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, int> by_worker_;
};

WorkerPoolOptions QuickOptions(std::vector<std::string> addresses) {
  WorkerPoolOptions options;
  options.discovery.addresses = std::move(addresses);
  options.peers.describe_interval = absl::Milliseconds(50);
  options.peers.describe_timeout = absl::Seconds(5);
  options.peers.outliers.first_pause = absl::Milliseconds(20);
  return options;
}

std::unique_ptr<WorkerPool> MustCreate(WorkerPoolOptions options) {
  auto pool = WorkerPool::Create(std::move(options), [] {});
  INFO(pool.status().ToString());
  REQUIRE(pool.ok());
  return *std::move(pool);
}

size_t Ready(const WorkerPool& pool) {
  const auto views = pool.View();
  return std::ranges::count_if(views, [](const WorkerView& view) { return view.healthy; });
}

WorkerView ViewOf(const WorkerPool& pool, const std::string& address) {
  for (const WorkerView& view : pool.View()) {
    if (view.address == address) return view;
  }
  return {};
}

// Workers, and a pool that uses them.
struct World {
  explicit World(const std::vector<uint32_t>& credits) {
    for (size_t i = 0; i < credits.size(); ++i) {
      workers.push_back(std::make_unique<FakeWorker>(absl::StrCat("w", i), credits[i]));
      workers.back()->Start();
    }
  }
  WorkerPoolOptions Options() const {
    std::vector<std::string> addresses;
    for (const auto& worker : workers) addresses.push_back(worker->address());
    return QuickOptions(addresses);
  }
  void Create(WorkerPoolOptions options) {
    pool = MustCreate(std::move(options));
    REQUIRE(Eventually([&] { return Ready(*pool) == workers.size(); }));
  }

  Measurements measurements;
  std::vector<std::unique_ptr<FakeWorker>> workers;
  std::unique_ptr<WorkerPool> pool;
};

TEST_CASE("A worker gets a candidate whole once, and again if it has forgotten it") {
  constexpr int kCandidates = 16;
  World world({kCandidates});
  world.Create(world.Options());
  FakeWorker& worker = *world.workers[0];
  world.measurements.Start(*world.pool, kCandidates);
  REQUIRE(world.measurements.WaitForAll());
  CHECK(worker.received() == kCandidates);
  world.measurements.Start(*world.pool, kCandidates);
  REQUIRE(world.measurements.WaitForAll());
  CHECK(worker.received() == kCandidates);
  CHECK(worker.measured() == 2 * kCandidates);

  worker.ForgetCandidates();
  world.measurements.Start(*world.pool, kCandidates);
  REQUIRE(world.measurements.WaitForAll());
  CHECK(worker.received() == 2 * kCandidates);
  CHECK(worker.measured() == 3 * kCandidates);
  CHECK(world.measurements.failed() == 0);
}

TEST_CASE("Workers are loaded in proportion to their credits") {
  World world({2, 4, 8});
  for (auto& worker : world.workers) worker->Hold();
  world.Create(world.Options());
  const auto held = [&] {
    std::vector<size_t> counts;
    for (auto& worker : world.workers) counts.push_back(worker->held());
    return counts;
  };
  world.measurements.Start(*world.pool, 7);
  CHECK(Eventually([&] { return held() == std::vector<size_t>{1, 2, 4}; }));
  world.measurements.Start(*world.pool, 7);
  CHECK(Eventually([&] { return held() == std::vector<size_t>{2, 4, 8}; }));
  // No worker gets more than its credits.
  world.measurements.Start(*world.pool, 3);
  CHECK(world.pool->QueueDepth() == 3);
  for (auto& worker : world.workers) worker->Release();
  CHECK(world.measurements.WaitForAll());
  CHECK(world.measurements.failed() == 0);
}

TEST_CASE("Equally free workers take turns") {
  World world({64, 64, 64});
  world.Create(world.Options());
  for (int i = 0; i < 30; ++i) {
    world.measurements.Start(*world.pool);
    REQUIRE(world.measurements.WaitForAll());
  }
  CHECK(world.measurements.by_worker() ==
        std::map<std::string, int>{{"w0", 10}, {"w1", 10}, {"w2", 10}});
}

TEST_CASE("Other orchestrators' work on a worker counts as load") {
  World world({8, 8});
  world.workers[0]->Change([](auto& reported) { reported.set_measures_in_flight(6); });
  for (auto& worker : world.workers) worker->Hold();
  world.Create(world.Options());
  world.measurements.Start(*world.pool, 6);
  CHECK(Eventually([&] { return world.workers[1]->held() == 6; }));
  CHECK(world.workers[0]->held() == 0);
}

TEST_CASE("One bad worker of three fails no candidate, is ejected, and returns when fixed") {
  World world({4, 4, 4});
  const absl::Status error = GENERATE(absl::InternalError("broken"), absl::UnknownError("broken"),
                                      absl::DeadlineExceededError("broken"));
  world.workers[1]->Fail(error);
  WorkerPoolOptions options = world.Options();
  options.peers.outliers.first_pause = absl::Hours(1);
  options.peers.outliers.longest_pause = absl::Hours(1);
  world.Create(std::move(options));
  for (int i = 0; i < 60; ++i) {
    world.measurements.Start(*world.pool, 2);
    REQUIRE(world.measurements.WaitForAll());
  }
  CHECK(world.measurements.failed() == 0);
  CHECK(world.pool->Counts().ejections == 1);
  CHECK(ViewOf(*world.pool, world.workers[1]->address()).ejected);
  CHECK(ViewOf(*world.pool, world.workers[1]->address()).healthy);
  // Never after its ejection; calls in transit still count.
  CHECK(world.workers[1]->measured() >= 3);
  CHECK(world.workers[1]->measured() <= 6);
  CHECK(world.pool->CapacityFor("cpu", "some CPU").measure_slots == 2);
}

TEST_CASE("An ejected worker is probed by one call at a time and used when it succeeds") {
  World world({4, 4, 4});
  world.workers[0]->Fail(absl::InternalError("broken"));
  world.Create(world.Options());
  // Probes fail at growing intervals and cost no candidate.
  REQUIRE(Eventually([&] {
    world.measurements.Start(*world.pool);
    return world.measurements.WaitForAll() && world.pool->Counts().ejections >= 3;
  }));
  world.workers[0]->Fail(absl::OkStatus());
  CHECK(Eventually([&] {
    world.measurements.Start(*world.pool, 3);
    return world.measurements.WaitForAll() &&
           !ViewOf(*world.pool, world.workers[0]->address()).ejected;
  }));
  CHECK(world.measurements.failed() == 0);
  CHECK(world.measurements.by_worker()["w0"] > 0);
}

TEST_CASE("Work sent before an ejection cannot restore the worker") {
  World world({8, 8});
  WorkerPoolOptions options = world.Options();
  options.peers.outliers.first_pause = absl::Hours(1);
  options.peers.outliers.longest_pause = absl::Hours(1);
  world.Create(std::move(options));
  FakeWorker& bad = *world.workers[0];
  bad.Hold();
  world.measurements.Start(*world.pool, 4);
  REQUIRE(Eventually([&] { return bad.held() >= 1; }));
  bad.Fail(absl::InternalError("broken"));
  REQUIRE(Eventually([&] {
    world.measurements.Start(*world.pool, 8);  // more than the other has under way
    return world.pool->Counts().ejections == 1;
  }));
  bad.Release();
  CHECK(world.measurements.WaitForAll());
  CHECK(world.measurements.by_worker()["w0"] >= 1);
  CHECK(ViewOf(*world.pool, bad.address()).ejected);
}

TEST_CASE("Calls cancelled by a stopping worker cost no attempt") {
  World world({4, 4});
  world.workers[0]->Fail(absl::CancelledError("shut down"));
  WorkerPoolOptions options = world.Options();
  options.max_attempts = 1;
  world.Create(std::move(options));
  world.measurements.Start(*world.pool, 40);
  CHECK(world.measurements.WaitForAll());
  CHECK(world.measurements.failed() == 0);
  CHECK(world.pool->Counts().repeated_lost > 0);
}

TEST_CASE("A worker with impossible measurements is not trusted and is ejected") {
  const std::function<void(v1::MeasureReply&)> lies[] = {
      [](v1::MeasureReply& reply) {
        reply.mutable_measurement()->mutable_ok()->mutable_speedup()->set_value(
            std::numeric_limits<double>::quiet_NaN());
      },
      [](v1::MeasureReply& reply) { reply.mutable_measurement()->set_candidate_id("another"); },
      [](v1::MeasureReply& reply) { reply.set_request_id("another"); },
      [](v1::MeasureReply& reply) {
        reply.mutable_measurement()->set_level(v1::MEASURE_LEVEL_FINAL);
      },
  };
  for (const auto& lie : lies) {
    FakeWorker liar("liar"), honest("honest"), third("third");
    std::vector<std::string> addresses;
    for (FakeWorker* worker : {&liar, &honest, &third}) {
      worker->Start();
      addresses.push_back(worker->address());
    }
    liar.Lie(lie);
    auto pool = MustCreate(QuickOptions(addresses));
    REQUIRE(Eventually([&] { return Ready(*pool) == addresses.size(); }));
    Measurements measurements;
    measurements.Start(*pool, 60);
    REQUIRE(measurements.WaitForAll());
    CHECK(measurements.failed() == 0);
    CHECK_FALSE(measurements.by_worker().contains("liar"));
    CHECK(pool->Counts().ejections >= 1);
    CHECK(pool->Counts().repeated_failed >= 3);
  }
}

TEST_CASE("A retry hint of 115 days does not delay candidates for long") {
  CHECK(RetryAfter(OverloadedError("later", absl::Hours(115 * 24))) == kLongestRetryAfter);
  CHECK(RetryAfter(OverloadedError("now", -absl::Hours(1))) == absl::ZeroDuration());
}

TEST_CASE("At most half of the workers are ejected") {
  World world({4, 4, 4});
  world.workers[0]->Fail(absl::InternalError("broken"));
  world.workers[1]->Fail(absl::InternalError("broken"));
  world.Create(world.Options());
  for (int i = 0; i < 50; ++i) {
    world.measurements.Start(*world.pool, 2);
    REQUIRE(world.measurements.WaitForAll());
    const auto views = world.pool->View();
    CHECK(std::ranges::count_if(views, [](const WorkerView& view) { return view.ejected; }) <= 1);
  }
  CHECK(world.measurements.failed() == 0);
  CHECK(world.measurements.by_worker()["w2"] == 100);
}

TEST_CASE("Candidate failures are not worker failures") {
  World world({4, 4});
  for (auto& worker : world.workers) worker->Fail(absl::InvalidArgumentError("malformed"));
  world.Create(world.Options());
  world.measurements.Start(*world.pool, 40);
  REQUIRE(world.measurements.WaitForAll());
  CHECK(world.measurements.failed() == 40);
  CHECK(world.pool->Counts().ejections == 0);
  CHECK(world.workers[0]->measured() + world.workers[1]->measured() == 40);
}

TEST_CASE("Work returned by a draining worker goes to others immediately and costs no attempt") {
  World world({4, 4});
  WorkerPoolOptions options = world.Options();
  options.max_attempts = 1;
  options.peers.describe_interval = absl::Hours(1);
  world.Create(std::move(options));
  world.workers[0]->Hold();
  world.workers[1]->Hold();
  world.measurements.Start(*world.pool, 8);
  REQUIRE(
      Eventually([&] { return world.workers[0]->held() == 4 && world.workers[1]->held() == 4; }));
  world.workers[0]->Change([](auto& reported) { reported.set_draining(true); });
  world.workers[0]->Release(NotStartedError("draining"));
  world.workers[1]->Release();
  CHECK(world.measurements.WaitForAll());
  CHECK(world.measurements.failed() == 0);
  CHECK(world.measurements.by_worker() == std::map<std::string, int>{{"w1", 8}});
  CHECK(world.pool->Counts().repeated_handed_back == 4);
  // It gets no new work.
  world.measurements.Start(*world.pool, 20);
  CHECK(world.measurements.WaitForAll());
  CHECK(world.workers[0]->measured() == 4);
  CHECK(world.pool->CapacityFor("cpu", "some CPU").measure_slots == 1);
}

TEST_CASE("A worker that refuses is retried later and others are tried first") {
  World world({4, 4});
  world.workers[0]->Fail(OverloadedError("full", absl::Milliseconds(1)));
  WorkerPoolOptions options = world.Options();
  options.max_attempts = 1;
  world.Create(std::move(options));
  world.measurements.Start(*world.pool, 40);
  CHECK(world.measurements.WaitForAll());
  CHECK(world.measurements.failed() == 0);
  CHECK(world.measurements.by_worker() == std::map<std::string, int>{{"w1", 40}});
  CHECK(world.pool->Counts().repeated_refused > 0);
  CHECK(world.pool->Counts().ejections == 0);
}

TEST_CASE("Workers of adjacent protocol versions work and others get a reason") {
  World world({4, 4, 4, 4});
  const std::vector<uint32_t> versions = {kProtocolVersion, kProtocolVersion + 1,
                                          kProtocolVersion + 2, kProtocolVersion};
  for (size_t i = 0; i < versions.size(); ++i) {
    world.workers[i]->Change([&](auto& reported) { reported.set_protocol_version(versions[i]); });
  }
  world.pool = MustCreate(world.Options());
  const std::string& stranger = world.workers[2]->address();
  REQUIRE(Eventually([&] {
    return Ready(*world.pool) == 3 &&
           ViewOf(*world.pool, stranger).unhealthy_reason != "not asked yet";
  }));
  CHECK_FALSE(ViewOf(*world.pool, stranger).healthy);
  CHECK_THAT(ViewOf(*world.pool, stranger).unhealthy_reason,
             Catch::Contains(absl::StrCat("version ", kProtocolVersion + 2)) &&
                 Catch::Contains("upgrade this one"));
  world.measurements.Start(*world.pool, 40);
  CHECK(world.measurements.WaitForAll());
  CHECK(world.measurements.failed() == 0);
  CHECK(world.workers[2]->measured() == 0);
  CHECK(world.measurements.by_worker().size() == 3);
}

TEST_CASE("A worker that reports no version is not used") {
  World world({4});
  world.workers[0]->Change([](auto& reported) { reported.set_protocol_version(0); });
  world.pool = MustCreate(world.Options());
  CHECK(Eventually([&] {
    const WorkerView view = world.pool->View()[0];
    return !view.healthy && view.unhealthy_reason.find("no version") != std::string::npos;
  }));
}

TEST_CASE("Measurements go to their device model") {
  World world({4, 4, 4});
  world.workers[0]->AddTarget("cuda", "NVIDIA H100 80GB HBM3", "sm_90a");
  world.workers[1]->AddTarget("cuda", "NVIDIA A100-SXM4-80GB", "sm_80");
  world.workers[2]->AddTarget("cuda", "NVIDIA A100-SXM4-80GB", "sm_80");
  world.Create(world.Options());
  const WorkerPool& pool = *world.pool;
  CHECK(pool.DeviceModelFor("cuda", "h100") == "NVIDIA H100 80GB HBM3");
  CHECK(pool.DeviceModelFor("cuda", "NVIDIA A100-SXM4-80GB") == "NVIDIA A100-SXM4-80GB");
  CHECK(pool.DeviceModelFor("cuda", "l40s").empty());
  CHECK(pool.DeviceModelFor("tpu", "").empty());
  CHECK(pool.CapacityFor("cuda", "NVIDIA A100-SXM4-80GB").measure_slots == 2);
  CHECK(pool.CapacityFor("cuda", "NVIDIA A100-SXM4-80GB").compile_credits == 8);
  CHECK(pool.CapacityFor("cuda", "NVIDIA H100 80GB HBM3").measure_slots == 1);
  CHECK(pool.CapacityFor("cuda", "NVIDIA L40S").measure_slots == 0);
  CHECK(pool.Devices().size() == 3);
  world.measurements.Start(*world.pool, 30, "cuda", "NVIDIA A100-SXM4-80GB");
  world.measurements.Start(*world.pool, 10, "cuda", "NVIDIA H100 80GB HBM3");
  CHECK(world.measurements.WaitForAll());
  CHECK(world.workers[0]->measured() == 10);
  CHECK(world.workers[1]->measured() + world.workers[2]->measured() == 30);
}

TEST_CASE("Workers without a GPU compile for GPUs of their architecture") {
  World world({4, 4, 4});
  world.workers[0]->AddTarget("cuda", "NVIDIA H100 80GB HBM3", "sm_90a");
  world.workers[0]->Change([](v1::WorkerDescription& reported) {
    v1::TargetDevice& device = *reported.mutable_targets(1)->add_devices();
    device.mutable_device()->set_model("NVIDIA H100 80GB HBM3");
    device.set_can_measure(true);
  });
  for (const auto& [worker, architecture] :
       std::map<size_t, std::string>{{1, "sm_90a"}, {2, "sm_80"}}) {
    world.workers[worker]->AddTarget("cuda", "", architecture);
    world.workers[worker]->Change([](v1::WorkerDescription& reported) {
      reported.mutable_targets(1)->set_can_measure(false);
    });
  }
  world.Create(world.Options());
  const auto recorded = kernelcast::testing::MakeRecordedProblem(4, 4);
  const auto problem = std::make_shared<const Problem>(recorded.problem);
  constexpr int kCandidates = 12;
  std::atomic<int> compiled = 0;
  std::atomic<int> failed = 0;
  for (int i = 0; i < kCandidates; ++i) {
    Candidate candidate = recorded.candidates[static_cast<size_t>(i)];
    candidate.target = "cuda";
    world.pool->Compile(absl::StrCat("r", i), problem, std::move(candidate),
                        "NVIDIA H100 80GB HBM3", [&](const absl::StatusOr<CompileResult>& result) {
                          if (!result.ok()) ++failed;
                          ++compiled;
                        });
  }
  REQUIRE(Eventually([&] { return compiled == kCandidates; }));
  CHECK(failed == 0);
  // All simulate this model, so that their estimates compare.
  const auto of = [&](size_t worker) { return world.workers[worker]->compiled_models(); };
  REQUIRE(of(0).size() == 1);
  CHECK(of(0).begin()->first == "NVIDIA H100 80GB HBM3");
  REQUIRE(of(1).size() == 1);
  CHECK(of(1).begin()->first == "NVIDIA H100 80GB HBM3");
  CHECK(of(0).begin()->second + of(1).begin()->second == kCandidates);
  CHECK(of(2).empty());
}

TEST_CASE("A request without a device model gets the preferred or the most common one") {
  World world({4, 4, 4});
  world.workers[0]->AddTarget("cuda", "NVIDIA H100 80GB HBM3", "sm_90a");
  world.workers[1]->AddTarget("cuda", "NVIDIA A100-SXM4-80GB", "sm_80");
  world.workers[2]->AddTarget("cuda", "NVIDIA A100-SXM4-80GB", "sm_80");
  WorkerPoolOptions options = world.Options();
  SECTION("preferred by its short name") {
    options.gpu_model = "h100";
    world.Create(std::move(options));
    CHECK(world.pool->DeviceModelFor("cuda", "") == "NVIDIA H100 80GB HBM3");
  }
  SECTION("no preference") {
    world.Create(std::move(options));
    CHECK(world.pool->DeviceModelFor("cuda", "") == "NVIDIA A100-SXM4-80GB");
    // The preference stays while the device is present, though another is more common by now.
    world.workers[1]->Stop();
    REQUIRE(Eventually([&] { return Ready(*world.pool) == 2; }));
    CHECK(world.pool->DeviceModelFor("cuda", "") == "NVIDIA A100-SXM4-80GB");
    // A lost device is still known, and so are the remaining ones.
    world.workers[2]->Stop();
    REQUIRE(Eventually([&] { return Ready(*world.pool) == 1; }));
    CHECK(world.pool->DeviceModelFor("cuda", "") == "NVIDIA H100 80GB HBM3");
    CHECK(world.pool->DeviceModelFor("cuda", "a100") == "NVIDIA A100-SXM4-80GB");
    CHECK(world.pool->CapacityFor("cuda", "NVIDIA A100-SXM4-80GB").measure_slots == 0);
  }
}

TEST_CASE("A worker with several devices measures on the requested one") {
  World world({8});
  world.workers[0]->AddTarget("cuda", "NVIDIA H200", "sm_90a");
  world.workers[0]->Change([](v1::WorkerDescription& reported) {
    v1::TargetDescription& target = *reported.mutable_targets(1);
    for (const auto& [model, works] :
         std::vector<std::pair<std::string, bool>>{{"NVIDIA H200", true},
                                                   {"NVIDIA H200", true},
                                                   {"NVIDIA H200", false},
                                                   {"NVIDIA L40S", true}}) {
      v1::TargetDevice& device = *target.add_devices();
      device.mutable_device()->set_model(model);
      device.set_can_measure(works);
    }
  });
  world.Create(world.Options());
  CHECK(world.pool->CapacityFor("cuda", "NVIDIA H200").measure_slots == 2);
  CHECK(world.pool->CapacityFor("cuda", "NVIDIA L40S").measure_slots == 1);
  world.measurements.Start(*world.pool, 3, "cuda", "NVIDIA L40S");
  CHECK(world.measurements.WaitForAll());
  CHECK(world.workers[0]->device_models() == std::map<std::string, int>{{"NVIDIA L40S", 3}});
}

TEST_CASE("Work held by a silent worker moves to others") {
  World world({4, 4});
  WorkerPoolOptions options = world.Options();
  options.peers.describe_timeout = absl::Milliseconds(100);
  options.peers.silence_limit = absl::Milliseconds(300);
  world.Create(std::move(options));
  world.workers[0]->Hold();
  world.workers[1]->Hold();
  world.measurements.Start(*world.pool, 4);
  REQUIRE(
      Eventually([&] { return world.workers[0]->held() == 2 && world.workers[1]->held() == 2; }));
  world.workers[0]->FallSilent();
  world.workers[1]->Release();
  CHECK(world.measurements.WaitForAll());
  CHECK(world.measurements.failed() == 0);
  CHECK(world.measurements.by_worker() == std::map<std::string, int>{{"w1", 4}});
  CHECK(world.pool->Counts().repeated_lost == 2);
}

TEST_CASE("Cancelled work is not sent, and a worker that holds it cancels it") {
  World world({1});
  FakeWorker& worker = *world.workers[0];
  worker.Hold();
  world.Create(world.Options());
  world.measurements.Start(*world.pool, 3);
  REQUIRE(Eventually([&] { return worker.held() == 1 && world.pool->QueueDepth() == 2; }));
  world.pool->Cancel({"r2", "unknown"});
  CHECK(world.measurements.ended() == 1);
  CHECK(world.pool->QueueDepth() == 1);
  // The running measurement is not moved and does not count against the worker.
  world.pool->Cancel({"r1"});
  REQUIRE(Eventually([&] { return world.measurements.ended() == 2; }));
  CHECK(world.measurements.failed() == 2);
  CHECK(world.pool->Counts().repeated_lost == 0);
  REQUIRE(Eventually([&] { return worker.measured() == 2; }));
  worker.Release();
  REQUIRE(world.measurements.WaitForAll());
  CHECK(world.measurements.failed() == 2);
  CHECK(worker.measured() == 2);
  CHECK(world.pool->QueueDepth() == 0);
}

TEST_CASE("A cancelled request for an absent device is gone when the device appears") {
  World world({1});
  world.Create(world.Options());
  world.measurements.Start(*world.pool, 2, "cpu", "late CPU");
  CHECK(world.pool->QueueDepth() == 2);
  world.pool->Cancel({"r1"});
  CHECK(world.pool->QueueDepth() == 1);
  CHECK(world.measurements.failed() == 1);
  world.workers[0]->Change([](v1::WorkerDescription& description) {
    description.mutable_targets(0)->mutable_device()->set_model("late CPU");
  });
  REQUIRE(world.measurements.WaitForAll());
  CHECK(world.measurements.failed() == 1);
  CHECK(world.workers[0]->measured() == 1);
}

TEST_CASE("A dead worker's work moves to others, and the worker is used when it returns") {
  World world({4, 4});
  world.Create(world.Options());
  world.workers[0]->Hold();
  world.workers[1]->Hold();
  world.measurements.Start(*world.pool, 6);
  REQUIRE(
      Eventually([&] { return world.workers[0]->held() == 3 && world.workers[1]->held() == 3; }));
  world.workers[0]->Stop();
  world.workers[1]->Release();
  CHECK(world.measurements.WaitForAll());
  CHECK(world.measurements.failed() == 0);
  world.workers[0]->Release();
  world.workers[0]->Start();
  CHECK(Eventually([&] { return Ready(*world.pool) == 2; }));
  world.measurements.Start(*world.pool, 20);
  CHECK(world.measurements.WaitForAll());
  CHECK(world.measurements.by_worker()["w0"] > 0);
}

// A name with changeable DNS records.
struct Name {
  void Set(std::vector<std::string> ips) {
    const std::lock_guard lock(mutex);
    addresses = std::move(ips);
  }
  WorkerPoolOptions Options(int port) {
    WorkerPoolOptions options = QuickOptions({absl::StrCat("dns:///workers:", port)});
    options.discovery.least_interval = absl::ZeroDuration();
    options.discovery.look_up =
        [this](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
      const std::lock_guard lock(mutex);
      return addresses;
    };
    return options;
  }

  std::mutex mutex;
  std::vector<std::string> addresses;
};

TEST_CASE("Each DNS record is a worker with its own credits, as records come and go") {
  FakeWorker first("first", 2), second("second", 4), third("third", 8);
  const int port = StartAtOnePort<FakeWorker>(
      {{"127.0.0.2", &first}, {"127.0.0.3", &second}, {"127.0.0.4", &third}});
  REQUIRE(port > 0);
  Name name;
  name.Set({"127.0.0.2", "127.0.0.3"});
  WorkerPoolOptions options = name.Options(port);
  options.discovery.interval = absl::Milliseconds(20);
  Measurements measurements;
  const auto pool = MustCreate(std::move(options));
  REQUIRE(Eventually([&] { return Ready(*pool) == 2; }));
  for (FakeWorker* worker : {&first, &second, &third}) worker->Hold();
  measurements.Start(*pool, 6);
  REQUIRE(Eventually([&] { return first.held() == 2 && second.held() == 4; }));

  // One worker leaves while it has two measurements, and another joins.
  name.Set({"127.0.0.3", "127.0.0.4"});
  REQUIRE(Eventually([&] { return ViewOf(*pool, third.address()).healthy; }));
  CHECK(pool->View().size() == 2);
  measurements.Start(*pool, 8);
  CHECK(Eventually([&] { return third.held() == 8; }));
  CHECK(first.held() == 2);
  first.Release();
  CHECK(Eventually([&] { return measurements.ended() == 2; }));
  CHECK(measurements.by_worker() == std::map<std::string, int>{{"first", 2}});
  second.Release();
  third.Release();
  CHECK(measurements.WaitForAll());
  CHECK(measurements.failed() == 0);
}

TEST_CASE("Losing a worker triggers a DNS lookup immediately") {
  FakeWorker before("before"), after("after");
  const int port = StartAtOnePort<FakeWorker>({{"127.0.0.2", &before}, {"127.0.0.3", &after}});
  REQUIRE(port > 0);
  Name name;
  name.Set({"127.0.0.2"});
  WorkerPoolOptions options = name.Options(port);
  options.discovery.interval = absl::Hours(1);
  Measurements measurements;
  const auto pool = MustCreate(std::move(options));
  REQUIRE(Eventually([&] { return Ready(*pool) == 1; }));
  before.Hold();
  measurements.Start(*pool, 3);
  REQUIRE(Eventually([&] { return before.held() == 3; }));
  name.Set({"127.0.0.3"});
  before.Stop();
  CHECK(measurements.WaitForAll());
  CHECK(measurements.failed() == 0);
  CHECK(measurements.by_worker() == std::map<std::string, int>{{"after", 3}});
  CHECK(pool->View().size() == 1);
}

TEST_CASE("Two addresses of one worker share its credits") {
  FakeWorker worker("both", 2);
  REQUIRE(worker.TryStart("0.0.0.0:0"));
  const std::string port = worker.address().substr(worker.address().rfind(':'));
  const auto pool = MustCreate(QuickOptions({"127.0.0.1" + port, "127.0.0.2" + port}));
  REQUIRE(Eventually([&] {
    const auto views = pool->View();
    return std::ranges::any_of(views, [](const WorkerView& view) { return view.healthy; }) &&
           std::ranges::any_of(views, [](const WorkerView& view) {
             return view.unhealthy_reason.rfind("is the same worker as ", 0) == 0;
           });
  }));
  CHECK(pool->CapacityFor("cpu", "some CPU").measure_slots == 1);
}

TEST_CASE("Destroying a pool returns waiting and running work") {
  World world({2});
  world.workers[0]->Hold();
  world.Create(world.Options());
  world.measurements.Start(*world.pool, 5);
  REQUIRE(Eventually([&] { return world.workers[0]->held() == 2; }));
  world.pool.reset();
  CHECK(world.measurements.ended() == 5);
  CHECK(world.measurements.failed() == 5);
}

}  // namespace
}  // namespace kernelcast::orchestrator::testing::worker_pool_test
