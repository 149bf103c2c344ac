#include <dirent.h>
#include <grpcpp/grpcpp.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/convert/convert.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"
#include "common/domain/text.h"
#include "common/process/child_process.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/core/cuda_checks.h"
#include "services/cli/core/not_simulated.h"
#include "services/cli/core/paths.h"
#include "services/cli/core/protection_checks.h"
#include "services/cli/core/table.h"
#include "services/cli/launch/kept_addresses.h"
#include "services/cli/rpc/channel.h"

namespace kernelcast::cli {
namespace {

constexpr absl::Duration kToolTimeout = absl::Seconds(30);
// The first recording waits until PyTorch is imported.
constexpr absl::Duration kRecordingTimeout = absl::Minutes(2);
constexpr absl::Duration kToolPoll = absl::Milliseconds(10);

class Examination {
 public:
  void Good(const std::string& name, const std::string& detail) {
    checks_.push_back({name, Verdict::kGood, detail});
  }
  void Note(const std::string& name, const std::string& detail) {
    checks_.push_back({name, Verdict::kNote, detail});
  }
  void Missing(const std::string& name, const std::string& detail) {
    checks_.push_back({name, Verdict::kMissing, detail});
  }
  void Add(Check check) { checks_.push_back(std::move(check)); }
  const std::vector<Check>& checks() const { return checks_; }
  // Drops all checks after the first `count`.
  void Truncate(size_t count) { checks_.resize(count); }

 private:
  std::vector<Check> checks_;
};

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string FileLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Runs a child until it ends, for kToolTimeout at most. CANCELLED: interrupted.
absl::StatusOr<ChildExit> RunChild(const ChildOptions& options, const Interrupt& interrupt) {
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child, ChildProcess::Spawn(options));
  const int64_t give_up_ns = Clock::Real().MonotonicNs() + absl::ToInt64Nanoseconds(kToolTimeout);
  while (!child->Poll()) {
    if (interrupt.requested()) return absl::CancelledError("interrupted");
    if (Clock::Real().MonotonicNs() > give_up_ns) break;
    interrupt.WaitFor(kToolPoll);
  }
  return child->Wait(0);
}

absl::StatusOr<ChildExit> RunTool(const Interrupt& interrupt, const std::vector<std::string>& argv,
                                  const std::string& folder) {
  ChildOptions options;
  options.argv = argv;
  options.working_directory = folder;
  const char* path = std::getenv("PATH");
  options.environment = {absl::StrCat("PATH=", path == nullptr ? "/usr/bin:/bin" : path),
                         "LC_ALL=C"};
  if (const char* libraries = std::getenv("LD_LIBRARY_PATH")) {
    options.environment.push_back(absl::StrCat("LD_LIBRARY_PATH=", libraries));
  }
  return RunChild(options, interrupt);
}

void CheckMachine(Examination& examination) {
  utsname system{};
  uname(&system);
  examination.Good("system",
                   absl::StrCat(system.sysname, " ", system.release, ", ", system.machine));
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  std::string model;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) == 0) {
      model = line.substr(std::min(line.size(), line.find(':') + 2));
      break;
    }
  }
  const std::string text = absl::StrCat(cores, " of ", model.empty() ? "unknown model" : model);
  if (cores < 2) {
    examination.Note("cores", text + "; with one core, compiling disturbs timing");
  } else {
    examination.Good("cores", text);
  }
  std::ifstream meminfo("/proc/meminfo");
  double available_kib = 0;
  for (std::string line; std::getline(meminfo, line);) {
    if (line.rfind("MemAvailable:", 0) == 0)
      available_kib = std::strtod(line.c_str() + 13, nullptr);
  }
  const std::string memory = FormatBytes(available_kib * 1024) + " available";
  if (available_kib < 1.5 * 1024 * 1024) {
    examination.Note("memory", memory + "; below 1.5 GiB compiles may fail");
  } else {
    examination.Good("memory", memory);
  }
  double load = 0;
  if (getloadavg(&load, 1) == 1) {
    const std::string shown = FormatFixed(load, 2) + " runnable tasks in the last minute";
    if (load > 0.5 * cores) {
      examination.Note("load", shown + "; other work on this machine widens intervals");
    } else {
      examination.Good("load", shown);
    }
  }
  const std::string governor = FileLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty() && governor != "performance") {
    examination.Note("clock",
                     "frequency governor is '" + governor + "'; 'performance' is more stable");
  } else if (!governor.empty()) {
    examination.Good("clock", "frequency governor is 'performance'");
  }
}

// Tests each compiler by compiling a candidate with the headers that workers use: those installed
// with the programs, or the system's.
void CheckCompilers(Examination& examination, const Interrupt& interrupt,
                    const std::string& program_folder) {
  const absl::StatusOr<std::unique_ptr<ScratchFolder>> scratch = ScratchFolder::Make();
  if (!scratch.ok()) {
    examination.Missing("compiler", std::string(scratch.status().message()));
    return;
  }
  const std::string& folder = (*scratch)->path();
  const std::string source = folder + "/probe.cc";
  std::ofstream(source)
      << "#include <dlpack/dlpack.h>\n#include <cmath>\n"
         "extern \"C\" int probe(const DLTensor* t) {\n"
         "  float sum = 0;\n"
         "  for (int i = 0; i < 64; ++i) sum += std::sqrt(((float*)t->data)[i]);\n"
         "  return static_cast<int>(sum);\n}\n";
  bool any = false;
  for (const char* name : {"g++", "clang++"}) {
    const absl::StatusOr<ChildExit> version = RunTool(interrupt, {name, "--version"}, folder);
    if (!version.ok() || !version->exited || version->exit_code != 0) continue;
    const std::string shown = OneLine(FirstLine(version->output));
    const absl::StatusOr<ChildExit> compiled = RunTool(
        interrupt,
        {name, "-std=c++20", "-O3", "-march=native", "-fPIC", "-shared",
         "-I" + program_folder + "/../include/kernelcast-candidate",
         "-I" + program_folder + "/../candidate_include", source, "-o", folder + "/probe.so"},
        folder);
    if (compiled.ok() && compiled->exited && compiled->exit_code == 0) {
      examination.Good(absl::StrCat("compiler ", name), shown);
      any = true;
    } else {
      const std::string why =
          compiled.ok() ? FirstLine(compiled->output) : std::string(compiled.status().message());
      examination.Note(absl::StrCat("compiler ", name),
                       absl::StrCat(shown, ", but cannot make a candidate: ", OneLine(why)));
    }
  }
  if (!any) {
    examination.Missing(
        "compiler",
        "neither g++ nor clang++ makes a C++20 shared object with <dlpack/dlpack.h>; "
        "apt-get install g++ brings a compiler, and libdlpack-dev the header in a checkout");
  }
}

// Starts each of the services' programs, to check that it finds its libraries.
void CheckPrograms(Examination& examination, const Interrupt& interrupt,
                   const std::string& folder) {
  std::vector<std::string> problems;
  for (const char* name : {"orchestrator", "worker", "runner", "forecaster"}) {
    const std::string program = absl::StrCat(folder, "/kernelcast-", name);
    if (access(program.c_str(), X_OK) != 0) {
      problems.push_back(absl::StrCat("kernelcast-", name, " is not in ", folder));
      continue;
    }
    if (std::string_view(name) == "runner") continue;  // only the worker starts it
    const absl::StatusOr<ChildExit> started = RunTool(interrupt, {program, "--version"}, "/");
    if (!started.ok() || !started->exited || started->exit_code != 0) {
      const std::string why =
          started.ok() ? FirstLine(started->output) : std::string(started.status().message());
      problems.push_back(absl::StrCat("kernelcast-", name, " does not start: ", OneLine(why)));
    }
  }
  if (problems.empty()) {
    examination.Good("services", absl::StrCat("all start, from ", folder));
  } else {
    examination.Missing("services", Join(problems, "; "));
  }
}

// Checks CUDA with a separate program: NVIDIA's libraries may be in any state.
void CheckCuda(Examination& examination, const Interrupt& interrupt, const std::string& folder,
               const std::string& python) {
  const std::string program = folder + "/kernelcast-cuda-probe";
  if (access(program.c_str(), X_OK) != 0) {
    examination.Note("cuda",
                     "built without CUDA, since NVIDIA's headers were missing; run "
                     "scripts/setup.sh and build again");
    return;
  }
  ChildOptions options;
  options.argv = {program};
  if (!python.empty()) options.argv.insert(options.argv.end(), {"--python", python});
  options.kept_output_bytes = options.max_output_bytes;
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "KERNELCAST_CUDA_HOME", "CUDA_HOME",
                           "CUDA_PATH", "CUDA_VISIBLE_DEVICES"}) {
    if (const char* value = std::getenv(name)) {
      options.environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  const absl::StatusOr<ChildExit> probed = RunChild(options, interrupt);
  const std::string output = probed.ok() ? probed->output : std::string(probed.status().message());
  for (Check& check : CudaChecks(output)) {
    examination.Add(std::move(check));
  }
}

void CheckState(Examination& examination, const absl::StatusOr<std::string>& state_dir) {
  if (!state_dir.ok()) {
    examination.Missing("state", std::string(state_dir.status().message()));
    return;
  }
  const std::string probe = *state_dir + "/.doctor";
  const absl::Status written = WriteFileAtomically(probe, "");
  unlink(probe.c_str());
  if (!written.ok()) {
    examination.Missing("state", std::string(written.message()));
    return;
  }
  struct statvfs space {};
  double free_bytes = 0;
  if (statvfs(state_dir->c_str(), &space) == 0) {
    free_bytes = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  }
  const std::string detail = absl::StrCat(*state_dir, ", ", FormatBytes(free_bytes), " free");
  if (free_bytes < 2e9) {
    examination.Note("state", detail + "; logs and artefacts may need more");
  } else {
    examination.Good("state", detail);
  }
}

void CheckPorts(Examination& examination) {
  if (!CanListen(0)) {
    examination.Missing("ports", "no port of 127.0.0.1 can be listened on");
  } else if (!CanListen(50051)) {
    examination.Note("ports", "50051 is in use: `kernelcast up` needs --listen, or runs already");
  } else {
    examination.Good("ports", "127.0.0.1:50051 is free");
  }
}

// Formats e.g. "memory 4.92 TB/s (2 x 3201 MHz x 6144 bits), float32 66.9 TFLOP/s (...)".
std::string PeaksText(const v1::TargetDescription& target) {
  std::string text;
  for (const v1::DevicePeak& peak : target.peaks()) {
    const bool memory = absl::StartsWith(peak.name(), "memory");
    const bool tera = peak.per_second() >= 1e12;
    absl::StrAppend(&text, text.empty() ? "" : ", ", OneLine(peak.name()), " ",
                    NumberText(peak.per_second() / (tera ? 1e12 : 1e9), 3), tera ? " T" : " G",
                    memory ? "B/s" : "FLOP/s", " (", OneLine(peak.detail()), ")");
  }
  return text;
}

// Whether a candidate with a Triton kernel is recorded and simulated, so that its forecast rests on
// more than a prior.
void CheckRecording(Examination& examination, v1::Worker::Stub& worker) {
  constexpr const char* kName = "PyTorch forecasts";
  constexpr const char* kTask = R"(import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(1024, 1024)]

def get_init_inputs():
    return []
)";
  constexpr const char* kCandidate = R"(import torch
import triton
import triton.language as tl

@triton.jit
def relu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at, mask=at < n), 0.0), mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
)";
  const absl::StatusOr<std::string> why = [&]() -> absl::StatusOr<std::string> {
    KC_ASSIGN_OR_RETURN(const Problem problem, ParseProblem({{"task.py", kTask}}));
    v1::PutProblemReply known;
    KC_RETURN_IF_ERROR(Call(worker, &v1::Worker::Stub::PutProblem, PutRequest(problem), &known));
    KC_ASSIGN_OR_RETURN(Candidate candidate, ReferenceCandidate(problem, kCudaTargetName));
    candidate.source = kCandidate;
    candidate.candidate_id = CandidateId(candidate);
    v1::CompileRequest request;
    request.set_request_id("doctor");
    request.set_problem_id(problem.problem_id);
    request.set_target(std::string(kCudaTargetName));
    *request.mutable_candidate() = ToProto(candidate);
    v1::CompileReply reply;
    KC_RETURN_IF_ERROR(
        Call(worker, &v1::Worker::Stub::Compile, request, &reply, kRecordingTimeout));
    if (reply.has_compile_error()) return OneLine(reply.compile_error().log());
    const CompileFacts facts = FromProto(reply.success().facts());
    if (facts.simulations.empty()) return "the virtual GPU does not know this GPU";
    return WhyNotSimulated(facts);
  }();
  if (!why.ok() || !why->empty()) {
    examination.Note(kName,
                     absl::StrCat("a candidate with a Triton kernel is not simulated: ",
                                  why.ok() ? *why : OneLine(std::string(why.status().message()))));
  } else {
    examination.Good(kName, "a candidate with a Triton kernel is recorded and simulated");
  }
}

void CheckWorker(Examination& examination, Connection& connection) {
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = connection.Worker();
  if (!channel.ok()) {
    examination.Missing("worker", OneLine(std::string(channel.status().message())));
    return;
  }
  const auto stub = v1::Worker::NewStub(*channel);
  v1::WorkerDescription description;
  const absl::Status status = Call(*stub, &v1::Worker::Stub::Describe, v1::WorkerDescribeRequest(),
                                   &description, absl::Seconds(10));
  if (!status.ok()) {
    examination.Missing("worker", OneLine(std::string(status.message())));
    return;
  }
  std::vector<TriedTarget> targets;
  for (const v1::TargetDescription& target : description.targets()) {
    targets.push_back({OneLine(target.target()), target.can_compile(), target.can_measure()});
    const std::string name = absl::StrCat("target ", targets.back().name);
    std::string detail = OneLine(absl::StrCat(target.device().model(), ", ", target.toolchain()));
    if (target.can_compile() && target.can_measure()) {
      examination.Good(name, detail);
      if (target.peaks_size() > 0) examination.Good(name + " peaks", PeaksText(target));
    } else {
      // The worker's reason says what it cannot do.
      examination.Note(name, absl::StrCat(target.can_compile() ? "compiles; " : "",
                                          OneLine(target.unavailable_reason())));
    }
    const auto& kinds = target.candidate_kinds();
    if (target.target() == kCudaTargetName && target.can_compile() &&
        std::ranges::find(kinds, v1::CANDIDATE_KIND_PYTHON) != kinds.end()) {
      CheckRecording(examination, *stub);
    }
    for (const std::string& tool : target.missing_tools()) {
      examination.Note(name + " tools", OneLine(tool));
    }
  }
  std::vector<std::string> missing;
  for (const std::string& name : description.missing_protections()) {
    missing.push_back(OneLine(name));
  }
  for (Check& check : ProtectionChecks(targets, missing)) examination.Add(std::move(check));
}

void CheckOrchestrator(Examination& examination, const std::string& address,
                       const ChannelOptions& options) {
  if (address.empty()) {
    examination.Good("orchestrator", "none is running; commands start one");
    return;
  }
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      Connect("orchestrator", address, options, absl::Seconds(3));
  if (!channel.ok()) {
    examination.Missing("orchestrator", std::string(channel.status().message()));
    return;
  }
  const auto stub = v1::Orchestrator::NewStub(*channel);
  v1::OrchestratorDescription description;
  const absl::Status status =
      Call(*stub, &v1::Orchestrator::Stub::Describe, v1::OrchestratorDescribeRequest(),
           &description, absl::Seconds(10));
  if (!status.ok()) {
    examination.Missing("orchestrator", OneLine(std::string(status.message())));
    return;
  }
  const auto healthy = [](const auto& services) {
    return std::count_if(services.begin(), services.end(),
                         [](const auto& service) { return service.healthy(); });
  };
  const std::string detail = absl::StrCat(
      address, ", version ", description.version(), ", ", healthy(description.workers()), " of ",
      description.workers_size(), " workers and ", healthy(description.forecasters()), " of ",
      description.forecasters_size(), " forecasters healthy");
  std::string sick;
  for (const v1::WorkerStatus& worker : description.workers()) {
    if (!worker.healthy()) {
      absl::StrAppend(&sick, "; worker ", worker.address(), ": ",
                      OneLine(worker.unhealthy_reason()));
    }
  }
  for (const v1::ForecasterStatus& forecaster : description.forecasters()) {
    if (!forecaster.healthy()) {
      absl::StrAppend(&sick, "; forecaster ", forecaster.address(), ": ",
                      OneLine(forecaster.unhealthy_reason()));
    }
  }
  if (sick.empty()) {
    examination.Good("orchestrator", detail);
  } else {
    examination.Note("orchestrator", detail + sick);
  }
}

void CheckLlm(Examination& examination, const Interrupt& interrupt, const llm::LlmFlags& flags) {
  if (!flags.given()) {
    examination.Good("llm", "no endpoint given; --llm URL checks one");
    return;
  }
  std::string found;
  absl::Status status = CheckEndpoints(flags, found);
  if (status.ok()) status = TryEndpoints(flags, interrupt, found);
  if (status.ok()) {
    examination.Good("llm", OneLine(found));
  } else {
    examination.Missing("llm", OneLine(std::string(status.message())));
  }
}

struct DoctorFlags {
  ConnectionFlags connection;
  llm::LlmFlags llm;
  std::string orchestrator;
};

absl::StatusOr<ExitCode> RunDoctor(Context& context, const DoctorFlags& flags) {
  Console& console = context.console;
  Examination examination;
  examination.Good("kernelcast", absl::StrCat(std::string(Version()), " ", std::string(Revision()),
                                              ", gRPC ", grpc::Version()));
  const Interrupt& interrupt = context.interrupt;
  const std::string& service_dir =
      flags.connection.service_dir.empty() ? context.program_folder : flags.connection.service_dir;
  const absl::StatusOr<std::string> state_dir = StateDir(context, flags.connection);
  Connection connection(context, flags.connection, Needs::kWorker);
  const std::function<void()> steps[] = {
      [&] { CheckMachine(examination); },
      [&] { CheckCompilers(examination, interrupt, service_dir); },
      [&] { CheckPrograms(examination, interrupt, service_dir); },
      [&] {
        CheckCuda(examination, interrupt, context.program_folder,
                  PythonOf(context, flags.connection));
      },
      [&] { CheckState(examination, state_dir); },
      [&] { CheckPorts(examination); },
      [&] { CheckLlm(examination, interrupt, flags.llm); },
      [&] {
        // Before the trial worker locks the folder.
        std::string orchestrator = flags.orchestrator;
        if (orchestrator.empty() && state_dir.ok() && StateIsLocked(*state_dir)) {
          const absl::StatusOr<ServiceAddresses> running = ReadServiceAddresses(*state_dir);
          if (running.ok()) orchestrator = running->orchestrator;
        }
        CheckOrchestrator(examination, orchestrator, flags.connection.channel);
      },
      [&] { CheckWorker(examination, connection); }};
  for (const std::function<void()>& step : steps) {
    const size_t before = examination.checks().size();
    step();
    if (!interrupt.requested()) continue;
    examination.Truncate(before);  // the step may have been cut short
    break;
  }

  bool all_good = true;
  Table table({{""}, {"what"}, {"finding", Table::Align::kLeft, false, true}});
  const Style& style = console.style();
  for (const Check& check : examination.checks()) {
    const char* word = check.verdict == Verdict::kGood   ? "ok"
                       : check.verdict == Verdict::kNote ? "note"
                                                         : "missing";
    table.AddRow({check.verdict == Verdict::kGood   ? style.Green(word)
                  : check.verdict == Verdict::kNote ? style.Yellow(word)
                                                    : style.Red(word),
                  check.name, check.detail});
    all_good = all_good && check.verdict != Verdict::kMissing;
    console.Line({{"check", check.name}, {"verdict", word}, {"detail", check.detail}});
  }
  console.Out(table.Render(style, console.width()));
  KC_RETURN_IF_ERROR(CheckInterrupt(context));
  return all_good ? ExitCode::kOk : ExitCode::kNegative;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<DoctorFlags>();
  CLI::App* doctor =
      AddCommand(app, context, "doctor", "Check what this machine can do and what is missing",
                 [&context, flags] { return RunDoctor(context, *flags); });
  doctor->add_option("--orchestrator", flags->orchestrator, "Orchestrator to check")
      ->envname("KERNELCAST_ORCHESTRATOR")
      ->type_name("HOST:PORT");
  llm::AddLlmFlags(*doctor, flags->llm);
  AddConnectionFlags(*doctor, flags->connection, Needs::kWorker);
}

}  // namespace kernelcast::cli
