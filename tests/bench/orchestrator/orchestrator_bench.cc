// Measures the cost of routing: candidates per second through three real processes, added latency
// per call, memory growth, and log replay time. Each is compared with its baseline in the same run:
// a bare gRPC echo of the same messages, bare writes to the same disk, and bare SQLite over the
// same rows.
//
//   bench_orchestrator [throughput] [batches] [latency] [memory] [replay]     default: all

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/status_conversion.h"
#include "services/orchestrator/core/state.h"
#include "services/orchestrator/store/sqlite_event_store.h"
#include "tests/bench/orchestrator/routed_load.h"

namespace kernelcast {
namespace {

using testing::CandidateSource;
using testing::EchoProcess;
using testing::LoadFigures;
using testing::PercentileMs;
using testing::RoutedCluster;
using Json = nlohmann::ordered_json;

constexpr double kMiB = 1 << 20;

struct Options {
  std::vector<std::string> what;
  int blocks = 128;
  int unrolls = 64;
  int source_bytes = 2048;
  // At 10,000 candidates per second this is the rate of ten GPUs.
  double measured_share = 0.02;
  int rounds = 3;
  uint64_t candidates = 60'000;
  size_t in_flight = 1024;
  double rate = 1000;
  double latency_seconds = 20;
  uint64_t memory_candidates = 1'000'000;
  uint64_t replay_events = 1'000'000;
  std::string keep_log;
  std::string log;
  std::string jsonl;
  bool skip_echo = false;
};

double OwnCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

double LoadAverage() {
  double load = 0;
  getloadavg(&load, 1);
  return load;
}

// CPU time of this machine so far in ticks, and the part stolen by its host while the CPUs were
// ready to run, which slows concurrent measurements by that share.
struct ProcessorTime {
  double all = 0;
  double stolen = 0;

  static ProcessorTime Now() {
    ProcessorTime time;
    std::ifstream in("/proc/stat");
    std::string name;
    in >> name;
    // user nice system idle iowait irq softirq steal
    for (int field = 0; field < 8; ++field) {
      double ticks = 0;
      in >> ticks;
      time.all += ticks;
      if (field == 7) time.stolen = ticks;
    }
    return time;
  }
  double StolenShareSince(const ProcessorTime& before) const {
    return all > before.all ? (stolen - before.stolen) / (all - before.all) : 0;
  }
};

std::string Today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

class Bench {
 public:
  Bench(Options options, std::string program)
      : options_(std::move(options)), program_(std::move(program)) {}

  absl::Status Run() {
    for (const std::string& what : options_.what) {
      if (what == "throughput") {
        KC_RETURN_IF_ERROR(Throughput("routed", testing::StreamClosedLoop));
      }
      if (what == "batches") {
        KC_RETURN_IF_ERROR(Throughput("routed, batches", testing::BatchClosedLoop));
      }
      if (what == "latency") KC_RETURN_IF_ERROR(Latency());
      if (what == "memory") KC_RETURN_IF_ERROR(Memory());
      if (what == "replay") KC_RETURN_IF_ERROR(Replay());
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::unique_ptr<RoutedCluster>> StartCluster() const {
    return RoutedCluster::Start(options_.blocks, options_.unrolls, options_.source_bytes);
  }

  // An echo that returns the services' answer.
  absl::StatusOr<std::unique_ptr<EchoProcess>> StartEcho(const RoutedCluster& cluster) const {
    CandidateSource source(cluster.recorded, "echo");
    v1::EvaluateRequest request = source.Next();
    request.set_mode(v1::EVALUATE_MODE_FORECAST);
    grpc::ClientContext context;
    v1::EvaluateReply reply;
    KC_RETURN_IF_ERROR(FromGrpc(cluster.Stub()->Evaluate(&context, request, &reply)));
    if (!reply.evaluation().has_forecast()) {
      return absl::InternalError(absl::StrCat("no forecast: ", reply.ShortDebugString()));
    }
    return EchoProcess::Start(program_, reply);
  }

  void Write(Json record) const {
    record["date"] = Today();
    record["cores"] = sysconf(_SC_NPROCESSORS_ONLN);
    record["load_average"] = LoadAverage();
    if (options_.jsonl.empty()) return;
    std::ofstream(options_.jsonl, std::ios::app) << record.dump() << "\n";
  }

  // With CPU time per process, in microseconds per request.
  void Report(const std::string& what, LoadFigures& figures,
              const std::map<std::string, double>& cpu_seconds, double stolen_share) const {
    std::printf("%-16s %8.0f /s   p50 %7.2f ms   p99 %7.2f ms  ", what.c_str(),
                figures.per_second(), PercentileMs(figures.latencies_ns, 0.5),
                PercentileMs(figures.latencies_ns, 0.99));
    Json cpu;
    double total_us = 0;
    for (const auto& [name, seconds] : cpu_seconds) {
      const double us = seconds / static_cast<double>(figures.requests) * 1e6;
      cpu[name] = us;
      total_us += us;
      std::printf(" %s %.0f us", name.c_str(), us);
    }
    std::printf(" = %.0f us", total_us);
    if (figures.measured > 0) {
      std::printf(
          "   %.1f%% measured: p50 %.2f ms",
          100.0 * static_cast<double>(figures.measured) / static_cast<double>(figures.requests),
          PercentileMs(figures.measured_latencies_ns, 0.5));
    }
    if (figures.rejected + figures.errors > 0) {
      std::printf("   %llu rejected, %llu errors",
                  static_cast<unsigned long long>(figures.rejected),
                  static_cast<unsigned long long>(figures.errors));
    }
    std::printf("   load %.1f, %.1f%% stolen\n", LoadAverage(), 100 * stolen_share);
    std::fflush(stdout);
    Write({{"what", what},
           {"stolen_share", stolen_share},
           {"requests", figures.requests},
           {"per_second", figures.per_second()},
           {"p50_ms", PercentileMs(figures.latencies_ns, 0.5)},
           {"p99_ms", PercentileMs(figures.latencies_ns, 0.99)},
           {"p999_ms", PercentileMs(figures.latencies_ns, 0.999)},
           {"measured_p50_ms", PercentileMs(figures.measured_latencies_ns, 0.5)},
           {"measured_p99_ms", PercentileMs(figures.measured_latencies_ns, 0.99)},
           {"measured", figures.measured},
           {"pruned", figures.pruned},
           {"reasons", figures.Reasons()},
           {"rejected", figures.rejected},
           {"errors", figures.errors},
           {"source_bytes", options_.source_bytes},
           {"measured_share", options_.measured_share},
           {"cpu_us_per_request", cpu}});
  }

  // Runs a load on the cluster and reports the resources used by each process.
  absl::Status Routed(RoutedCluster& cluster, const std::string& what,
                      const std::function<absl::StatusOr<LoadFigures>()>& load) const {
    const auto before = cluster.Cpu();
    const double own = OwnCpuSeconds();
    const ProcessorTime start = ProcessorTime::Now();
    KC_ASSIGN_OR_RETURN(LoadFigures figures, load());
    const double stolen = ProcessorTime::Now().StolenShareSince(start);
    auto cpu = cluster.Cpu();
    for (auto& [name, seconds] : cpu) seconds -= before.at(name);
    cpu["client"] = OwnCpuSeconds() - own;
    Report(what, figures, cpu, stolen);
    return absl::OkStatus();
  }
  absl::Status Echoed(const EchoProcess& echo, const std::string& what,
                      const std::function<absl::StatusOr<LoadFigures>()>& load) const {
    const double before = testing::CpuSeconds(echo.pid());
    const double own = OwnCpuSeconds();
    const ProcessorTime start = ProcessorTime::Now();
    KC_ASSIGN_OR_RETURN(LoadFigures figures, load());
    const double stolen = ProcessorTime::Now().StolenShareSince(start);
    Report(what, figures,
           {{"client", OwnCpuSeconds() - own}, {"echo", testing::CpuSeconds(echo.pid()) - before}},
           stolen);
    return absl::OkStatus();
  }

  using ClosedLoop = decltype(testing::StreamClosedLoop);

  absl::Status Throughput(const std::string& what, ClosedLoop* load) {
    KC_ASSIGN_OR_RETURN(auto cluster, StartCluster());
    KC_ASSIGN_OR_RETURN(auto echo, StartEcho(*cluster));
    const auto echo_stub = echo->Stub();
    for (int round = 0; round < options_.rounds; ++round) {
      if (!options_.skip_echo) {
        CandidateSource unary(cluster->recorded, absl::StrCat("u", round));
        KC_RETURN_IF_ERROR(Echoed(*echo, "echo, unary", [&] {
          return testing::UnaryClosedLoop(*echo_stub, unary, options_.candidates, 64);
        }));
        CandidateSource streamed(cluster->recorded, absl::StrCat("e", round));
        KC_RETURN_IF_ERROR(Echoed(*echo, "echo, streamed", [&] {
          return testing::StreamClosedLoop(*echo_stub, streamed, options_.candidates,
                                           options_.in_flight);
        }));
      }
      KC_RETURN_IF_ERROR(RoutedClosedLoop(*cluster, what, absl::StrCat("r", round), load));
    }
    return absl::OkStatus();
  }

  absl::Status RoutedClosedLoop(RoutedCluster& cluster, const std::string& what,
                                const std::string& run, ClosedLoop* load) const {
    const auto stub = cluster.Stub();
    CandidateSource source(cluster.recorded, run, options_.measured_share);
    KC_RETURN_IF_ERROR(Routed(cluster, what, [&] {
      return load(*stub, source, options_.candidates, options_.in_flight,
                  {source.per_search(), [&](uint64_t answered) {
                     source.StopSearches(*stub, answered - std::min(answered, uint64_t{4096}));
                   }});
    }));
    source.StopSearches(*stub, options_.candidates + source.per_search());
    return absl::OkStatus();
  }

  // The minimum that answers wait for: a write of a small commit's size until it is on disk, at the
  // rate of commits, in a file that already has its final length.
  absl::Status Disk(const std::string& file) const {
    constexpr int kWrites = 1000;
    constexpr auto kPause = std::chrono::milliseconds(2);
    const std::string bytes(size_t{16} << 10, 'x');
    constexpr off_t kFileBytes = off_t{4} << 20;
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("open ", file));
    const Clock& clock = Clock::Real();
    std::vector<int64_t> took_ns;
    int error = 0;
    for (off_t at = 0; at < kFileBytes && error == 0; at += static_cast<off_t>(bytes.size())) {
      if (pwrite(fd, bytes.data(), bytes.size(), at) < 0) error = errno;
    }
    if (fsync(fd) != 0) error = errno;
    for (int i = 0; i < kWrites && error == 0; ++i) {
      const off_t at = static_cast<off_t>(bytes.size()) * i % kFileBytes;
      const int64_t start_ns = clock.MonotonicNs();
      if (pwrite(fd, bytes.data(), bytes.size(), at) < 0 || fdatasync(fd) != 0) error = errno;
      took_ns.push_back(clock.MonotonicNs() - start_ns);
      std::this_thread::sleep_for(kPause);
    }
    close(fd);
    std::filesystem::remove(file);
    if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("write ", file));
    const double p50_ms = PercentileMs(took_ns, 0.5);
    const double p99_ms = PercentileMs(took_ns, 0.99);
    std::printf("%-16s %8s      p50 %7.2f ms   p99 %7.2f ms   maximum %.1f ms   load %.1f\n",
                "disk, 16 KiB", "", p50_ms, p99_ms, PercentileMs(took_ns, 1), LoadAverage());
    std::fflush(stdout);
    Write({{"what", "disk"}, {"p50_ms", p50_ms}, {"p99_ms", p99_ms}});
    return absl::OkStatus();
  }

  absl::Status Latency() {
    KC_ASSIGN_OR_RETURN(auto cluster, StartCluster());
    KC_ASSIGN_OR_RETURN(auto echo, StartEcho(*cluster));
    const auto echo_stub = echo->Stub();
    const auto stub = cluster->Stub();
    const auto count = static_cast<uint64_t>(options_.rate * options_.latency_seconds);
    const std::string at = absl::StrCat(", ", options_.rate, " /s");
    for (int round = 0; round < options_.rounds; ++round) {
      CandidateSource streamed(cluster->recorded, absl::StrCat("le", round));
      KC_RETURN_IF_ERROR(Echoed(*echo, absl::StrCat("echo", at), [&] {
        return testing::StreamOpenLoop(*echo_stub, streamed, count, options_.rate);
      }));
      KC_RETURN_IF_ERROR(Disk(cluster->folder.File("disk")));
      CandidateSource routed(cluster->recorded, absl::StrCat("lr", round), options_.measured_share);
      KC_RETURN_IF_ERROR(Routed(*cluster, absl::StrCat("routed", at), [&] {
        return testing::StreamOpenLoop(*stub, routed, count, options_.rate);
      }));
      routed.StopSearches(*stub, count + routed.per_search());
    }
    return absl::OkStatus();
  }

  absl::Status Memory() {
    KC_ASSIGN_OR_RETURN(auto cluster, StartCluster());
    const auto stub = cluster->Stub();
    const uint64_t count = options_.memory_candidates;
    CandidateSource source(cluster->recorded, "m", options_.measured_share);
    std::printf("resident, MiB:  candidates  forecaster  orchestrator  worker\n");
    const auto show = [&](uint64_t answered) {
      source.StopSearches(*stub, answered - std::min(answered, uint64_t{4096}));
      auto resident = cluster->Resident();
      std::printf("                %10llu  %10.1f  %12.1f  %6.1f\n",
                  static_cast<unsigned long long>(answered),
                  static_cast<double>(resident["forecaster"]) / kMiB,
                  static_cast<double>(resident["orchestrator"]) / kMiB,
                  static_cast<double>(resident["worker"]) / kMiB);
      std::fflush(stdout);
      Write({{"what", "memory"}, {"candidates", answered}, {"resident_bytes", resident}});
    };
    show(0);
    KC_RETURN_IF_ERROR(Routed(*cluster, "routed", [&] {
      return testing::StreamClosedLoop(*stub, source, count, options_.in_flight,
                                       {std::max<uint64_t>(1, count / 20), show});
    }));
    if (!options_.keep_log.empty()) {
      cluster->orchestrator->Terminate();
      std::filesystem::copy_file(cluster->LogPath(), options_.keep_log,
                                 std::filesystem::copy_options::overwrite_existing);
    }
    return absl::OkStatus();
  }

  absl::Status Replay() {
    testing::TemporaryFolder folder("replay");
    std::string log = options_.log;
    if (log.empty()) {
      KC_ASSIGN_OR_RETURN(auto cluster, StartCluster());
      const auto stub = cluster->Stub();
      // Five events per candidate; three where the search's budget is spent.
      const uint64_t count = options_.replay_events * 2 / 9 + 1;
      CandidateSource source(cluster->recorded, "p", options_.measured_share);
      KC_RETURN_IF_ERROR(Routed(*cluster, "routed, for a log", [&] {
        return testing::StreamClosedLoop(
            *stub, source, count, options_.in_flight,
            {source.per_search(), [&](uint64_t answered) {
               source.StopSearches(*stub, answered - std::min(answered, uint64_t{4096}));
             }});
      }));
      cluster->orchestrator->Terminate();
      log = folder.File("orchestrator.db");
      for (const char* const part : {"", "-wal", ".mark"}) {
        if (!std::filesystem::exists(cluster->LogPath() + part)) continue;
        std::filesystem::copy_file(cluster->LogPath() + part, log + part);
      }
    }
    for (int round = 0; round < options_.rounds; ++round) KC_RETURN_IF_ERROR(ReplayOnce(log));
    return absl::OkStatus();
  }

  absl::Status ReplayOnce(const std::string& log) {
    const Clock& clock = Clock::Real();
    const auto seconds_since = [&](int64_t start_ns) {
      return static_cast<double>(clock.MonotonicNs() - start_ns) * 1e-9;
    };
    const double file_mib = static_cast<double>(std::filesystem::file_size(log)) / kMiB;
    int64_t start_ns = clock.MonotonicNs();
    std::ifstream file(log, std::ios::binary);
    std::vector<char> buffer(1 << 20);
    while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
    }
    const double file_seconds = seconds_since(start_ns);

    sqlite3* database = nullptr;
    if (sqlite3_open_v2(log.c_str(), &database, SQLITE_OPEN_READONLY, nullptr) != SQLITE_OK) {
      return absl::UnavailableError("the log cannot be opened");
    }
    start_ns = clock.MonotonicNs();
    sqlite3_stmt* rows = nullptr;
    sqlite3_prepare_v2(database, "SELECT sequence, payload FROM events ORDER BY sequence", -1,
                       &rows, nullptr);
    uint64_t count = 0;
    uint64_t bytes = 0;
    while (sqlite3_step(rows) == SQLITE_ROW) {
      ++count;
      bytes += static_cast<uint64_t>(sqlite3_column_bytes(rows, 1));
      if (sqlite3_column_blob(rows, 1) == nullptr) break;
    }
    sqlite3_finalize(rows);
    sqlite3_close(database);
    const double sqlite_seconds = seconds_since(start_ns);

    const int64_t resident_before = testing::ResidentBytes(getpid());
    int64_t resident_most = 0;
    start_ns = clock.MonotonicNs();
    orchestrator::State state;
    {
      KC_ASSIGN_OR_RETURN(const auto store, orchestrator::SqliteEventStore::Open(log));
      KC_RETURN_IF_ERROR(store->Replay(1, [&](orchestrator::StoredEvent stored) {
        if (stored.sequence % 65'536 == 0) {
          resident_most = std::max(resident_most, testing::ResidentBytes(getpid()));
        }
        return state.Apply(stored);
      }));
    }
    const double replay_seconds = seconds_since(start_ns);
    const double per_million = replay_seconds / static_cast<double>(state.last_sequence()) * 1e6;
    std::printf(
        "replay of %llu events, %.0f MiB: %.2f s, %.2f s per million; at most %.1f MiB more "
        "resident   bare sqlite3 %.2f s   file %.2f s   load %.1f\n",
        static_cast<unsigned long long>(state.last_sequence()), file_mib, replay_seconds,
        per_million, static_cast<double>(resident_most - resident_before) / kMiB, sqlite_seconds,
        file_seconds, LoadAverage());
    std::fflush(stdout);
    Write({{"what", "replay"},
           {"events", state.last_sequence()},
           {"file_bytes", std::filesystem::file_size(log)},
           {"payload_bytes", bytes},
           {"seconds", replay_seconds},
           {"seconds_per_million", per_million},
           {"resident_bytes_more", resident_most - resident_before},
           {"live_evaluations", state.evaluations().size()},
           {"searches", state.searches().size()},
           {"bare_sqlite_seconds", sqlite_seconds},
           {"file_seconds", file_seconds}});
    return count == state.last_sequence() ? absl::OkStatus()
                                          : absl::DataLossError("not every event was replayed");
  }

  const Options options_;
  const std::string program_;
};

int Main(int argc, char** argv) {
  CLI::App app{
      "Routing, measured: candidates per second through three processes, latency, memory and "
      "replay."};
  Options options;
  const std::vector<std::string> all = {"throughput", "batches", "latency", "memory", "replay"};
  app.add_option("what", options.what, "What to measure; default: all")->check(CLI::IsMember(all));
  app.add_option("--blocks", options.blocks, "Points of the space are blocks * unrolls")
      ->capture_default_str();
  app.add_option("--unrolls", options.unrolls, "See --blocks")->capture_default_str();
  app.add_option("--source-bytes", options.source_bytes, "Length of each candidate's source")
      ->capture_default_str();
  app.add_option("--measured-share", options.measured_share,
                 "Share of a search's candidates by which measurements are paced")
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Number of repetitions")->capture_default_str();
  app.add_option("--candidates", options.candidates, "Candidates per throughput round")
      ->capture_default_str();
  app.add_option("--in-flight", options.in_flight, "Unanswered candidates; at most 1024")
      ->capture_default_str();
  app.add_option("--rate", options.rate, "Candidates per second for latency")
      ->capture_default_str();
  app.add_option("--latency-seconds", options.latency_seconds, "Length of a latency round")
      ->capture_default_str();
  app.add_option("--memory-candidates", options.memory_candidates, "Candidates for the memory test")
      ->capture_default_str();
  app.add_option("--keep-log", options.keep_log, "File for the event log of the memory test");
  app.add_option("--replay-events", options.replay_events, "Length of the replayed log")
      ->capture_default_str();
  app.add_option("--log", options.log, "Event log to replay instead of a generated one");
  app.add_option("--jsonl", options.jsonl, "File to append the figures to");
  app.add_flag("--skip-echo", options.skip_echo, "Throughput without the echo, for profiling");
  std::vector<std::string> echo;
  app.add_option("--serve-echo", echo)->expected(2)->group("");
  CLI11_PARSE(app, argc, argv);
  SetLogLevel(LogLevel::kWarning);
  if (!echo.empty()) return testing::ServeEcho(echo[0], echo[1]);
  if (options.what.empty()) options.what = all;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  if (const absl::Status status = Bench(options, program).Run(); !status.ok()) {
    std::cerr << status.ToString() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast

int main(int argc, char** argv) { return kernelcast::Main(argc, argv); }
