#include "common/process/process_clock.h"

#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "common/process/child_process.h"
#include "tests/support/eventually.h"

namespace kernelcast {
namespace {

std::unique_ptr<ChildProcess> SpawnShell(const char* script) {
  ChildOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.environment = {"PATH=/usr/bin:/bin"};
  auto child = ChildProcess::Spawn(options);
  REQUIRE(child.ok());
  return *std::move(child);
}

TEST_CASE("The clock of a process that sleeps stands still") {
  const auto child = SpawnShell("exec sleep 1000");
  ProcessClock made(child->pid());
  const ProcessClock clock = std::move(made);
  CHECK(testing::Eventually([&] { return clock.RanNs() > 0 && clock.Sleeps(); }));
  CHECK(testing::Eventually([&] {
    const int64_t before_ns = clock.RanNs();
    return clock.Sleeps() && clock.RanNs() == before_ns;
  }));
}

TEST_CASE("The clock of a process that works goes on") {
  const auto child = SpawnShell("while :; do :; done");
  const ProcessClock clock(child->pid());
  CHECK(testing::Eventually([&] { return clock.RanNs() > 0 && !clock.Sleeps(); }));
  const int64_t before_ns = clock.RanNs();
  CHECK(testing::Eventually([&] { return clock.RanNs() > before_ns; }));
}

TEST_CASE("An unknown process seems to sleep and its clock stands") {
  const ProcessClock none;
  CHECK(none.RanNs() == 0);
  CHECK(none.Sleeps());
}

}  // namespace
}  // namespace kernelcast
