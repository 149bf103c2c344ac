// Cold throughput of the worker as a separate process: the clock starts before the process and
// stops at the last result, so preparation, compiling, failures and hangs are included.
//
//   bench_worker_stream [--operations 17] [--candidates 45]     a mixed stream
//   bench_worker_stream --only row_softmax --candidates 200     one operation
//   bench_worker_stream --only row_softmax --candidates 60 --hangs 4
//
// Candidates are points of the problems' spaces, in random order over all problems. --failing of
// each problem's candidates are replaced by kernels that do not compile, trap, leave an output
// unwritten or write it in part, and --hangs of all candidates by kernels that never end. The
// worker is the one in KERNELCAST_BIN_DIR, so that two builds can be compared.

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/domain/problem.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/worker/core/random.h"
#include "services/worker/core/statistics.h"
#include "tests/support/services.h"
#include "tests/support/space_problems.h"

namespace kernelcast::worker {
namespace {

// More concurrent compile calls add no information.
constexpr size_t kMaxCompileCalls = 64;

struct Options {
  std::string problems;
  std::vector<std::string> only;
  size_t operations = 17;
  size_t candidates = 45;
  size_t failing = 4;
  size_t hangs = 0;
  size_t window = 0;
  bool in_order = false;
  std::string label = "worker";
  std::string json;
  std::string log_level = "info";
  std::string log;
  std::vector<std::string> arguments;
};

// The problem's reference with an extra statement at the start of its first kernel.
Candidate Spoiled(const Problem& problem, const std::string& deed, size_t number) {
  Candidate candidate = ReferenceCandidate(problem, "cuda").value();
  const size_t kernel = candidate.source.find("__global__");
  const size_t body = candidate.source.find('{', candidate.source.find(')', kernel));
  candidate.source.insert(body + 1, deed);
  absl::StrAppend(&candidate.source, "\n// ", number, "\n");
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

std::vector<Candidate> DrawCandidates(const Problem& problem, size_t count, size_t failing,
                                      Random& random) {
  static constexpr const char* kDeeds[] = {" if (blockIdx.x == 0) return; ", " __trap(); ",
                                           " return; ", " this does not compile; "};
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < failing; ++i) {
    candidates.push_back(Spoiled(problem, kDeeds[i % std::size(kDeeds)], i));
  }
  const Space& space = *problem.targets.find("cuda")->second.space;
  std::vector<SpacePoint> points;
  // A space that is too small is repeated, with a comment that makes its sources differ.
  for (size_t round = 0; candidates.size() < count;) {
    if (points.empty()) {
      points = EnumeratePoints(space);
      ++round;
    }
    const size_t at = random.Below(points.size());
    Candidate candidate = CandidateFromPoint(space, points[at], problem.problem_id);
    if (round > 1) {
      absl::StrAppend(&candidate.source, "\n// round ", round, "\n");
      candidate.candidate_id = CandidateId(candidate);
    }
    candidates.push_back(std::move(candidate));
    points.erase(points.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return candidates;
}

struct Outcomes {
  size_t count = 0;
  double device_s = 0;
  double longest_s = 0;
};

std::string OutcomeOf(const v1::MeasureReply& reply) {
  if (!reply.has_measurement()) return "does not compile";
  switch (reply.measurement().outcome_case()) {
    case v1::Measurement::kOk: return "ok";
    case v1::Measurement::kWrongResult: return "wrong result";
    case v1::Measurement::kCrash: return "crash";
    case v1::Measurement::kTimeout: return "timeout";
    case v1::Measurement::kExploit: return "exploit";
    case v1::Measurement::kEnvironmentUnstable: return "unstable";
    default: return "nothing";
  }
}

absl::Status Run(const Options& options) {
  KC_ASSIGN_OR_RETURN(std::vector<Problem> problems,
                      testing::ReadSpaceProblems(options.problems, options.only, "cuda"));
  if (problems.size() > options.operations) problems.resize(options.operations);
  Random random(11);
  std::vector<Candidate> stream;
  for (const Problem& problem : problems) {
    const auto drawn = DrawCandidates(problem, options.candidates, options.failing, random);
    stream.insert(stream.end(), drawn.begin(), drawn.end());
  }
  for (size_t i = 0; i < options.hangs; ++i) {
    stream[(2 * i + 1) * stream.size() / (2 * options.hangs)] =
        Spoiled(problems[i % problems.size()], " for (volatile int i = 0; i < 2; i = 0) {} ", i);
  }
  for (size_t i = 0; i + 1 < stream.size() && !options.in_order; ++i) {
    std::swap(stream[i], stream[i + random.Below(stream.size() - i)]);
  }

  const testing::TemporaryFolder folder("worker-stream");
  std::vector<std::string> arguments = {"--cache-dir", folder.File("cache"), "--log-level",
                                        options.log_level};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  testing::ServiceSite site;
  site.launcher = {
      "/bin/sh", "-c",
      absl::StrCat("exec \"$0\" \"$@\"", options.log.empty() ? "" : " 2>", options.log)};
  testing::Service worker("kernelcast-worker", arguments, folder, site);
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const auto seconds = [&] {
    return 1e-9 * static_cast<double>(Clock::Real().MonotonicNs() - start_ns);
  };
  KC_RETURN_IF_ERROR(worker.Start());
  KC_ASSIGN_OR_RETURN(const auto channel, MakeChannel(worker.address()));
  const auto stub = v1::Worker::NewStub(channel);
  v1::WorkerDescription description;
  {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    if (const auto status = stub->Describe(&context, {}, &description); !status.ok()) {
      return absl::UnavailableError(status.error_message());
    }
  }
  const double up_s = seconds();
  for (const Problem& problem : problems) {
    grpc::ClientContext context;
    v1::PutProblemRequest request;
    *request.mutable_problem() = ProblemFilesToProto(problem);
    v1::PutProblemReply reply;
    if (const auto status = stub->PutProblem(&context, request, &reply); !status.ok()) {
      return absl::UnavailableError(status.error_message());
    }
  }

  const size_t window = options.window > 0 ? options.window : description.measure_credits();
  std::mutex mutex;
  std::condition_variable changed;
  // State below is protected by mutex.
  std::deque<size_t> waiting;
  std::vector<v1::Artifact> artifacts(stream.size());
  size_t done = 0;
  std::map<std::string, Outcomes> outcomes;
  std::map<std::string, size_t> by_device;
  std::vector<double> ends_s;
  std::string failed;
  const auto measure = [&] {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return done == stream.size() || !waiting.empty(); });
      if (done == stream.size()) return;
      const size_t at = waiting.front();
      waiting.pop_front();
      lock.unlock();
      v1::MeasureRequest request;
      request.set_request_id(absl::StrCat(at));
      *request.mutable_candidate() = ToProto(stream[at]);
      *request.mutable_artifact() = artifacts[at];
      request.set_level(v1::MEASURE_LEVEL_SCREEN);
      v1::MeasureReply reply;
      grpc::ClientContext context;
      const absl::Status status = FromGrpc(stub->Measure(&context, request, &reply), context);
      lock.lock();
      if (RetryAfter(status)) {
        waiting.push_front(at);
      } else if (!status.ok()) {
        ++done;
        failed = status.ToString();
        ++outcomes["error"].count;
      } else {
        ++done;
        ends_s.push_back(seconds());
        const v1::Measurement& measured = reply.measurement();
        Outcomes& outcome = outcomes[OutcomeOf(reply)];
        const double device_s = static_cast<double>(measured.device_time().seconds()) +
                                1e-9 * measured.device_time().nanos();
        ++outcome.count;
        outcome.device_s += device_s;
        outcome.longest_s = std::max(outcome.longest_s, device_s);
        if (reply.has_measurement()) ++by_device[measured.device().uuid()];
      }
      changed.notify_all();
    }
  };
  std::vector<std::jthread> measurers;
  while (measurers.size() < window) measurers.emplace_back(measure);
  // Candidates are compiled ahead of being measured, as an orchestrator does.
  std::atomic<size_t> next_compile = 0;
  std::vector<std::jthread> compilers;
  const size_t lanes = std::clamp<size_t>(description.compile_credits(), 1, kMaxCompileCalls);
  for (size_t lane = 0; lane < lanes; ++lane) {
    compilers.emplace_back([&] {
      for (size_t at = next_compile++; at < stream.size(); at = next_compile++) {
        v1::CompileRequest request;
        request.set_request_id(absl::StrCat(at));
        request.set_problem_id(stream[at].problem_id);
        request.set_target("cuda");
        *request.mutable_candidate() = ToProto(stream[at]);
        v1::CompileReply reply;
        grpc::ClientContext call;
        const grpc::Status status = stub->Compile(&call, request, &reply);
        const std::lock_guard lock(mutex);
        if (status.ok() && reply.has_success()) {
          artifacts[at] = reply.success().artifact();
          waiting.push_back(at);
        } else {
          ++done;
          ends_s.push_back(seconds());
          ++outcomes[status.ok() ? "does not compile" : "error"].count;
          if (!status.ok()) failed = status.error_message();
        }
        changed.notify_all();
      }
    });
  }
  measurers.clear();
  const double all_s = seconds();
  worker.Terminate();

  const double rate = static_cast<double>(stream.size()) / all_s;
  // Excludes the start: the later half of the results.
  const size_t half = ends_s.size() / 2;
  const double warm = ends_s.size() < 4 ? 0
                                        : static_cast<double>(ends_s.size() - 1 - half) /
                                              (ends_s.back() - ends_s[half]);
  std::printf(
      "%s: %zu operations, %zu candidates, %zu devices: %.1f s from the start of the process, %.1f "
      "per second; second half %.1f per second; up after %.2f s, first result after %.2f s\n",
      options.label.c_str(), problems.size(), stream.size(), std::max<size_t>(1, by_device.size()),
      all_s, rate, warm, up_s, ends_s.empty() ? 0.0 : ends_s.front());
  for (const auto& [name, outcome] : outcomes) {
    std::printf("  %-17s %5zu  lease held: mean %8.1f ms, maximum %8.1f ms\n", name.c_str(),
                outcome.count, 1e3 * outcome.device_s / static_cast<double>(outcome.count),
                1e3 * outcome.longest_s);
  }
  for (const auto& [uuid, count] : by_device) std::printf("  %s %zu\n", uuid.c_str(), count);
  if (!failed.empty()) std::printf("  last error: %s\n", failed.c_str());
  std::fflush(stdout);
  if (!options.json.empty()) {
    std::ofstream json(options.json, std::ios::app);
    json << "{\"bench\": \"worker_stream\", \"label\": \"" << options.label
         << "\", \"operations\": " << problems.size() << ", \"candidates\": " << stream.size()
         << ", \"hangs\": " << options.hangs << ", \"devices\": " << by_device.size()
         << ", \"seconds\": " << all_s << ", \"per_second\": " << rate
         << ", \"second_half_per_second\": " << warm << ", \"up_seconds\": " << up_s;
    for (const auto& [name, outcome] : outcomes) {
      json << ", \"" << name << "\": {\"count\": " << outcome.count
           << ", \"lease_seconds\": " << outcome.device_s
           << ", \"longest_lease_seconds\": " << outcome.longest_s << "}";
    }
    json << "}\n";
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) {
  CLI::App app{"Throughput of the worker, from the start of its process to the last result"};
  kernelcast::worker::Options options;
  options.problems = kernelcast::testing::SourcePath("examples/problems");
  app.add_option("--problems", options.problems, "Folder of problems")->capture_default_str();
  app.add_option("--only", options.only, "Names of problems");
  app.add_option("--operations", options.operations, "Number of problems, first by name")
      ->capture_default_str();
  app.add_option("--candidates", options.candidates, "Candidates per problem")
      ->capture_default_str();
  app.add_option("--failing", options.failing,
                 "Of those, kernels that do not compile, trap or leave outputs unwritten")
      ->capture_default_str();
  app.add_option("--hangs", options.hangs, "Kernels that never end, over all problems")
      ->capture_default_str();
  app.add_option("--window", options.window, "Calls in flight; the worker's credits by default");
  app.add_flag("--in-order", options.in_order, "One problem after another");
  app.add_option("--label", options.label, "Text to print before the figures")
      ->capture_default_str();
  app.add_option("--json", options.json, "File to append one line to");
  app.add_option("--log-level", options.log_level, "Log level of the worker")
      ->capture_default_str();
  app.add_option("--log", options.log, "Log file of the worker");
  app.add_option("--worker-argument", options.arguments, "Additional arguments of the worker");
  CLI11_PARSE(app, argc, argv);
  if (const absl::Status status = kernelcast::worker::Run(options); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
