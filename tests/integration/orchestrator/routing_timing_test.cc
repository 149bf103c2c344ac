// A short version of bench_orchestrator with limits that a busy machine can meet.

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "services/orchestrator/core/state.h"
#include "services/orchestrator/store/sqlite_event_store.h"
#include "tests/bench/orchestrator/routed_load.h"

namespace kernelcast::testing {
namespace {

constexpr double kMeasuredShare = 0.02;
constexpr int64_t kMiB = 1 << 20;

std::unique_ptr<RoutedCluster> StartCluster() {
  auto cluster = RoutedCluster::Start(64, 32, 2048);
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

void CheckAllSettled(const LoadFigures& figures, uint64_t count) {
  CHECK(figures.requests == count);
  CHECK(figures.errors == 0);
  CHECK(figures.rejected == 0);
  CHECK(figures.measured + figures.pruned == count);
}

TEST_CASE("Thousands of candidates are routed at speed in bounded memory and replayed") {
  const auto cluster = StartCluster();
  const auto stub = cluster->Stub();
  constexpr uint64_t kCount = 16'000;
  CandidateSource source(cluster->recorded, "t", kMeasuredShare);
  int64_t settled_bytes = 0;  // after caches and pools are filled
  auto figures = StreamClosedLoop(*stub, source, kCount, 256,
                                  {kCount / 2, [&](uint64_t) {
                                     if (settled_bytes == 0) {
                                       settled_bytes = cluster->Resident()["orchestrator"];
                                     }
                                   }});
  INFO(figures.status().ToString());
  REQUIRE(figures.ok());
  CheckAllSettled(*figures, kCount);
  CHECK(figures->per_second() > 200);
  CHECK(cluster->Resident()["orchestrator"] - settled_bytes < 64 * kMiB);

  REQUIRE(cluster->orchestrator->Terminate() == 0);
  const auto store = orchestrator::SqliteEventStore::Open(cluster->LogPath());
  REQUIRE(store.ok());
  orchestrator::State state;
  const double start = CpuSeconds(getpid());
  REQUIRE((*store)
              ->Replay(1, [&](orchestrator::StoredEvent stored) { return state.Apply(stored); })
              .ok());
  const double seconds = std::max(0.01, CpuSeconds(getpid()) - start);
  CHECK(state.last_sequence() > 4 * kCount);
  CHECK(state.evaluations().empty());
  CHECK(static_cast<double>(state.last_sequence()) / seconds > 20'000);
}

TEST_CASE("A steady rate of candidates is answered in time") {
  const auto cluster = StartCluster();
  const auto stub = cluster->Stub();
  constexpr uint64_t kCount = 1000;
  CandidateSource source(cluster->recorded, "l", kMeasuredShare);
  auto figures = StreamOpenLoop(*stub, source, kCount, 200);
  INFO(figures.status().ToString());
  REQUIRE(figures.ok());
  CheckAllSettled(*figures, kCount);
  CHECK(testing::PercentileMs(figures->latencies_ns, 0.5) < 500);
}

TEST_CASE("Services exit at once when they have no work") {
  const auto cluster = StartCluster();
  for (const auto& service : {&cluster->orchestrator, &cluster->forecaster, &cluster->worker}) {
    const auto start = std::chrono::steady_clock::now();
    REQUIRE((*service)->Terminate() == 0);
    // Their HTTP servers, just started, would take nearly two seconds.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
  }
}

}  // namespace
}  // namespace kernelcast::testing
