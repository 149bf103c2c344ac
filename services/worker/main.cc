// kernelcast-worker: compiles, verifies and times candidates.

#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/crash_journal.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "common/config/service_flags.h"
#include "common/config/service_host.h"
#include "common/metrics/metrics.h"
#include "common/metrics/state_disk.h"
#include "common/rpc/server.h"
#include "services/worker/core/baseline_target.h"
#include "services/worker/core/guarded_target.h"
#include "services/worker/cpu/cpu_target.h"
#ifdef KERNELCAST_HAS_CUDA
#include "services/worker/cuda/target/cuda_target.h"
#endif
#include "services/worker/replay/replay_target.h"
#include "services/worker/rpc/record_reader.h"
#include "services/worker/rpc/worker_service.h"
#include "services/worker/telemetry/metered_target.h"
#include "services/worker/telemetry/traced_target.h"
#include "services/worker/telemetry/worker_metrics.h"

namespace kernelcast::worker {
namespace {

// A device measures one candidate at a time, so a long queue would only bind callers early. A GPU
// gets more credits, so that candidates of one problem can follow each other. Replay has no such
// limit.
constexpr uint32_t kMeasureCredits = 4;
constexpr uint32_t kMeasureCreditsPerGpu = 8;
constexpr uint32_t kReplayCredits = 1024;
constexpr uint32_t kCompileCreditsPerJob = 4;
constexpr unsigned kCoresToOverlap = 4;
// Maximum values of flags: far above what any machine has, and small enough to be added and
// multiplied.
constexpr uint64_t kMostBytes = uint64_t{1} << 50;
constexpr uint64_t kMostCompileJobs = 4096;
constexpr uint64_t kMostCredits = 1'000'000;
constexpr int kMostLoadedAhead = 32;
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kMostSeconds = 86'400;
constexpr double kMostReplayPace = 1000;
// Workers that share a cache folder.
constexpr int kMostJournals = 64;

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
  std::string python;
  std::string gpus = "all";
  int load_ahead = CudaTargetOptions().load_ahead;
  int64_t max_judgement_seconds = MeasureOptions().max_judgement_ns / kSecondNs;
  std::vector<std::string> replay;
  double replay_pace = 0;
};

// Folder of this program; the other programs are installed in it.
std::filesystem::path OwnFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

// Folders with the headers that candidates include: next to the program's folder when installed, or
// in the source tree.
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
  cpu.python = flags.python;
  cpu.compiler_sandbox = (OwnFolder() / "kernelcast-compiler-sandbox").string();
  cpu.runner.path =
      flags.runner.empty() ? (OwnFolder() / "kernelcast-runner").string() : flags.runner;
  cpu.runner.max_memory_bytes = flags.memory_limit_bytes;
  cpu.runner.uid = flags.runner_uid;
  cpu.measure.max_judgement_ns = flags.max_judgement_seconds * kSecondNs;
  // GPU drivers start slowly, so set up the CPU target at the same time, unless too few cores would
  // disturb its peak measurement.
  auto made_cpu =
      std::async(std::thread::hardware_concurrency() >= kCoresToOverlap ? std::launch::async
                                                                        : std::launch::deferred,
                 [&cpu] { return CpuTarget::Make(std::move(cpu)); });
#ifdef KERNELCAST_HAS_CUDA
  if (recorded.count(std::string(kCudaTargetName)) == 0) {
    CudaTargetOptions cuda;
    cuda.cuda_home = flags.cuda_home;
    cuda.program_folder = OwnFolder().string();
    cuda.architecture = flags.cuda_architecture;
    cuda.gpus = flags.gpus;
    cuda.load_ahead = flags.load_ahead;
    cuda.measure.max_judgement_ns = flags.max_judgement_seconds * kSecondNs;
    cuda.python = flags.python;
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
  KC_ASSIGN_OR_RETURN(targets[std::string(kCpuTargetName)], made_cpu.get());
  return targets;
}

uint32_t MeasureCredits(const std::map<std::string, std::unique_ptr<Target>>& targets) {
  uint32_t gpus = 0;
  if (const auto cuda = targets.find("cuda"); cuda != targets.end()) {
    gpus = static_cast<uint32_t>(cuda->second->Describe().devices.size());
  }
  return gpus > 0 ? gpus * kMeasureCreditsPerGpu : kMeasureCredits;
}

// Opens the journal of inputs that crashed the worker. Workers that share the folder have one each.
// Null if there is none: crashes are then not counted.
std::unique_ptr<CrashJournal> OpenCrashJournal(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  absl::Status status;
  for (int number = 1; number <= kMostJournals; ++number) {
    auto journal = CrashJournal::Open(absl::StrCat(folder, "/worker-", number, ".crash-journal"));
    if (journal.ok()) return *std::move(journal);
    status = journal.status();
    if (!absl::IsFailedPrecondition(status)) break;
  }
  Log(LogLevel::kWarning, "crashes are not counted", {{"error", std::string(status.message())}});
  return nullptr;
}

absl::Status Serve(const Flags& flags) {
  WorkerService::Options options;
  options.worker_id = flags.worker_id.empty() ? RandomId("worker-") : flags.worker_id;
  KC_ASSIGN_OR_RETURN(const auto host,
                      ServiceHost::Start(flags.service, "kernelcast-worker", options.worker_id));
  // Candidates run as child processes, with the same user if it is not root. They must not read
  // this process's memory, which holds the expected outputs.
  prctl(PR_SET_DUMPABLE, 0);
  // Must outlive the targets.
  const std::unique_ptr<CrashJournal> crash_journal = OpenCrashJournal(flags.cache_dir);
  KC_ASSIGN_OR_RETURN(auto targets, MakeTargets(flags, options.worker_id));
  const StateDisk state_disk(flags.cache_dir, &host->metrics());
  options.compile_threads = CompileThreads(flags);
  const bool replaying = !flags.replay.empty() && flags.replay_pace == 0;
  options.compile_credits =
      flags.compile_credits > 0 ? flags.compile_credits
      : replaying               ? kReplayCredits
                  : kCompileCreditsPerJob * static_cast<uint32_t>(options.compile_threads);
  options.measure_credits = flags.measure_credits > 0 ? flags.measure_credits
                            : replaying               ? kReplayCredits
                                                      : MeasureCredits(targets);
  std::map<std::string, std::vector<TargetDevice>> devices;
  for (const auto& [name, target] : targets) devices[name] = DevicesOf(target->Describe());
  WorkerMetrics worker_metrics(host->metrics(), devices, options.compile_credits,
                               options.measure_credits);
  std::map<std::string, Target*> borrowed;
  for (auto& [name, target] : targets) {
    // The decorators of every target, the innermost first.
    target = std::make_unique<BaselineTarget>(std::move(target));
    target = std::make_unique<GuardedTarget>(std::move(target), crash_journal.get());
    target = std::make_unique<TracedTarget>(std::move(target));
    target = std::make_unique<MeteredTarget>(std::move(target), name, worker_metrics);
    borrowed[name] = target.get();
    const TargetInfo info = target->Describe();
    if (!info.unavailable_reason.empty()) {
      const bool serves = info.can_compile && info.can_measure;
      Log(serves ? LogLevel::kInfo : LogLevel::kWarning,
          serves ? "a target lacks a feature" : "a target is not available",
          {{"target", name}, {"reason", info.unavailable_reason}});
    }
    for (const std::string& protection : info.missing_protections) {
      Log(LogLevel::kWarning,
          "candidates run without a protection that this machine does not permit",
          {{"target", name}, {"protection", protection}});
    }
  }

  WorkerService service(options, borrowed, worker_metrics);
  return host->Serve(
      service, {{"worker_id", options.worker_id}, {"compile_threads", options.compile_threads}});
}

absl::StatusOr<int> Main(int argc, char** argv) {
  CLI::App app("Compiles, verifies and times candidate kernels.", "kernelcast-worker");
  Flags flags;
  kernelcast::AddServiceFlags(app, flags.service);
  app.add_option("--worker-id", flags.worker_id, "Name of this worker in measurements [random]");
  app.add_option("--cache-dir", flags.cache_dir,
                 "Cache folder of compiled candidates; several workers may share it")
      ->capture_default_str();
  app.add_option("--cache-max-bytes", flags.cache_max_bytes,
                 "Maximum size of the cache; the least recently used entries are evicted")
      ->check(WholeNumberFrom(1, kMostBytes))
      ->capture_default_str();
  app.add_option("--cxx", flags.compiler, "Compiler of candidates for the cpu target")
      ->capture_default_str();
  app.add_option("--candidate-include", flags.include_dirs,
                 "Folder with kernelcast/candidate.h [that of the installation or the sources]");
  app.add_option("--compile-jobs", flags.compile_jobs, "Parallel compiles [one per core]")
      ->check(WholeNumberFrom(1, kMostCompileJobs));
  app.add_option("--compile-credits", flags.compile_credits,
                 "Maximum number of compile requests, running and queued")
      ->check(WholeNumberFrom(0, kMostCredits));
  app.add_option("--measure-credits", flags.measure_credits,
                 "Maximum number of measure requests, running and queued")
      ->check(WholeNumberFrom(0, kMostCredits));
  app.add_option("--runner", flags.runner,
                 "Program that candidates run in [kernelcast-runner in this program's folder]");
  app.add_option("--memory-limit-bytes", flags.memory_limit_bytes,
                 "Memory limit of a candidate, in addition to its tensors; four times as much for "
                 "Python on a GPU, whose models are constructed on the host")
      ->check(WholeNumberFrom(1, kMostBytes))
      ->capture_default_str();
  app.add_option("--runner-uid", flags.runner_uid,
                 "User id of candidates if the worker is root; 0: root")
      ->check(WholeNumberFrom(0, std::numeric_limits<uid_t>::max() - 1))
      ->capture_default_str();
  app.add_option(
         "--lease-file", flags.lease_file,
         "Lock file of the timing lease, shared by all workers of this machine; may be empty")
      ->envname("KERNELCAST_LEASE_FILE")
      ->capture_default_str();
  app.add_option("--cuda-home", flags.cuda_home,
                 "Folder of NVIDIA's toolkit [CUDA_HOME or the usual places]");
  app.add_option("--cuda-architecture", flags.cuda_architecture,
                 "Architecture that the cuda target compiles for, such as sm_80 [the device's, or "
                 "sm_90a without a device]");
  app.add_option(
      "--python", flags.python,
      "Python interpreter that has PyTorch, for tasks in Python, or compilers of kernels "
      "in Python, such as Triton [none]");
  app.add_option(
         "--gpus", flags.gpus,
         "GPUs to measure on: \"all\", \"none\", or a list of numbers or UUIDs, among those "
         "that CUDA_VISIBLE_DEVICES shows")
      ->capture_default_str();
  app.add_option("--load-ahead", flags.load_ahead,
                 "Maximum number of processes in which Python candidates are loaded ahead of "
                 "their measurement on a GPU, one for a screening and five for a final figure; "
                 "fewer where memory or processors are short: each may use four times "
                 "--memory-limit-bytes of the host's memory")
      ->check(WholeNumberFrom(1, kMostLoadedAhead))
      ->capture_default_str();
  app.add_option("--max-judgement-seconds", flags.max_judgement_seconds,
                 "Time that all calls of a candidate may take in one measurement, for each process "
                 "that is timed; slow references get more")
      ->check(WholeNumberFrom(1, kMostSeconds))
      ->capture_default_str();
  app.add_option("--replay", flags.replay,
                 "Exported records; their targets answer from them instead of measuring");
  app.add_option("--replay-pace", flags.replay_pace,
                 "Replayed measurements run one after the other and take their recorded device "
                 "time multiplied by this; 0: no delay")
      ->check(NumberFrom(0, kMostReplayPace))
      ->capture_default_str();
  const int exit_code = kernelcast::ParseServiceFlags(app, argc, argv);
  if (exit_code >= 0) return exit_code;
  KC_RETURN_IF_ERROR(Serve(flags));
  return 0;
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) {
  return kernelcast::RunService("worker", kernelcast::worker::Main, argc, argv);
}
