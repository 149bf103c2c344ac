#include "common/config/service_host.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/base/file.h"
#include "tests/support/services.h"

namespace kernelcast {
namespace {

TEST_CASE("A service announces its addresses when it is ready, and ends when it is woken",
          "[config]") {
  const testing::TemporaryFolder folder("host");
  ServiceFlags flags;
  flags.metrics_address = "";
  flags.drain_seconds = 1.5;
  flags.ready_file = folder.File("ready.json");
  const auto host = ServiceHost::Start(flags, "kernelcast-test", "test-1");
  REQUIRE(host.ok());
  CHECK((*host)->grace() == absl::Milliseconds(1500));
  REQUIRE(
      (*host)
          ->AnnounceReady({.grpc = "127.0.0.1:1", .health = "127.0.0.1:2"}, {{"test_id", "test-1"}})
          .ok());
  CHECK(nlohmann::json::parse(ReadFile(flags.ready_file).value()) ==
        nlohmann::json({{"grpc", "127.0.0.1:1"}, {"health", "127.0.0.1:2"}}));
  (*host)->termination().Wake();
  (*host)->Wait();
}

TEST_CASE("A service whose ready file cannot be written is not ready", "[config]") {
  ServiceFlags flags;
  flags.metrics_address = "";
  flags.ready_file = "/proc/none/ready.json";
  const auto host = ServiceHost::Start(flags, "kernelcast-test", "test-1");
  REQUIRE(host.ok());
  CHECK(absl::IsUnavailable((*host)->AnnounceReady({.grpc = "127.0.0.1:1"})));
}

TEST_CASE("A service exits with its own code, and with 1 after an error", "[config]") {
  using Code = absl::StatusOr<int>;
  CHECK(RunService(
            "test", [](int argc, char**) -> Code { return argc + 5; }, 2, nullptr) == 7);
  CHECK(RunService(
            "test", [](int, char**) -> Code { return absl::AbortedError("x"); }, 0, nullptr) == 1);
  CHECK(RunService(
            "test", [](int, char**) -> Code { throw std::runtime_error("x"); }, 0, nullptr) == 1);
}

}  // namespace
}  // namespace kernelcast
