#ifndef KERNELCAST_SERVICES_WORKER_PYTHON_INTERPRETER_H_
#define KERNELCAST_SERVICES_WORKER_PYTHON_INTERPRETER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// A Python interpreter that has a package, and what it reads when it uses it.
struct PythonInterpreter {
  std::string program;  // absolute path, without links
  std::string python_version;
  std::string package_version;
  std::string cuda_version;  // that PyTorch was made for; empty: none
  std::string tools;         // folder of the programs of its environment; empty: not known
  // Where modules come from besides the standard library: packages, modules and their metadata, or
  // folders of packages, as the probe says.
  std::vector<std::string> packages;
  // Files and folders: the standard library, the packages, and shared libraries.
  std::vector<std::string> read_only;
};

// Runs a probe (probe.py, torch_probe.py) in the interpreter, which is trusted. `python` is a path,
// relative to the working directory, or a name that is looked up in PATH. `package` is named in
// errors. NOT_FOUND: no such program. FAILED_PRECONDITION: it does not have the package, or is
// too old; the message says what it printed.
[[nodiscard]] absl::StatusOr<PythonInterpreter> ProbeInterpreter(const std::string& python,
                                                                 const char* probe,
                                                                 std::string_view package);

// An interpreter with PyTorch. Errors are those of ProbeInterpreter.
[[nodiscard]] absl::StatusOr<PythonInterpreter> ProbeTorch(const std::string& python);

// Arguments with which an interpreter runs a program of any length; those of the program follow.
std::vector<std::string> ProgramArguments(std::string_view program);

// Programs that the worker runs in an interpreter: runner.py executes tasks and candidates,
// cuda_runner.py does on a GPU, launch_recorder.py records what they launch (a program of
// CompileServer), and source_check.py checks the source of a candidate.
extern const char* const kPythonRunner;
extern const char* const kPythonCudaRunner;
extern const char* const kPythonLaunchRecorder;
extern const char* const kPythonSourceCheck;

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_PYTHON_INTERPRETER_H_
