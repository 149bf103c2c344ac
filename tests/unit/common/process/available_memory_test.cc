#include "common/process/available_memory.h"

#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace kernelcast {
namespace {

// System files in a temporary folder, by path.
class System {
 public:
  System() {
    char pattern[] = "/tmp/kernelcast_test_XXXXXX";
    REQUIRE(mkdtemp(pattern) != nullptr);
    root_ = pattern;
  }
  ~System() { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }
  int64_t Available() const { return AvailableMemoryBytes(root_); }

 private:
  std::string root_;
};

TEST_CASE("Available memory is the minimum of machine and control group limits") {
  const System system;
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
  if (limit.rlim_cur == RLIM_INFINITY) {
    CHECK(system.Available() == std::numeric_limits<int64_t>::max());
  }
  system.Write("/proc/meminfo", "MemTotal: 2000 kB\nMemFree: 10 kB\nMemAvailable:  1000 kB\n");
  CHECK(system.Available() == 1000 * 1024);
  system.Write("/proc/self/cgroup", "1:name=systemd:/x\n0::/pods/worker\n");
  system.Write("/sys/fs/cgroup/pods/worker/memory.max", "max\n");
  system.Write("/sys/fs/cgroup/pods/worker/memory.current", "5000\n");
  CHECK(system.Available() == 1000 * 1024);
  system.Write("/sys/fs/cgroup/pods/worker/memory.max", "900000\n");
  CHECK(system.Available() == 895'000);
  system.Write("/sys/fs/cgroup/pods/memory.max", "60000\n");
  system.Write("/sys/fs/cgroup/pods/memory.current", "50000\n");
  CHECK(system.Available() == 10'000);
  system.Write("/sys/fs/cgroup/memory.max", "100\n");
  system.Write("/sys/fs/cgroup/memory.current", "200\n");
  CHECK(system.Available() == 0);
}

TEST_CASE("An address space limit counts") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit some = before;
  some.rlim_cur = std::min<rlim_t>(before.rlim_max, rlim_t{1} << 46);
  REQUIRE(setrlimit(RLIMIT_AS, &some) == 0);
  const System nothing;
  CHECK(nothing.Available() == static_cast<int64_t>(some.rlim_cur));
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
}

}  // namespace
}  // namespace kernelcast
