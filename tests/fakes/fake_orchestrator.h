#ifndef KERNELCAST_TESTS_FAKES_FAKE_ORCHESTRATOR_H_
#define KERNELCAST_TESTS_FAKES_FAKE_ORCHESTRATOR_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernelcast/v1/orchestrator.grpc.pb.h"

namespace kernelcast::testing {

// A search as seen by clients.
struct SearchScript {
  std::vector<v1::SearchEvent> events;
  std::vector<v1::ExportRecord> records;
  v1::Search finished;  // returned by GetSearch
};

// A search that measures `measured` candidates, the n-th at a speedup of `first` + n * `step`, and
// prunes as many; one is rejected and one crashes. It ends with its best confirmed.
SearchScript MakeSearchScript(int measured, double first, double step);

// A scripted orchestrator in this process. Set its members before a client calls.
class FakeOrchestrator final : public v1::Orchestrator::Service {
 public:
  FakeOrchestrator();
  ~FakeOrchestrator() override;

  const std::string& address() const { return address_; }

  SearchScript script;
  // The n-th WatchSearch ends with UNAVAILABLE after this many events; later ones are complete.
  std::vector<size_t> watch_breaks;
  // The same for Export, after this many records.
  std::vector<size_t> export_breaks;
  // Holds the last event back until StopSearch is called.
  bool wait_for_stop = false;
  // Answers a candidate; empty: no answer. Called under a lock.
  std::function<std::optional<v1::EvaluateReply>(const v1::EvaluateRequest&)> on_evaluate;
  // The n-th EvaluateStream breaks after this many requests.
  std::vector<size_t> evaluate_breaks;
  std::vector<v1::Search> searches;
  std::vector<v1::WorkerDescription> workers;
  // If set, StartSearch, GetSearch and StopSearch have a search "ID@MODEL" for each.
  std::vector<std::string> device_models;
  // Status returned by a method instead of its work, by name.
  std::map<std::string, grpc::Status> errors;
  // How many calls of a method get its error; by default all.
  mutable std::map<std::string, std::atomic<int>> error_counts;

  // The requests of clients.
  std::vector<v1::StartSearchRequest> started() const;
  std::vector<v1::WatchSearchRequest> watched() const;
  std::vector<v1::EvaluateRequest> evaluated() const;
  std::vector<v1::ExportRequest> exported() const;
  int stops() const;
  int problems_put() const;

 private:
  grpc::Status Describe(grpc::ServerContext*, const v1::OrchestratorDescribeRequest*,
                        v1::OrchestratorDescription* reply) override;
  grpc::Status PutProblem(grpc::ServerContext*, const v1::PutProblemRequest* request,
                          v1::PutProblemReply* reply) override;
  grpc::Status StartSearch(grpc::ServerContext*, const v1::StartSearchRequest* request,
                           v1::StartSearchReply* reply) override;
  grpc::Status WatchSearch(grpc::ServerContext* context, const v1::WatchSearchRequest* request,
                           grpc::ServerWriter<v1::SearchEvent>* writer) override;
  grpc::Status StopSearch(grpc::ServerContext*, const v1::StopSearchRequest* request,
                          v1::StopSearchReply* reply) override;
  grpc::Status GetSearch(grpc::ServerContext*, const v1::GetSearchRequest* request,
                         v1::GetSearchReply* reply) override;
  grpc::Status ListSearches(grpc::ServerContext*, const v1::ListSearchesRequest* request,
                            v1::ListSearchesReply* reply) override;
  grpc::Status Export(grpc::ServerContext*, const v1::ExportRequest* request,
                      grpc::ServerWriter<v1::ExportRecord>* writer) override;
  grpc::Status EvaluateStream(grpc::ServerContext*,
                              grpc::ServerReaderWriter<v1::EvaluateStreamReply,
                                                       v1::EvaluateStreamRequest>* stream) override;

  grpc::Status ErrorOf(const std::string& method) const;
  std::string CurrentSearchId() const;
  // The search, or one for each of device_models.
  std::vector<v1::Search> SearchesOf(const v1::Search& search) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<v1::StartSearchRequest> started_;
  std::vector<v1::WatchSearchRequest> watched_;
  std::vector<v1::EvaluateRequest> evaluated_;
  std::vector<v1::ExportRequest> exported_;
  size_t evaluate_streams_ = 0;
  int stops_ = 0;
  int problems_put_ = 0;

  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_FAKE_ORCHESTRATOR_H_
