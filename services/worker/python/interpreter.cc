#include "services/worker/python/interpreter.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/process/child_process.h"
#include "services/worker/native/toolchain.h"

namespace kernelcast::worker {

extern const char* const kTorchProbe;

namespace {

constexpr int64_t kProbeLimitNs = 60'000'000'000;

}  // namespace

absl::StatusOr<PythonInterpreter> ProbeInterpreter(const std::string& python, const char* probe,
                                                   std::string_view package) {
  ChildOptions options;
  // -I: neither the worker's folder nor its user's packages.
  options.argv = {python, "-I", "-W", "ignore", "-c", probe};
  options.environment = CompilerEnvironment("/tmp");
  options.kept_output_bytes = 1 << 20;
  KC_ASSIGN_OR_RETURN(const auto child, ChildProcess::Spawn(options));
  const ChildExit exit = child->Wait(kProbeLimitNs);
  if (!exit.exited || exit.exit_code != 0) {
    std::string_view text = exit.output;
    while (text.ends_with('\n')) text.remove_suffix(1);
    text.remove_prefix(text.rfind('\n') == std::string_view::npos ? 0 : text.rfind('\n') + 1);
    return absl::FailedPreconditionError(
        absl::StrCat(python, " cannot import ", std::string(package), ": ",
                     exit.timed_out ? "no answer" : std::string(text)));
  }
  PythonInterpreter found;
  for (const auto part : absl::StrSplit(exit.output, '\n')) {
    const std::string_view line(part.data(), part.size());
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, blank);
    std::string value(line.substr(blank + 1));
    if (key == "program")
      found.program = std::move(value);
    else if (key == "version")
      found.package_version = std::move(value);
    else if (key == "tools")
      found.tools = std::move(value);
    else if (key == "cuda")
      found.cuda_version = std::move(value);
    else if (key == "python")
      found.python_version = std::move(value);
    else if (key == "package")
      found.packages.push_back(std::move(value));
    else if (key == "show")
      found.read_only.push_back(std::move(value));
  }
  if (found.program.empty() || found.package_version.empty() || found.packages.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(python, " did not describe itself"));
  }
  // Needed to start any program.
  for (const char* path :
       {"/lib64/ld-linux-x86-64.so.2", "/etc/ld.so.cache", "/etc/alternatives"}) {
    found.read_only.emplace_back(path);
  }
  found.read_only.push_back(found.program);
  std::ranges::sort(found.read_only, [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  found.read_only.erase(std::unique(found.read_only.begin(), found.read_only.end()),
                        found.read_only.end());
  return found;
}

absl::StatusOr<PythonInterpreter> ProbeTorch(const std::string& python) {
  return ProbeInterpreter(python, kTorchProbe, "torch");
}

std::vector<std::string> ProgramArguments(std::string_view program) {
  // Linux allows 128 KiB for an argument.
  constexpr size_t kPartBytes = 100'000;
  std::vector<std::string> parts;
  for (; !program.empty(); program.remove_prefix(std::min(kPartBytes, program.size()))) {
    parts.emplace_back(program.substr(0, kPartBytes));
  }
  std::vector<std::string> arguments = {
      "-c", absl::StrCat("import os, sys\nprogram = os.fsencode(''.join(sys.argv[1:",
                         parts.size() + 1, "]))\ndel sys.argv[1:", parts.size() + 1,
                         "]\nexec(compile(program, '<string>', 'exec'))\n")};
  arguments.insert(arguments.end(), parts.begin(), parts.end());
  return arguments;
}

}  // namespace kernelcast::worker
