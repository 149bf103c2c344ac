#ifndef KERNELCAST_TESTS_BENCH_SEARCH_CLUSTER_H_
#define KERNELCAST_TESTS_BENCH_SEARCH_CLUSTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "tests/support/services.h"

namespace kernelcast::testing {

struct ClusterOptions {
  // The address of a running worker. Empty: the cluster starts one, with these arguments.
  std::string worker_address = {};
  std::vector<std::string> worker_arguments = {};
  std::string prior = "none";  // the forecaster's --prior
  std::vector<std::string> orchestrator_arguments = {};
  std::vector<std::string> forecaster_arguments = {};
};

// The three services, with an empty state of their own. Searches confirm nothing.
class Cluster {
 public:
  [[nodiscard]] absl::Status Start(const ClusterOptions& options = {});

  v1::Orchestrator::Stub& stub() { return *stub_; }
  [[nodiscard]] absl::Status PutProblem(const Problem& problem);
  // Runs a search to its end.
  [[nodiscard]] absl::StatusOr<v1::Search> Run(const std::string& id, const v1::SearchSpec& spec);
  // Passes the records of a search, in the order of settlement.
  [[nodiscard]] absl::Status Export(
      const std::string& search_id, bool include_sources,
      const std::function<absl::Status(const v1::ExportRecord&)>& take);

 private:
  TemporaryFolder folder_{"search-cluster"};
  std::unique_ptr<Service> worker_, forecaster_, orchestrator_;
  std::unique_ptr<v1::Orchestrator::Stub> stub_;
};

// Trains a prior in `folder` on the measured problems of `records`, which are folders of
// PROBLEM.jsonl or PROBLEM.jsonl.gz, without those of the problem's family. `problems` is the
// folder of the problems. Returns the prior's path.
[[nodiscard]] absl::StatusOr<std::string> TrainPriorWithoutFamily(
    const std::string& problems, const std::vector<std::string>& records, const Problem& problem,
    const TemporaryFolder& folder);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_SEARCH_CLUSTER_H_
