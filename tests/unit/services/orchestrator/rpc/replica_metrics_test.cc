#include "services/orchestrator/rpc/replica_metrics.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace kernelcast::orchestrator {
namespace {

using Catch::Matchers::Contains;

std::string Line(const std::string& name, const std::string& value) {
  return absl::StrCat("\nkernelcast_orchestrator_", name, " ", value, "\n");
}

TEST_CASE("A single orchestrator exposes no shards and no leases", "[orchestrator][metrics]") {
  MetricsRegistry registry;
  const ReplicaMetrics metrics(&registry);
  const std::string text = registry.Text();
  for (const char* name :
       {"shards_held", "shards_unserved", "shards_taken_total", "shards_lost_total",
        "shards_failed_total", "replicas", "lease_renewals_total{result=\"ok\"}",
        "lease_renewals_total{result=\"failed\"}", "leases_renewed_timestamp_seconds",
        "forwarded_calls_total"}) {
    CHECK_THAT(text, Contains(Line(name, "0")));
  }
}

TEST_CASE("Shard figures are shown individually and their sums once", "[orchestrator][metrics]") {
  MetricsRegistry registry;
  ReplicaMetrics metrics(&registry);
  ShardFigures figures;
  figures.held = 3;
  figures.unserved = 2;
  figures.replicas = 4;
  figures.taken = 5;
  figures.lost = 1;
  figures.failed = 6;
  figures.renewals = 7;
  figures.failed_renewals = 8;
  figures.renewed_wall_ns = 12'500'000'000;
  metrics.Show(figures);
  figures.held = 0;
  figures.taken = 9;
  metrics.Show(figures);
  metrics.CountForwarded();
  const std::string text = registry.Text();
  CHECK_THAT(text, Contains(Line("shards_held", "0")));
  CHECK_THAT(text, Contains(Line("shards_unserved", "2")));
  CHECK_THAT(text, Contains(Line("replicas", "4")));
  CHECK_THAT(text, Contains(Line("shards_taken_total", "9")));
  CHECK_THAT(text, Contains(Line("shards_lost_total", "1")));
  CHECK_THAT(text, Contains(Line("shards_failed_total", "6")));
  CHECK_THAT(text, Contains(Line("lease_renewals_total{result=\"ok\"}", "7")));
  CHECK_THAT(text, Contains(Line("lease_renewals_total{result=\"failed\"}", "8")));
  CHECK_THAT(text, Contains(Line("leases_renewed_timestamp_seconds", "12.5")));
  CHECK_THAT(text, Contains(Line("forwarded_calls_total", "1")));
}

}  // namespace
}  // namespace kernelcast::orchestrator
