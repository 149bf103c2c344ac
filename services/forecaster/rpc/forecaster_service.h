#ifndef KERNELCAST_SERVICES_FORECASTER_RPC_FORECASTER_SERVICE_H_
#define KERNELCAST_SERVICES_FORECASTER_RPC_FORECASTER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/lru_cache.h"
#include "common/base/work_queue.h"
#include "common/convert/candidate_exchange.h"
#include "common/metrics/metrics.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/rpc/service_metrics.h"
#include "services/forecaster/rpc/state_writer.h"
#include "services/forecaster/store/label_store.h"

namespace kernelcast::forecaster {

// The Forecaster service over one or more backends. The first is the default. Handlers validate,
// admit and return: a StateWriter writes labels and problems, scores are computed on a separate
// thread, and backends do not block.
class ForecasterService final : public v1::Forecaster::CallbackService {
 public:
  struct Options {
    std::string forecaster_id;
    size_t max_forecasts_in_flight = 4096;
    // Per stream: requests read whose reply has not been written.
    size_t max_stream_in_flight = 1024;
    size_t max_labels_per_call = 4096;
    size_t max_score_items = 10'000;
    size_t max_waiting_scores = 16;
    size_t max_cached_problems = 256;
    size_t max_cached_problem_bytes = 256 << 20;
    StateWriter::Options writer;
  };

  // Backends, store, metrics and clock must outlive the service, and the service must outlive its
  // server. At least one backend is required.
  ForecasterService(const Options& options, LabelStore* store, std::vector<Backend*> backends,
                    MetricsRegistry* metrics, const Clock& clock);
  ~ForecasterService() override;

  // Reads the problems and labels on disk and passes the labels to the backends. Call before
  // serving. DATA_LOSS: a record cannot be read.
  [[nodiscard]] absl::Status Load();

  // New calls end with UNAVAILABLE. Calls in flight continue.
  void BeginDrain();

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::ForecasterDescribeRequest* request,
                                     v1::ForecasterDescription* response) override;
  grpc::ServerUnaryReactor* PutProblem(grpc::CallbackServerContext* context,
                                       const v1::PutProblemRequest* request,
                                       v1::PutProblemReply* response) override;
  grpc::ServerUnaryReactor* Forecast(grpc::CallbackServerContext* context,
                                     const v1::ForecastRequest* request,
                                     v1::ForecastReply* response) override;
  grpc::ServerBidiReactor<v1::ForecastStreamRequest, v1::ForecastStreamReply>* ForecastStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Observe(grpc::CallbackServerContext* context,
                                    const v1::ObserveRequest* request,
                                    v1::ObserveReply* response) override;
  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context,
                                  const v1::ScoreRequest* request,
                                  v1::ScoreReply* response) override;

 private:
  class Stream;
  using ReplyDone = std::function<void(absl::StatusOr<v1::ForecastReply>)>;

  absl::Status Available() const;
  absl::StatusOr<Backend*> FindBackend(const std::string& name) const;
  // Calls `done` once, possibly before returning.
  void StartForecast(const v1::ForecastRequest& request, const ForecastCall& call, ReplyDone done);

  const Options options_;
  LabelStore* const store_;
  const std::vector<Backend*> backends_;
  const Clock& clock_;
  ServiceMetrics metrics_;
  LruCache<ProblemContext> problems_;  // by id
  ReceivedCandidates candidates_;
  std::atomic<bool> draining_ = false;
  std::atomic<size_t> forecasts_in_flight_ = 0;
  StateWriter writer_;
  WorkQueue scoring_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_FORECASTER_SERVICE_H_
