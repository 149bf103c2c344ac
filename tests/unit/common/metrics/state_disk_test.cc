#include "common/metrics/state_disk.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "common/base/disk_space.h"
#include "common/base/id.h"

namespace kernelcast::state_disk_test {
namespace {

double ValueOf(const std::string& text, const std::string& metric) {
  const size_t at = text.find("\n" + metric + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + metric.size() + 2));
}

TEST_CASE("The space on the disk of a service's state is a metric", "[metrics]") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / RandomId("kernelcast-disk-");
  MetricsRegistry metrics;
  const StateDisk disk(folder, &metrics, absl::Milliseconds(1));
  // Until there is the folder, its file system is not known.
  CHECK(ValueOf(metrics.Text(), "kernelcast_state_disk_free_bytes") == -1);
  std::filesystem::create_directory(folder);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (ValueOf(metrics.Text(), "kernelcast_state_disk_used_bytes") == -1 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  const std::string text = metrics.Text();
  const DiskSpace space = DiskSpaceOf(folder).value();
  std::filesystem::remove(folder);
  const double used = ValueOf(text, "kernelcast_state_disk_used_bytes");
  const double free = ValueOf(text, "kernelcast_state_disk_free_bytes");
  CHECK(used > 0);
  CHECK(free > 0);
  CHECK(used + free == Approx(static_cast<double>(space.total_bytes)));
}

}  // namespace
}  // namespace kernelcast::state_disk_test
