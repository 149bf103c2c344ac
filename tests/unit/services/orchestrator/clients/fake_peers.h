#ifndef KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_CLIENTS_FAKE_PEERS_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_CLIENTS_FAKE_PEERS_H_

#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/domain/facts.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/request_error.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/unary_reactor.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/support/eventually.h"

namespace kernelcast::orchestrator::testing {

using kernelcast::testing::Eventually;

// A server on its own address, which it keeps when restarted.
template <class Service>
class FakePeer : public Service {
 public:
  ~FakePeer() override { Stop(); }

  // Returns false if the address is taken.
  bool TryStart(const std::string& address = "127.0.0.1:0") {
    ServerOptions options;
    options.listen_address = address_.empty() ? address : address_;
    auto server = RpcServer::Start(options, {static_cast<Service*>(this)}, nullptr);
    if (!server.ok()) return false;
    server_ = *std::move(server);
    address_ = server_->address();
    return true;
  }
  void Start() { REQUIRE(TryStart()); }
  // Like a killed process: calls under way fail.
  void Stop() { server_.reset(); }
  // The next start uses another address.
  void Forget() {
    Stop();
    address_.clear();
  }
  const std::string& address() const { return address_; }

 private:
  std::unique_ptr<RpcServer> server_;
  std::string address_;
};

// Answers every call immediately by default.
class FakeWorker final : public FakePeer<v1::Worker::CallbackService> {
 public:
  explicit FakeWorker(const std::string& id, uint32_t credits = 8) {
    description_.set_worker_id(id);
    description_.set_protocol_version(kProtocolVersion);
    description_.set_compile_credits(credits);
    description_.set_measure_credits(credits);
    AddTarget("cpu", "some CPU");
  }
  ~FakeWorker() override { Stop(); }

  void AddTarget(const std::string& name, const std::string& device,
                 const std::string& architecture = "") {
    auto* target = description_.add_targets();
    target->set_target(name);
    target->set_can_compile(true);
    target->set_can_measure(true);
    target->mutable_device()->set_model(device);
    target->set_architecture(architecture);
  }

  // The setters below apply to later calls.
  void Change(const std::function<void(v1::WorkerDescription&)>& change) {
    const std::lock_guard lock(mutex_);
    change(description_);
  }
  // The status of later measurements; OK: a measurement.
  void Fail(absl::Status status) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(status);
  }
  // Modifies each measurement; null: no change.
  void Lie(std::function<void(v1::MeasureReply&)> lie) {
    const std::lock_guard lock(mutex_);
    lie_ = std::move(lie);
  }
  // Measurements block until they are released.
  void Hold() {
    const std::lock_guard lock(mutex_);
    holding_ = true;
  }
  void FallSilent() {
    const std::lock_guard lock(mutex_);
    silent_ = true;
  }
  void Release(const absl::Status& status = absl::OkStatus()) {
    std::vector<std::pair<UnaryReply<v1::MeasureReply>, v1::MeasureRequest>> held;
    {
      const std::lock_guard lock(mutex_);
      holding_ = false;
      held.swap(held_);
    }
    for (auto& [reply, request] : held) {
      status.ok() ? reply.Send(Measured(request)) : reply.Fail(status);
    }
  }
  size_t held() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  size_t measured() const {
    const std::lock_guard lock(mutex_);
    return measured_;
  }
  // Number of candidates that were sent whole.
  size_t received() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }
  void ForgetCandidates() {
    const std::lock_guard lock(mutex_);
    candidates_.clear();
  }
  // How many measurement requests named each device model.
  std::map<std::string, int> device_models() const {
    const std::lock_guard lock(mutex_);
    return device_models_;
  }

  // The same of compile requests.
  std::map<std::string, int> compiled_models() const {
    const std::lock_guard lock(mutex_);
    return compiled_models_;
  }

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::WorkerDescribeRequest*,
                                     v1::WorkerDescription* response) override {
    const std::lock_guard lock(mutex_);
    if (silent_) return new AsyncUnary<v1::WorkerDescription>(context, response);
    *response = description_;
    return FinishNow(context, absl::OkStatus());
  }
  grpc::ServerUnaryReactor* PutProblem(grpc::CallbackServerContext* context,
                                       const v1::PutProblemRequest*,
                                       v1::PutProblemReply*) override {
    return FinishNow(context, absl::OkStatus());
  }
  grpc::ServerBidiReactor<v1::CompileStreamRequest, v1::CompileStreamReply>* CompileStream(
      grpc::CallbackServerContext* context) override {
    return new Stream(context, this);
  }
  grpc::ServerUnaryReactor* Measure(grpc::CallbackServerContext* context,
                                    const v1::MeasureRequest* request,
                                    v1::MeasureReply* response) override {
    const std::lock_guard lock(mutex_);
    const std::string& id = request->candidate().candidate_id();
    if (!request->candidate().source().empty()) {
      ++received_;
      candidates_.insert(id);
    } else if (!candidates_.contains(id)) {
      return FinishNow(context, absl::NotFoundError("candidate"));
    }
    ++measured_;
    ++device_models_[request->device_model()];
    if (!failure_.ok()) return FinishNow(context, failure_);
    if (holding_ || silent_) {
      auto* const call = new AsyncUnary<v1::MeasureReply>(context, response);
      held_.emplace_back(call->reply(), *request);
      return call;
    }
    *response = Measured(*request);
    if (lie_) lie_(*response);
    return FinishNow(context, absl::OkStatus());
  }

 private:
  class Stream final : public BatchStream<CompileBatches> {
   public:
    Stream(grpc::CallbackServerContext* context, FakeWorker* worker)
        : BatchStream(context, 1024), worker_(worker) {}

   private:
    void OnRequests(const v1::CompileStreamRequest& message) override {
      for (const v1::CompileRequest& request : message.requests()) {
        sender().Send(worker_->Compiled(request));
      }
    }
    FakeWorker* const worker_;
  };

  v1::CompileReply Compiled(const v1::CompileRequest& request) {
    const std::lock_guard lock(mutex_);
    ++compiled_models_[request.device_model()];
    v1::CompileReply reply;
    reply.set_request_id(request.request_id());
    reply.mutable_success()->mutable_facts()->set_schema(std::string(kPythonSourceSchemaId));
    reply.mutable_success()->mutable_artifact()->set_format(v1::ARTIFACT_FORMAT_PYTHON_SOURCE);
    return reply;
  }

  v1::MeasureReply Measured(const v1::MeasureRequest& request) const {
    Measurement measurement;
    measurement.candidate_id = request.candidate().candidate_id();
    measurement.problem_id = request.candidate().problem_id();
    measurement.target = request.candidate().target();
    measurement.level = FromProto(request.level());
    measurement.worker_id = description_.worker_id();
    MeasuredOk ok;
    ok.speedup = {.value = 1.5, .low = 1.4, .high = 1.6, .confidence = 0.95};
    measurement.outcome = ok;
    v1::MeasureReply reply;
    reply.set_request_id(request.request_id());
    *reply.mutable_measurement() = ToProto(measurement);
    return reply;
  }

  mutable std::mutex mutex_;
  v1::WorkerDescription description_;
  absl::Status failure_;
  std::function<void(v1::MeasureReply&)> lie_;
  bool holding_ = false;
  bool silent_ = false;
  std::map<std::string, int> device_models_;
  std::map<std::string, int> compiled_models_;
  std::set<std::string> candidates_;
  size_t measured_ = 0;
  size_t received_ = 0;
  std::vector<std::pair<UnaryReply<v1::MeasureReply>, v1::MeasureRequest>> held_;
};

// Records its requests and labels.
class FakeForecaster final : public FakePeer<v1::Forecaster::CallbackService> {
 public:
  explicit FakeForecaster(const std::string& id) : id_(id) {}
  ~FakeForecaster() override { Stop(); }

  std::set<std::string> labels() const {
    const std::lock_guard lock(mutex_);
    return labels_;
  }
  // Number of forecasts per search.
  std::map<std::string, int> searches() const {
    const std::lock_guard lock(mutex_);
    return searches_;
  }
  void SetDraining(bool draining) {
    const std::lock_guard lock(mutex_);
    draining_ = draining;
  }
  // Refuses calls that contain this label.
  void Refuse(const std::string& label_id) {
    const std::lock_guard lock(mutex_);
    refused_ = label_id;
  }
  void SetProtocolVersion(uint32_t version) {
    const std::lock_guard lock(mutex_);
    protocol_version_ = version;
  }
  // Behaves like a forecaster whose backend queries models.
  void UseAnchors() {
    const std::lock_guard lock(mutex_);
    uses_anchors_ = true;
  }
  // The status of later forecasts; OK: an answer.
  void Fail(absl::Status status) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(status);
  }
  // Number of forecasts that were asked for.
  int asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  v1::ForecastRequest last_request() const {
    const std::lock_guard lock(mutex_);
    return last_request_;
  }
  // As after a restart.
  void ForgetContent() {
    const std::lock_guard lock(mutex_);
    problems_.clear();
    candidates_.clear();
  }
  // Number of candidates that were sent whole, with forecasts and with labels.
  int received() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }
  void FallSilent(bool silent) {
    const std::lock_guard lock(mutex_);
    silent_ = silent;
  }

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::ForecasterDescribeRequest*,
                                     v1::ForecasterDescription* response) override {
    const std::lock_guard lock(mutex_);
    if (silent_) return new AsyncUnary<v1::ForecasterDescription>(context, response);
    response->set_forecaster_id(id_);
    response->set_protocol_version(protocol_version_);
    response->set_draining(draining_);
    response->set_labels(labels_.size());
    response->set_uses_anchors(uses_anchors_);
    if (uses_anchors_) response->add_backends()->mutable_model_use()->set_asked(3);
    return FinishNow(context, absl::OkStatus());
  }
  grpc::ServerUnaryReactor* PutProblem(grpc::CallbackServerContext* context,
                                       const v1::PutProblemRequest* request,
                                       v1::PutProblemReply*) override {
    const auto problem = ProblemFromProto(request->problem());
    const std::lock_guard lock(mutex_);
    problems_.insert(problem->problem_id);
    return FinishNow(context, absl::OkStatus());
  }
  grpc::ServerUnaryReactor* Forecast(grpc::CallbackServerContext* context,
                                     const v1::ForecastRequest* request,
                                     v1::ForecastReply* response) override {
    auto* const call = new AsyncUnary<v1::ForecastReply>(context, response);
    if (auto answer = Answer(*request)) call->reply().Finish(*std::move(answer));
    return call;
  }
  grpc::ServerBidiReactor<v1::ForecastStreamRequest, v1::ForecastStreamReply>* ForecastStream(
      grpc::CallbackServerContext* context) override {
    return new Stream(context, this);
  }
  grpc::ServerUnaryReactor* Observe(grpc::CallbackServerContext* context,
                                    const v1::ObserveRequest* request, v1::ObserveReply*) override {
    const std::lock_guard lock(mutex_);
    if (draining_) return FinishNow(context, NotStartedError("draining"));
    std::set<std::string> ids;
    for (const v1::Label& label : request->labels()) {
      if (label.label_id() == refused_) {
        return FinishNow(context, absl::InvalidArgumentError("label"));
      }
      if (!problems_.contains(label.candidate().problem_id())) {
        return FinishNow(context, absl::NotFoundError("problem"));
      }
      if (!Receive(label.candidate())) {
        return FinishNow(context, absl::NotFoundError("candidate"));
      }
      ids.insert(label.label_id());
    }
    labels_.insert(ids.begin(), ids.end());
    return FinishNow(context, absl::OkStatus());
  }

 private:
  class Stream final : public BatchStream<ForecastBatches> {
   public:
    Stream(grpc::CallbackServerContext* context, FakeForecaster* forecaster)
        : BatchStream(context, 1024), forecaster_(forecaster) {}

   private:
    void OnRequests(const v1::ForecastStreamRequest& message) override {
      for (const v1::ForecastRequest& request : message.requests()) {
        const auto answer = forecaster_->Answer(request);
        if (!answer) continue;
        v1::ForecastReply reply;
        if (answer->ok()) reply = **answer;
        if (!answer->ok()) SetRequestError(answer->status(), *reply.mutable_error());
        reply.set_request_id(request.request_id());
        sender().Send(std::move(reply));
      }
    }
    FakeForecaster* const forecaster_;
  };

  // False: it is named by an id that is not known. With mutex_ held.
  bool Receive(const v1::Candidate& candidate) {
    if (candidate.source().empty()) return candidates_.contains(candidate.candidate_id());
    ++received_;
    candidates_.insert(candidate.candidate_id());
    return true;
  }

  // Nothing while it is silent.
  std::optional<absl::StatusOr<v1::ForecastReply>> Answer(const v1::ForecastRequest& request) {
    const std::lock_guard lock(mutex_);
    if (silent_) return std::nullopt;
    ++asked_;
    if (draining_) return NotStartedError("draining");
    if (!failure_.ok()) return failure_;
    if (!problems_.contains(request.candidate().problem_id())) {
      return absl::NotFoundError("problem");
    }
    if (!Receive(request.candidate()) ||
        (request.has_anchor() && !Receive(request.anchor().candidate()))) {
      return absl::NotFoundError("candidate");
    }
    ++searches_[request.search_id()];
    last_request_ = request;
    v1::ForecastReply reply;
    reply.mutable_abstention()->set_cause(v1::Abstention::CAUSE_NOT_COVERED);
    reply.mutable_abstention()->set_backend(id_);
    return reply;
  }

  const std::string id_;
  mutable std::mutex mutex_;
  std::set<std::string> labels_;
  std::set<std::string> problems_;
  std::set<std::string> candidates_;
  int received_ = 0;
  std::map<std::string, int> searches_;
  std::string refused_ = "none";
  bool uses_anchors_ = false;
  absl::Status failure_;
  int asked_ = 0;
  v1::ForecastRequest last_request_;
  uint32_t protocol_version_ = kProtocolVersion;
  bool draining_ = false;
  bool silent_ = false;
};

// Starts peers at one port on different addresses of this machine, like the DNS records of a name.
// The peers must not have been started before.
template <class Peer>
int StartAtOnePort(const std::map<std::string, Peer*>& peers) {
  for (int tries = 0; tries < 100; ++tries) {
    std::string port;
    bool started = true;
    for (const auto& [ip, peer] : peers) {
      started = started && peer->TryStart(absl::StrCat(ip, ":", port.empty() ? "0" : port));
      if (started) port = peer->address().substr(peer->address().rfind(':') + 1);
    }
    if (started) return std::stoi(port);
    for (const auto& [ip, peer] : peers) peer->Forget();
  }
  return 0;
}

}  // namespace kernelcast::orchestrator::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_CLIENTS_FAKE_PEERS_H_
