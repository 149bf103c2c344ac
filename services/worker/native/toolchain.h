#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_TOOLCHAIN_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_TOOLCHAIN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// The system compiler of this machine. Immutable.
struct Toolchain {
  std::string compiler;  // absolute path
  // GNU as, an absolute path, which starts faster than the compiler's driver. Empty: the driver
  // assembles.
  std::string assembler;
  std::string
      description;  // first line of --version, base flags, and a hash of what they mean here
  std::string architecture;                      // e.g. "x86-64/znver3"
  std::vector<std::string> include_directories;  // searched by the compiler, mostly its own
  // Programs, headers and libraries that compiling and linking read. Shorter paths come first.
  std::vector<std::string> read_only;

  // Queries the compiler. NOT_FOUND: no such program. FAILED_PRECONDITION: it is unsuitable, e.g.
  // too old for C++20 or not for x86-64.
  [[nodiscard]] static absl::StatusOr<Toolchain> Probe(const std::string& compiler);
};

// Flags that every candidate is compiled with.
const std::vector<std::string>& BaseFlags();

// Driver arguments to link a shared object, for all candidates, followed by `more`. Link-time
// optimisation is off: its output would not be what was checked.
std::vector<std::string> LinkArguments(const std::vector<std::string>& more);

// Environment of every compiler process.
std::vector<std::string> CompilerEnvironment(const std::string& temporary_directory);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_TOOLCHAIN_H_
