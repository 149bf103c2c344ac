#include "common/llm/endpoint_pool.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>

namespace kernelcast::llm {
namespace {

constexpr int64_t kPoolSecondNs = 1'000'000'000;

// Two endpoints with room for one attempt each.
struct PoolWorld {
  PoolWorld() {
    config.endpoints.resize(2);
    for (EndpointConfig& endpoint : config.endpoints) {
      endpoint.initial_concurrency = 1;
      endpoint.max_concurrency = 1;
    }
    config.breaker_consecutive_failures = 1;
    config.breaker_open_ns = 5 * kPoolSecondNs;
  }

  LlmConfig config;
  double drawn = 0;
  const Random random = [this] { return drawn; };
  StatsBoard stats{[] {
    ClientStats all;
    all.endpoints.resize(2);
    return all;
  }()};
  EndpointPool& pool() {
    if (made == nullptr) made = std::make_unique<EndpointPool>(config, random, stats, nullptr);
    return *made;
  }
  std::unique_ptr<EndpointPool> made;
};

TEST_CASE("An endpoint is chosen by weight, preference and room") {
  PoolWorld world;
  world.config.endpoints[1].weight = 3;
  CHECK(world.pool().Choose({}, 0) == 0);
  world.drawn = 0.5;
  CHECK(world.pool().Choose({}, 0) == 1);
  CHECK(world.pool().Choose({.preferred = 0}, 0) == 0);
  CHECK(world.pool().Choose({.excluded = 2}, 0) == 0);
  CHECK(world.pool().Choose({.other_than = 1}, 0) == 0);
  const EndpointPool::Slot slot = world.pool().Start(0, 0);
  // The last resort is better than none.
  CHECK(world.pool().Choose({.other_than = 1}, 0) == 1);
  world.pool().Start(1, 0);
  CHECK_FALSE(world.pool().HasRoom(0));
  CHECK(world.pool().Choose({}, 0) == -1);
  world.pool().Close(slot, ErrorKind::kNone, false, 0);
  CHECK(world.pool().Choose({}, 0) == 0);
  CHECK(world.stats.Snapshot().endpoints[0].in_flight == 0);
}

TEST_CASE("Calls are hopeless when every endpoint is down or paused beyond their deadline") {
  PoolWorld world;
  EndpointPool& pool = world.pool();
  const EndpointPool::Need need{.deadline_ns = 3 * kPoolSecondNs};
  CHECK(pool.WhyHopeless(need, 0) == ErrorKind::kNone);
  pool.Close(pool.Start(0, 0), ErrorKind::kServerError, false, 0);
  CHECK(pool.lost());
  pool.ClearLoss();
  CHECK(pool.WhyHopeless(need, 0) == ErrorKind::kNone);
  pool.Pause(1, 4 * kPoolSecondNs);
  CHECK(pool.lost());
  CHECK(pool.WhyHopeless(need, 0) == ErrorKind::kRateLimited);
  CHECK(pool.WaitNs(ErrorKind::kRateLimited, kPoolSecondNs) == 0);
  CHECK(pool.NextRoomNs(0) == 4 * kPoolSecondNs);
  CHECK(pool.WhyHopeless({.excluded = 2, .deadline_ns = 3 * kPoolSecondNs}, 0) ==
        ErrorKind::kCircuitOpen);
  // A trial is possible before a later deadline.
  CHECK(pool.WhyHopeless(
            {.excluded = 2, .wait_for_recovery = true, .deadline_ns = 9 * kPoolSecondNs}, 0) ==
        ErrorKind::kNone);
}

TEST_CASE("A call may go to another endpoint only if that one works") {
  PoolWorld world;
  EndpointPool& pool = world.pool();
  CHECK(pool.HasAnother(0, 0, 0));
  CHECK_FALSE(pool.HasAnother(0, 2, 0));
  pool.Pause(1, kPoolSecondNs);
  CHECK_FALSE(pool.HasAnother(0, 0, 0));
  CHECK(pool.HasAnother(0, 0, kPoolSecondNs));
}

}  // namespace
}  // namespace kernelcast::llm
