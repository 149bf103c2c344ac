// Measures the cost of a forecast: in the model alone, and over gRPC compared with an echo service
// that answers the same request with a precomputed forecast.

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/unary_reactor.h"
#include "services/forecaster/embedded/embedded_backend.h"
#include "services/forecaster/rpc/forecaster_service.h"
#include "tests/support/one_by_one.h"
#include "tests/support/services.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

using SteadyClock = std::chrono::steady_clock;

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Answers every request with the same forecast.
class Echo final : public v1::Forecaster::CallbackService {
 public:
  explicit Echo(v1::ForecastReply reply) : reply_(std::move(reply)) {}

  grpc::ServerUnaryReactor* Forecast(grpc::CallbackServerContext* context,
                                     const v1::ForecastRequest*,
                                     v1::ForecastReply* response) override {
    auto* call = new AsyncUnary<v1::ForecastReply>(context, response);
    call->reply().Send(reply_);
    return call;
  }
  grpc::ServerBidiReactor<v1::ForecastStreamRequest, v1::ForecastStreamReply>* ForecastStream(
      grpc::CallbackServerContext* context) override {
    return new Stream(context, reply_);
  }

 private:
  class Stream final : public BatchStream<ForecastBatches> {
   public:
    Stream(grpc::CallbackServerContext* context, const v1::ForecastReply& reply)
        : BatchStream(context, 1024), reply_(reply) {}

   private:
    void OnRequests(const v1::ForecastStreamRequest& message) override {
      for (int i = 0; i < message.requests_size(); ++i) sender().Send(reply_);
    }
    const v1::ForecastReply& reply_;
  };

  const v1::ForecastReply reply_;
};

struct Figures {
  double per_second = 0;
  double p50_us = 0;
  double p99_us = 0;
};

Figures Summarize(std::vector<double>& latencies_us, double seconds) {
  std::sort(latencies_us.begin(), latencies_us.end());
  const size_t n = latencies_us.size();
  if (n == 0) return {};
  return {static_cast<double>(n) / seconds, latencies_us[n / 2], latencies_us[n * 99 / 100]};
}

void Print(const char* what, const Figures& figures) {
  std::printf("%-34s %10.0f /s   p50 %8.1f us   p99 %8.1f us\n", what, figures.per_second,
              figures.p50_us, figures.p99_us);
  std::fflush(stdout);
}

// Makes calls for `seconds`, `in_flight` at a time.
Figures Unary(v1::Forecaster::Stub& stub, const std::vector<v1::ForecastRequest>& requests,
              int in_flight, double seconds) {
  std::mutex mutex;
  std::condition_variable ended;
  int open = 0;
  std::vector<double> latencies_us;
  std::atomic<size_t> next = 0;
  const auto start = SteadyClock::now();
  struct Call {
    grpc::ClientContext context;
    v1::ForecastReply reply;
    SteadyClock::time_point start;
  };
  std::function<void()> launch = [&] {
    auto* call = new Call;
    call->start = SteadyClock::now();
    call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    stub.async()->Forecast(&call->context, &requests[next++ % requests.size()], &call->reply,
                           [&, call](grpc::Status status) {
                             const double us = 1e6 * SecondsSince(call->start);
                             delete call;
                             const bool again = SecondsSince(start) < seconds;
                             {
                               std::lock_guard lock(mutex);
                               if (status.ok()) latencies_us.push_back(us);
                             }
                             if (again) return launch();
                             std::lock_guard lock(mutex);
                             if (--open == 0) ended.notify_all();
                           });
  };
  open = in_flight;
  for (int i = 0; i < in_flight; ++i) launch();
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return open == 0; });
  return Summarize(latencies_us, SecondsSince(start));
}

Figures Streamed(v1::Forecaster::Stub& stub, const std::vector<v1::ForecastRequest>& requests,
                 int count) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
  auto stream = testing::OneByOne(stub.ForecastStream(&context));
  const auto start = SteadyClock::now();
  std::thread writer([&] {
    for (int i = 0; i < count; ++i) {
      if (!stream->Write(requests[i % requests.size()])) break;
    }
    stream->WritesDone();
  });
  v1::ForecastReply reply;
  int received = 0;
  while (stream->Read(&reply)) ++received;
  const double seconds = SecondsSince(start);
  writer.join();
  if (const grpc::Status status = stream->Finish(); !status.ok()) {
    std::fprintf(stderr, "stream: %s\n", status.error_message().c_str());
  }
  return {received / seconds, 0, 0};
}

int Run(int labels, double seconds, int in_flight) {
  SetLogLevel(LogLevel::kError);
  const PlantedProblem problem;
  const testing::TemporaryFolder folder("bench");
  auto store = LabelStore::Open(folder.File("state"));
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return 1;
  }
  EmbeddedBackend backend({});

  const std::vector<size_t> order = problem.Shuffled(1);
  std::vector<ObservedLabel> observed;
  for (int i = 0; i < labels; ++i) {
    const size_t candidate = order[static_cast<size_t>(i) % order.size()];
    Label label = i % 7 == 6 ? problem.MakeFailure(candidate, FailureKind::kWrongResult)
                             : problem.MakeLabel(candidate, 0.1, 1);
    label.label_id += "#" + std::to_string(i);
    observed.push_back(
        {problem.context(), static_cast<uint64_t>(i) + 1, std::move(label), false, {}});
  }
  auto start = SteadyClock::now();
  backend.Observe(std::move(observed));
  backend.WaitUntilTrained();
  std::printf("%d labels replayed with their prequential record in %.2f s\n", labels,
              SecondsSince(start));
  start = SteadyClock::now();
  Label one_more = problem.MakeLabel(order.back(), 0.1, 1);
  std::vector<ObservedLabel> last;
  last.push_back(
      {problem.context(), static_cast<uint64_t>(labels) + 1, std::move(one_more), false, {}});
  backend.Observe(std::move(last));
  backend.WaitUntilTrained();
  std::printf("one more label takes effect after %.0f ms\n\n", 1e3 * SecondsSince(start));

  std::vector<ForecastInput> inputs;
  std::vector<v1::ForecastRequest> requests;
  for (size_t i = 0; i < problem.size(); ++i) {
    ForecastInput& input = inputs.emplace_back();
    input.problem = problem.context();
    input.candidate = problem.candidates()[i];
    // About the size of a real kernel.
    input.candidate.source += "// " + std::string(4000, 'x') + "\n";
    input.candidate.candidate_id = CandidateId(input.candidate);
    input.facts = problem.Facts(i);
    input.reference_facts = problem.ReferenceFacts();
    v1::ForecastRequest& request = requests.emplace_back();
    *request.mutable_candidate() = ToProto(input.candidate);
    *request.mutable_facts() = ToProto(input.facts);
    *request.mutable_reference_facts() = ToProto(input.reference_facts);
  }

  std::vector<double> latencies_us;
  start = SteadyClock::now();
  for (size_t i = 0; SecondsSince(start) < seconds; ++i) {
    const auto begin = SteadyClock::now();
    const kernelcast::Forecast forecast = backend.ForecastNow(inputs[i % inputs.size()]);
    latencies_us.push_back(1e6 * SecondsSince(begin));
    if (forecast.predicted_bin == 0) return 1;
  }
  Print("model alone, one thread", Summarize(latencies_us, SecondsSince(start)));

  MetricsRegistry metrics;
  ForecasterService service({}, store->get(), {&backend}, &metrics, Clock::Real());
  v1::ForecastReply prepared;
  *prepared.mutable_forecast() = ToProto(backend.ForecastNow(inputs[0]));
  Echo echo(prepared);
  for (const bool bare : {true, false}) {
    auto server = RpcServer::Start(
        {}, {bare ? static_cast<grpc::Service*>(&echo) : static_cast<grpc::Service*>(&service)},
        nullptr);
    if (!server.ok()) {
      std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
      return 1;
    }
    auto channel = MakeChannel((*server)->address());
    if (!channel.ok()) return 1;
    const auto stub = v1::Forecaster::NewStub(*channel);
    if (!bare) {
      v1::PutProblemRequest request;
      *request.mutable_problem() = ProblemFilesToProto(problem.context()->problem);
      v1::PutProblemReply reply;
      grpc::ClientContext context;
      const grpc::Status status = stub->PutProblem(&context, request, &reply);
      if (!status.ok()) {
        std::fprintf(stderr, "PutProblem: %s\n", status.error_message().c_str());
        return 1;
      }
    }
    Print(bare ? "echo, one call at a time" : "forecast, one call at a time",
          Unary(*stub, requests, 1, seconds));
    Print(bare ? "echo, unary, many in flight" : "forecast, unary, many in flight",
          Unary(*stub, requests, in_flight, seconds));
    const Figures streamed = Streamed(*stub, requests, static_cast<int>(20'000 * seconds / 2));
    std::printf("%-34s %10.0f /s\n", bare ? "echo, streamed" : "forecast, streamed",
                streamed.per_second);
    (*server)->Shutdown(absl::Seconds(5));
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast::forecaster

int main(int argc, char** argv) {
  CLI::App app("Prints the cost of a forecast, compared with an echo of the same messages.");
  int labels = 60;
  double seconds = 2;
  int in_flight = 32;
  app.add_option("--labels", labels, "Labels to learn before forecasting")->capture_default_str();
  app.add_option("--seconds", seconds, "Seconds per figure")->capture_default_str();
  app.add_option("--in-flight", in_flight, "Concurrent unary calls")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return kernelcast::forecaster::Run(labels, seconds, in_flight);
}
