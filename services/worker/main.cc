// kernelcast-worker: compiles, verifies and times candidates.

#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/config/service_flags.h"
#include "common/metrics/metrics.h"
#include "common/rpc/server.h"
#include "services/worker/cpu/cpu_target.h"
#ifdef KERNELCAST_HAS_CUDA
#include "services/worker/cuda/target/cuda_target.h"
#endif
#include "services/worker/replay/replay_target.h"
#include "services/worker/rpc/record_reader.h"
#include "services/worker/rpc/worker_service.h"

namespace kernelcast::worker {
namespace {

// Measuring is one at a time: a long queue would only commit callers early. Replaying is not.
constexpr uint32_t kMeasureCredits = 4;
constexpr uint32_t kReplayCredits = 1024;
constexpr uint32_t kCompileCreditsPerJob = 4;

struct Flags {
  ServiceFlags service;
  std::string worker_id;
  std::string cache_dir = "kernelcast-state/worker";
  int64_t cache_max_bytes = int64_t{1} << 30;
  std::string compiler = "g++";
  std::vector<std::string> include_dirs;
  int compile_jobs = 0;
  uint32_t compile_credits = 0;
  uint32_t measure_credits = 0;
  std::string runner;
  int64_t memory_limit_bytes = RunnerOptions().max_memory_bytes;
  uint32_t runner_uid = 65534;
  std::string lease_file = "/tmp/kernelcast-timing.lock";
  std::string cuda_home;
  std::string cuda_architecture;
  std::vector<std::string> replay;
  double replay_pace = 0;
};

// Of this program, so that what is installed beside it is found.
std::filesystem::path OwnFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

// Folders with the headers that candidates include: beside the program when it is installed, in the
// sources where it was built.
std::vector<std::string> IncludeFolders(const Flags& flags) {
  if (!flags.include_dirs.empty()) {
    return flags.include_dirs;
  }
  std::vector<std::string> folders;
  for (const std::filesystem::path& folder :
       {OwnFolder() / "../include/kernelcast-candidate", OwnFolder() / "../candidate_include"}) {
    std::error_code ignored;
    if (std::filesystem::exists(folder / "kernelcast/candidate.h", ignored)) {
      folders.push_back(std::filesystem::canonical(folder, ignored).string());
    }
  }
  return folders;
}

int CompileThreads(const Flags& flags) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return flags.compile_jobs > 0 ? flags.compile_jobs : cores;
}

absl::StatusOr<std::map<std::string, std::unique_ptr<Target>>> MakeTargets(
    const Flags& flags, const std::string& worker_id) {
  std::map<std::string, std::unique_ptr<Target>> targets;
  std::vector<ReplayRecord> records;
  for (const std::string& file : flags.replay) {
    KC_ASSIGN_OR_RETURN(std::vector<ReplayRecord> read, ReadRecords(file));
    records.insert(records.end(), std::make_move_iterator(read.begin()),
                   std::make_move_iterator(read.end()));
  }
  std::set<std::string> recorded;
  for (const ReplayRecord& record : records) {
    recorded.insert(record.target);
  }
  for (const std::string& target : recorded) {
    auto replay = std::make_unique<ReplayTarget>(target, records, flags.replay_pace);
    Log(LogLevel::kInfo, "replaying", {{"target", target}, {"candidates", replay->size()}});
    targets[target] = std::move(replay);
  }
  if (recorded.count(std::string(kCpuTargetName)) > 0) {
    return targets;
  }

  CpuTargetOptions cpu;
  cpu.compiler = flags.compiler;
  cpu.cache_directory = absl::StrCat(flags.cache_dir, "/artifacts");
  cpu.max_cache_bytes = flags.cache_max_bytes;
  cpu.include_directories = IncludeFolders(flags);
  cpu.lease_file = flags.lease_file;
  cpu.worker_id = worker_id;
  cpu.runner.path =
      flags.runner.empty() ? (OwnFolder() / "kernelcast-runner").string() : flags.runner;
  cpu.runner.max_memory_bytes = flags.memory_limit_bytes;
  cpu.runner.uid = flags.runner_uid;
  KC_ASSIGN_OR_RETURN(targets[std::string(kCpuTargetName)], CpuTarget::Make(std::move(cpu)));
#ifdef KERNELCAST_HAS_CUDA
  if (recorded.count(std::string(kCudaTargetName)) == 0) {
    CudaTargetOptions cuda;
    cuda.cuda_home = flags.cuda_home;
    cuda.program_folder = OwnFolder().string();
    cuda.architecture = flags.cuda_architecture;
    cuda.cache_directory = absl::StrCat(flags.cache_dir, "/cuda-artifacts");
    cuda.max_cache_bytes = flags.cache_max_bytes;
    cuda.compile_processes = CompileThreads(flags);
    cuda.host_compiler = flags.compiler;
    cuda.include_directories = IncludeFolders(flags);
    cuda.untrusted_uid = flags.runner_uid;
    cuda.host_memory_bytes = flags.memory_limit_bytes;
    cuda.lease_directory = flags.lease_file.empty()
                               ? ""
                               : std::filesystem::path(flags.lease_file).parent_path().string();
    cuda.worker_id = worker_id;
    KC_ASSIGN_OR_RETURN(targets[std::string(kCudaTargetName)], CudaTarget::Make(std::move(cuda)));
  }
#endif
  return targets;
}

int Fail(const absl::Status& status) {
  Log(LogLevel::kError, "the worker cannot start", {{"error", std::string(status.message())}});
  return 1;
}

int Run(const Flags& flags) {
  TerminationSignal termination;
  // Candidates run as this process's children, with its user where it is not root: its memory,
  // where the expected outputs are, is not for them to read.
  prctl(PR_SET_DUMPABLE, 0);
  MetricsRegistry metrics;

  WorkerService::Options options;
  options.worker_id = flags.worker_id.empty() ? RandomId("worker-") : flags.worker_id;
  const auto tracing = ProcessTracing::Start(flags.service.tracing, "kernelcast-worker",
                                             options.worker_id, &metrics);
  if (!tracing.ok()) return Fail(tracing.status());
  auto targets = MakeTargets(flags, options.worker_id);
  if (!targets.ok()) return Fail(targets.status());
  std::map<std::string, Target*> borrowed;
  for (const auto& [name, target] : *targets) {
    borrowed[name] = target.get();
    const TargetInfo info = target->Describe();
    if (!info.unavailable_reason.empty()) {
      const bool serves = info.can_compile && info.can_measure;
      Log(serves ? LogLevel::kInfo : LogLevel::kWarning,
          serves ? "a target does without" : "a target is not available",
          {{"target", name}, {"reason", info.unavailable_reason}});
    }
    for (const std::string& protection : info.missing_protections) {
      Log(LogLevel::kWarning,
          "candidates run without a protection that this machine does not grant",
          {{"target", name}, {"protection", protection}});
    }
  }

  options.compile_threads = CompileThreads(flags);
  const bool replaying = !flags.replay.empty() && flags.replay_pace == 0;
  options.compile_credits =
      flags.compile_credits > 0 ? flags.compile_credits
      : replaying               ? kReplayCredits
                  : kCompileCreditsPerJob * static_cast<uint32_t>(options.compile_threads);
  options.measure_credits = flags.measure_credits > 0 ? flags.measure_credits
                            : replaying               ? kReplayCredits
                                                      : kMeasureCredits;
  WorkerService service(options, borrowed, metrics);

  auto server = RpcServer::Start(flags.service.server, {&service}, &metrics);
  if (!server.ok()) return Fail(server.status());
  if (!flags.service.metrics_address.empty()) {
    if (const absl::Status status = metrics.Serve(flags.service.metrics_address); !status.ok()) {
      return Fail(status);
    }
  }
  if (const absl::Status status =
          WriteReadyFile(flags.service, {.grpc = (*server)->address(),
                                         .metrics_port = metrics.port(),
                                         .health = (*server)->health_address(),
                                         .status = ""});
      !status.ok()) {
    return Fail(status);
  }
  Log(LogLevel::kInfo, "serving",
      {{"address", (*server)->address()},
       {"metrics_port", metrics.port()},
       {"worker_id", options.worker_id},
       {"compile_threads", options.compile_threads}});

  const int signal_number = termination.Wait();
  Log(LogLevel::kInfo, "draining", {{"signal", signal_number}});
  (*server)->BeginDrain();
  service.BeginDrain();
  (*server)->Shutdown(absl::Seconds(flags.service.drain_seconds));
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Compiles, verifies and times candidate kernels.", "kernelcast-worker");
  Flags flags;
  kernelcast::AddServiceFlags(app, flags.service);
  app.add_option("--worker-id", flags.worker_id,
                 "Name of this process in measurements; random unless given");
  app.add_option("--cache-dir", flags.cache_dir, "Folder of compiled candidates; may be shared")
      ->capture_default_str();
  app.add_option("--cache-max-bytes", flags.cache_max_bytes,
                 "Size of the cache, beyond which the least recently used go")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--cxx", flags.compiler, "Compiler of candidates for the cpu target")
      ->capture_default_str();
  app.add_option("--candidate-include", flags.include_dirs,
                 "Folder with kernelcast/candidate.h; found beside the program unless given");
  app.add_option("--compile-jobs", flags.compile_jobs,
                 "Compilers at once; as many as there are cores unless given")
      ->check(CLI::PositiveNumber);
  app.add_option("--compile-credits", flags.compile_credits,
                 "Compile requests taken at once, running and queued");
  app.add_option("--measure-credits", flags.measure_credits,
                 "Measure requests taken at once, running and queued");
  app.add_option(
      "--runner", flags.runner,
      "The program that candidates run in; kernelcast-runner beside this one unless given");
  app.add_option("--memory-limit-bytes", flags.memory_limit_bytes,
                 "Memory that a candidate may have beyond its tensors")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--runner-uid", flags.runner_uid,
                 "User that candidates run as where the worker is root; 0 leaves them root")
      ->capture_default_str();
  app.add_option("--lease-file", flags.lease_file,
                 "Lock of the timing lease that all workers of this machine share; may be empty")
      ->capture_default_str();
  app.add_option("--cuda-home", flags.cuda_home,
                 "Folder of NVIDIA's toolkit; CUDA_HOME or the usual places unless given");
  app.add_option("--cuda-architecture", flags.cuda_architecture,
                 "What the cuda target compiles for, such as sm_80; the device's own, or sm_90a "
                 "where there is none, unless given");
  app.add_option("--replay", flags.replay,
                 "Records of an export; their targets answer from them instead of measuring");
  app.add_option("--replay-pace", flags.replay_pace,
                 "Share of its recorded device time that a replayed measurement takes, one after "
                 "the other; 0: at once")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  const int exit_code = kernelcast::ParseServiceFlags(app, argc, argv);
  if (exit_code >= 0) return exit_code;
  return Run(flags);
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) {
  return kernelcast::RunService(kernelcast::worker::Main, argc, argv);
}
