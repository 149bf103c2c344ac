#ifndef KERNELCAST_TESTS_BENCH_ORCHESTRATOR_ROUTED_LOAD_H_
#define KERNELCAST_TESTS_BENCH_ORCHESTRATOR_ROUTED_LOAD_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/child_process.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"

namespace kernelcast::testing {

// CPU time of a process so far, in seconds; 0 if it is not running.
double CpuSeconds(pid_t pid);
// The part used by threads with a niceness above 0, such as a forecaster's training.
double NiceCpuSeconds(pid_t pid);
// Private resident memory of a process.
int64_t ResidentBytes(pid_t pid);

// Candidates of a recorded problem as a sequence of requests, each candidate once per search; after
// the last one the next search begins. Not thread-safe.
class CandidateSource {
 public:
  // `run` is part of the ids of searches and requests. `measured_share` is the share of a search's
  // candidates by which its policy paces measurements; 0: no searches, for an echo.
  CandidateSource(const RecordedProblem& recorded, std::string run, double measured_share = 0);

  // Starts the searches of the first `requests` requests.
  [[nodiscard]] absl::Status StartSearches(v1::Orchestrator::Stub& stub, uint64_t requests);
  // Stops the searches whose candidates are all among the first `answered`.
  void StopSearches(v1::Orchestrator::Stub& stub, uint64_t answered);

  // The next request, valid until the next call.
  const v1::EvaluateRequest& Next();
  uint64_t per_search() const { return requests_.size(); }
  // The request's number, from its id.
  static uint64_t NumberOf(const std::string& request_id);

 private:
  std::string SearchId(uint64_t search) const;

  const std::string run_;
  const bool with_searches_;
  const double measured_share_;
  std::vector<v1::EvaluateRequest> requests_;
  uint64_t given_ = 0;
  uint64_t stopped_ = 0;
};

// The three services as processes; the worker has records of every candidate.
struct RoutedCluster {
  // `source_bytes`: length of each candidate's source.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RoutedCluster>> Start(
      int blocks, int unrolls, int source_bytes,
      std::vector<std::string> orchestrator_arguments = {});

  std::unique_ptr<v1::Orchestrator::Stub> Stub() const;
  // CPU time and memory of each, by name.
  std::map<std::string, double> Cpu() const;
  std::map<std::string, int64_t> Resident() const;
  std::string LogPath() const { return folder.File("orchestrator") + "/orchestrator.db"; }

  TemporaryFolder folder{"routed"};
  RecordedProblem recorded;
  std::unique_ptr<Service> worker, forecaster, orchestrator;
};

struct LoadFigures {
  uint64_t requests = 0;
  uint64_t measured = 0;
  uint64_t pruned = 0;
  uint64_t rejected = 0;  // includes candidates without a worker or a forecast
  uint64_t errors = 0;
  std::map<v1::DecisionReason, uint64_t> reasons;  // of the decisions
  double seconds = 0;
  // Unordered. Measured candidates, which wait for the measurement, are separate.
  std::vector<int64_t> latencies_ns;
  std::vector<int64_t> measured_latencies_ns;

  double per_second() const { return static_cast<double>(requests) / seconds; }
  // By name.
  std::map<std::string, uint64_t> Reasons() const;
};

// 0 if there are none. Reorders its argument.
double PercentileMs(std::vector<int64_t>& latencies_ns, double share);

// Called on the thread that waits for the load, after every `every` answers.
struct Progress {
  uint64_t every = 0;
  std::function<void(uint64_t answered)> report;
};

// `count` candidates over one EvaluateStream, one per message, `in_flight` unanswered at a time.
[[nodiscard]] absl::StatusOr<LoadFigures> StreamClosedLoop(v1::Orchestrator::Stub& stub,
                                                           CandidateSource& source, uint64_t count,
                                                           size_t in_flight,
                                                           const Progress& progress = {});

// The same with up to 64 per message, as room allows.
[[nodiscard]] absl::StatusOr<LoadFigures> BatchClosedLoop(v1::Orchestrator::Stub& stub,
                                                          CandidateSource& source, uint64_t count,
                                                          size_t in_flight,
                                                          const Progress& progress = {});

// `count` candidates over one stream at `per_second`. Each latency counts from when its request was
// due, not from when it was written, so waiting behind a slow request is included.
[[nodiscard]] absl::StatusOr<LoadFigures> StreamOpenLoop(v1::Orchestrator::Stub& stub,
                                                         CandidateSource& source, uint64_t count,
                                                         double per_second);

// `count` unary calls, `in_flight` at a time.
[[nodiscard]] absl::StatusOr<LoadFigures> UnaryClosedLoop(v1::Orchestrator::Stub& stub,
                                                          CandidateSource& source, uint64_t count,
                                                          size_t in_flight);

// Answers Evaluate and EvaluateStream with one reply read from a file until it is killed: the cost
// of gRPC alone. Writes its address into a file.
int ServeEcho(const std::string& reply_file, const std::string& address_file);

// Runs that server as a separate process: `program --serve-echo REPLY_FILE ADDRESS_FILE`.
class EchoProcess {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<EchoProcess>> Start(
      const std::string& program, const v1::EvaluateReply& reply);

  std::unique_ptr<v1::Orchestrator::Stub> Stub() const;
  pid_t pid() const { return child_->pid(); }

 private:
  TemporaryFolder folder_{"echo"};
  std::unique_ptr<ChildProcess> child_;
  std::string address_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_ORCHESTRATOR_ROUTED_LOAD_H_
