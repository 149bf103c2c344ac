#include "common/process/available_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace kernelcast {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

// The first number in a file, or kUnknown if there is none, as in "max".
int64_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : kUnknown;
}

int64_t OfMachine(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    int64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") return kib * 1024;
  }
  return kUnknown;
}

int64_t OfControlGroups(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  std::string group;
  while (std::getline(file, line)) {
    if (line.rfind("0::", 0) == 0) group = line.substr(3);
  }
  int64_t least = kUnknown;
  // Parent groups have limits too. A container sees its own group as "/".
  while (true) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    const std::string folder = root + "/sys/fs/cgroup" + group;
    const int64_t limit = NumberIn(folder + "/memory.max");
    const int64_t used = NumberIn(folder + "/memory.current");
    if (limit != kUnknown && used != kUnknown) {
      least = std::min(least, std::max<int64_t>(0, limit - used));
    }
    if (group.empty()) return least;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

int64_t OfAddressSpace(const std::string& root) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  const int64_t pages = NumberIn(root + "/proc/self/statm");
  const int64_t used = pages == kUnknown ? 0 : pages * sysconf(_SC_PAGESIZE);
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used);
}

}  // namespace

int64_t AvailableMemoryBytes(const std::string& root) {
  return std::min({OfMachine(root), OfControlGroups(root), OfAddressSpace(root)});
}

}  // namespace kernelcast
