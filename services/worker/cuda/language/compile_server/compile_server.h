#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_COMPILE_SERVER_COMPILE_SERVER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_COMPILE_SERVER_COMPILE_SERVER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/options.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/python/interpreter.h"

namespace kernelcast::worker {

struct CompileServerOptions {
  // The compiler's name, such as "Triton". Its package has this name in lower case.
  std::string compiler;
  // The language's program, which follows compile_server.py:
  //   PACKAGE                   name of the package
  //   FILES                     what it reads besides packages and libraries
  //   import_compiler()         imports it
  //   compile_request(request)  runs the source and compiles it; returns the fields of the answer
  //   describe(error)           text of an error of the compiler, or None
  // The probe follows it too, so its top level uses nothing of compile_server.py.
  const char* program = nullptr;
  PythonInterpreter python = {};  // Start fills it in
  CompilerSandbox sandbox;        // read_only is not used
  std::string work_directory;     // an empty folder is made in it
  int64_t start_timeout_ns = 120'000'000'000;
  int64_t fork_timeout_ns = 10'000'000'000;
  // Limits of the process of one compilation.
  int64_t timeout_ns = 60'000'000'000;
  int64_t max_memory_bytes = int64_t{8} << 30;  // address space
  int64_t max_reply_bytes = 64 << 20;
  int64_t max_output_bytes = kMaxCandidateOutputBytes;
};

// A compiler that is a package of Python. A process in the compilers' sandbox has imported it, and
// forks a child for each compilation. The child can only compute, read what the interpreter and the
// compiler consist of, and answer: it cannot write or create files, start programs or processes, or
// signal others. Candidates' code runs in children only, so that nothing of it remains. The process
// is restarted if it ends. Thread-safe.
//
// Protocol between the worker and compile_server.py. Frames are those of compiler_wire.
//
//   server    --error-->                               empty: the compiler is imported
//   worker    --a byte with two descriptors-->         a socket, and a file for the child's output
//   server    --the child's process id in 8 bytes-->
//   worker    --limits, filter, fields-->    child, over the socket
//   child     --code, log, fields-->         worker; untrusted
//
// The server waits for a child only when the worker has closed its end of the socket, so the
// process id stays the child's until then.
class CompileServer {
 public:
  // `python` is the interpreter; ProbeInterpreter says how it is found. UNAVAILABLE: it has not the
  // compiler, or the process cannot be started; says what is missing. CANCELLED, DEADLINE_EXCEEDED:
  // the token was stopped.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CompileServer>> Start(
      CompileServerOptions options, const std::string& python, const CancelToken& cancel);
  // With a known interpreter. The process starts with the first compilation.
  explicit CompileServer(CompileServerOptions options);
  ~CompileServer();
  CompileServer(const CompileServer&) = delete;
  CompileServer& operator=(const CompileServer&) = delete;

  const PythonInterpreter& python() const { return options_.python; }

  // Blocks until the process has imported the compiler. UNAVAILABLE: it cannot be started.
  // CANCELLED, DEADLINE_EXCEEDED: the token was stopped.
  [[nodiscard]] absl::Status Warm(const CancelToken& cancel);

  // The fields that compile_request() returned, which are untrusted, or why there are none.
  using Outcome = std::variant<std::string, CompileError>;
  // Blocks. `fields` are what compile_request() reads. Several calls compile in parallel.
  // UNAVAILABLE: the process has ended, the child could not be restricted, or the machine killed
  // it. CANCELLED, DEADLINE_EXCEEDED: the token was stopped.
  [[nodiscard]] absl::StatusOr<Outcome> Compile(std::string_view fields, const CancelToken& cancel);

 private:
  class Process;

  // Starts the process if there is none that lives.
  absl::StatusOr<std::shared_ptr<Process>> Running(const CancelToken& cancel);

  const CompileServerOptions options_;
  std::mutex mutex_;
  // Shared by the compilations that use it; replaced if it ends. Protected by mutex_.
  std::shared_ptr<Process> process_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_COMPILE_SERVER_COMPILE_SERVER_H_
