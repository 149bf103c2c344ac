#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_STEP_VERDICT_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_STEP_VERDICT_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/worker/native/compiler_step.h"

namespace kernelcast::worker {

// Tells a source that a compiler refuses from a compiler that does not work, such as on a full disk
// or without memory.

// How a program shows that it refuses its input.
enum class Evidence {
  // A diagnostic that names a line. For drivers: they also report programs that were killed, and
  // their exit code is the same.
  kDiagnostic,
  // Its own exit code. For programs that read the input themselves.
  kExitCode,
};

// Whether a compiler's output has an error at a line of a source ("kernel.cc:3:5: error: ",
// "kernel.cu(3): error: ", "kernel.s:3: Error: "). Fatal errors are not meant: a full disk gives
// one as well as a missing header.
bool HasErrorAtLine(std::string_view log);
// The same for any diagnostic that ends a compilation, also for those of the compiler proper and of
// NVIDIA's assembler and linker that name no line.
bool HasFatalDiagnostic(std::string_view log);

using StepFunction = std::function<absl::StatusOr<CompilerStep>()>;

// Runs `step`, in `directory`. A failure that proves nothing is repeated while no other compiler
// runs, and counts as a refusal only if `control`, the same program on a correct input, succeeds.
// UNAVAILABLE: the compiler does not work here at the moment. Otherwise returns the status of a
// step.
[[nodiscard]] absl::StatusOr<CompilerStep> RunWithVerdict(const std::string& directory,
                                                          Evidence evidence,
                                                          const StepFunction& step,
                                                          const StepFunction& control);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_STEP_VERDICT_H_
