#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_TOOLCHAIN_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_TOOLCHAIN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// The system compiler as it is on this machine. Immutable.
struct Toolchain {
  std::string compiler;  // path
  std::string
      description;  // first line of --version, base flags, and a hash of what they mean here
  std::string architecture;                      // e.g. "x86-64/znver3"
  std::vector<std::string> include_directories;  // that it searches, most of all its own

  // Asks the compiler. NOT_FOUND: there is none of that name. FAILED_PRECONDITION: it does not do
  // what is needed, e.g. it is too old for C++20, or not for x86-64.
  [[nodiscard]] static absl::StatusOr<Toolchain> Probe(const std::string& compiler);
};

// Flags that every candidate is compiled with.
const std::vector<std::string>& BaseFlags();

// Environment of every compiler process.
std::vector<std::string> CompilerEnvironment(const std::string& temporary_directory);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_TOOLCHAIN_H_
