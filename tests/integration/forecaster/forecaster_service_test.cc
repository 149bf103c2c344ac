// Tests the forecaster as a separate process.

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/convert/candidate_exchange.h"
#include "common/convert/convert.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/support/one_by_one.h"
#include "tests/support/services.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::testing {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using forecaster::PlantedProblem;

constexpr auto kCallLimit = std::chrono::seconds(60);

v1::Label ToProto(const Label& label) {
  v1::Label proto;
  proto.set_label_id(label.label_id);
  *proto.mutable_candidate() = kernelcast::ToProto(label.candidate);
  *proto.mutable_facts() = kernelcast::ToProto(label.facts);
  *proto.mutable_reference_facts() = kernelcast::ToProto(label.reference_facts);
  if (const auto* speedup = std::get_if<Ratio>(&label.truth)) {
    *proto.mutable_speedup() = kernelcast::ToProto(*speedup);
  } else {
    proto.set_failure(static_cast<v1::FailureLabel>(std::get<FailureKind>(label.truth)));
  }
  proto.set_propensity(label.propensity);
  return proto;
}

v1::ForecastRequest RequestFor(const PlantedProblem& problem, size_t candidate) {
  v1::ForecastRequest request;
  request.set_request_id(absl::StrCat("r", candidate));
  *request.mutable_candidate() = kernelcast::ToProto(problem.candidates()[candidate]);
  *request.mutable_facts() = kernelcast::ToProto(problem.Facts(candidate));
  *request.mutable_reference_facts() = kernelcast::ToProto(problem.ReferenceFacts());
  return request;
}

class Forecaster {
 public:
  explicit Forecaster(const std::vector<std::string>& more = {})
      : folder_("forecaster"), service_("kernelcast-forecaster", Arguments(more), folder_) {
    Start();
  }

  void Start() {
    const absl::Status started = service_.Start();
    INFO(started.ToString());
    REQUIRE(started.ok());
    auto channel = MakeChannel(service_.address());
    REQUIRE(channel.ok());
    stub_ = v1::Forecaster::NewStub(*channel);
  }

  v1::Forecaster::Stub& stub() { return *stub_; }
  Service& service() { return service_; }
  const TemporaryFolder& folder() const { return folder_; }

  template <class Reply, class Method, class Request>
  grpc::Status Call(Method method, const Request& request, Reply& reply) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
    context.set_wait_for_ready(true);
    return ((*stub_).*method)(&context, request, &reply);
  }

  v1::ProblemDefinition Put(const PlantedProblem& problem) {
    v1::PutProblemRequest request;
    *request.mutable_problem() = ProblemFilesToProto(problem.context()->problem);
    v1::PutProblemReply reply;
    const grpc::Status status = Call(&v1::Forecaster::Stub::PutProblem, request, reply);
    INFO(status.error_message());
    REQUIRE(status.ok());
    return reply.definition();
  }
  v1::ObserveReply Observe(const std::vector<Label>& labels) {
    v1::ObserveRequest request;
    for (const Label& label : labels) *request.add_labels() = ToProto(label);
    v1::ObserveReply reply;
    const grpc::Status status = Call(&v1::Forecaster::Stub::Observe, request, reply);
    INFO(status.error_message());
    REQUIRE(status.ok());
    return reply;
  }
  v1::ForecastReply Forecast(const v1::ForecastRequest& request) {
    v1::ForecastReply reply;
    const grpc::Status status = Call(&v1::Forecaster::Stub::Forecast, request, reply);
    INFO(status.error_message());
    REQUIRE(status.ok());
    return reply;
  }
  v1::ForecasterDescription Describe() {
    v1::ForecasterDescription reply;
    REQUIRE(Call(&v1::Forecaster::Stub::Describe, v1::ForecasterDescribeRequest(), reply).ok());
    return reply;
  }
  // Polls until a forecast uses this many labels of the problem.
  void WaitForLabels(const PlantedProblem& problem, uint64_t labels) {
    const auto limit = std::chrono::steady_clock::now() + kCallLimit;
    while (Forecast(RequestFor(problem, 0)).forecast().labels_seen() != labels) {
      REQUIRE(std::chrono::steady_clock::now() < limit);
      std::this_thread::yield();
    }
  }
  // The fields that are equal whenever the same labels are known.
  std::vector<std::string> Forecasts(const PlantedProblem& problem) {
    std::vector<std::string> forecasts;
    for (size_t i = 0; i < problem.size(); i += 11) {
      v1::Forecast forecast = Forecast(RequestFor(problem, i)).forecast();
      forecast.clear_latency();
      forecasts.push_back(forecast.SerializeAsString());
    }
    return forecasts;
  }

 private:
  std::vector<std::string> Arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"--state-dir", folder_.File("state")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  TemporaryFolder folder_;
  Service service_;
  std::unique_ptr<v1::Forecaster::Stub> stub_;
};

std::vector<Label> SomeLabels(const PlantedProblem& problem, size_t first, size_t count) {
  std::vector<Label> labels;
  const std::vector<size_t> order = problem.Shuffled(1);
  for (size_t i = first; i < first + count; ++i) {
    labels.push_back(i % 5 == 4 ? problem.MakeFailure(order[i], FailureKind::kWrongResult)
                                : problem.MakeLabel(order[i], 0.1, 1));
  }
  return labels;
}

TEST_CASE("Labels and forecasts survive a kill", "[forecaster][integration]") {
  const PlantedProblem problem;
  Forecaster forecaster;
  CHECK(forecaster.Put(problem).problem_id() == problem.context()->problem.problem_id);
  const std::vector<Label> labels = SomeLabels(problem, 0, 25);
  const v1::ObserveReply reply = forecaster.Observe(labels);
  CHECK(reply.accepted() == 25);
  CHECK(reply.duplicates() == 0);
  forecaster.WaitForLabels(problem, 25);
  const std::vector<std::string> before = forecaster.Forecasts(problem);

  forecaster.service().Kill();
  forecaster.Start();
  // No PutProblem: a problem with labels is known.
  forecaster.WaitForLabels(problem, 25);
  CHECK(forecaster.Forecasts(problem) == before);
  const v1::ForecasterDescription description = forecaster.Describe();
  CHECK(description.labels() == 25);
  REQUIRE(description.backends_size() == 1);
  REQUIRE(description.backends(0).labels_size() == 1);
  CHECK(description.backends(0).labels(0).failures() == 5);

  const v1::ObserveReply again = forecaster.Observe(labels);
  CHECK(again.accepted() == 0);
  CHECK(again.duplicates() == 25);
}

TEST_CASE("A label that names its candidate by its id is whole on disk",
          "[forecaster][integration]") {
  const PlantedProblem problem;
  Forecaster forecaster;
  forecaster.Put(problem);
  const Label label = problem.MakeLabel(3);
  SentCandidates sent;
  sent.Add(label.candidate);
  v1::ObserveRequest request;
  *request.add_labels() = ToProto(label);
  *request.mutable_labels(0)->mutable_candidate() = sent.Write(label.candidate);
  v1::ObserveReply reply;
  CHECK(forecaster.Call(&v1::Forecaster::Stub::Observe, request, reply).error_code() ==
        grpc::StatusCode::NOT_FOUND);
  forecaster.Forecast(RequestFor(problem, 3));
  REQUIRE(forecaster.Call(&v1::Forecaster::Stub::Observe, request, reply).ok());
  CHECK(reply.accepted() == 1);

  // It starts only if it can read the label.
  forecaster.service().Kill();
  forecaster.Start();
  CHECK(forecaster.Describe().labels() == 1);
  CHECK(forecaster.Call(&v1::Forecaster::Stub::Observe, request, reply).error_code() ==
        grpc::StatusCode::NOT_FOUND);
}

TEST_CASE("An acknowledged label survives a kill at any moment", "[forecaster][integration]") {
  const PlantedProblem problem;
  Forecaster forecaster;
  forecaster.Put(problem);
  for (size_t round = 0; round < 4; ++round) {
    const v1::ObserveReply reply = forecaster.Observe(SomeLabels(problem, 6 * round, 6));
    CHECK(reply.accepted() == 6);
    forecaster.service().Kill();
    forecaster.Start();
    CHECK(forecaster.Describe().labels() == 6 * (round + 1));
  }
}

TEST_CASE("Forecasts are wide before any label and narrower after some",
          "[forecaster][integration]") {
  const PlantedProblem problem;
  Forecaster forecaster;
  forecaster.Put(problem);
  const v1::Forecast first = forecaster.Forecast(RequestFor(problem, 3)).forecast();
  CHECK(first.labels_seen() == 0);
  CHECK(first.calibrator_version() == "none");
  CHECK(first.bin_probabilities_size() == 8);
  CHECK(first.candidate_id() == problem.candidates()[3].candidate_id);
  forecaster.Observe(SomeLabels(problem, 0, 20));
  forecaster.WaitForLabels(problem, 20);
  const v1::Forecast later = forecaster.Forecast(RequestFor(problem, 3)).forecast();
  CHECK(later.stddev_log2_speedup() < 0.7 * first.stddev_log2_speedup());
  CHECK_THAT(later.calibrator_version(), StartsWith("scale/1;"));
}

TEST_CASE("A stream answers each of 5000 requests once", "[forecaster][integration]") {
  const PlantedProblem problem;
  Forecaster forecaster;
  forecaster.Put(problem);
  forecaster.Observe(SomeLabels(problem, 0, 12));
  forecaster.WaitForLabels(problem, 12);

  constexpr int kRequests = 5000;
  constexpr int kBad = 1234;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
  auto stream = testing::OneByOne(forecaster.stub().ForecastStream(&context));
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      v1::ForecastRequest request = RequestFor(problem, i % problem.size());
      request.set_request_id(std::to_string(i));
      if (i == kBad) request.set_bin_scheme_id("thirds/1");
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
  });
  std::set<std::string> answered;
  int errors = 0;
  v1::ForecastReply reply;
  while (stream->Read(&reply)) {
    answered.insert(reply.request_id());
    if (reply.has_error()) {
      ++errors;
      CHECK(reply.request_id() == std::to_string(kBad));
      CHECK(reply.error().code() == grpc::StatusCode::INVALID_ARGUMENT);
      CHECK_THAT(reply.error().message(), StartsWith("bin_scheme_id:"));
    } else {
      CHECK(reply.forecast().labels_seen() == 12);
    }
  }
  writer.join();
  CHECK(stream->Finish().ok());
  CHECK(answered.size() == kRequests);
  CHECK(errors == 1);
}

TEST_CASE("Messages with many requests are answered once each and report which one is wrong",
          "[forecaster][integration]") {
  const PlantedProblem problem;
  Forecaster forecaster;
  forecaster.Put(problem);

  constexpr int kMessages = 50;
  constexpr int kPerMessage = 40;
  constexpr int kBad = 123;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
  auto stream = forecaster.stub().ForecastStream(&context);
  std::thread writer([&] {
    for (int i = 0; i < kMessages; ++i) {
      v1::ForecastStreamRequest message;
      message.mutable_time_left()->set_seconds(20);
      for (int j = 0; j < kPerMessage; ++j) {
        const int number = i * kPerMessage + j;
        v1::ForecastRequest request = RequestFor(problem, number % problem.size());
        request.set_request_id(std::to_string(number));
        if (number == kBad) request.set_bin_scheme_id("thirds/1");
        *message.add_requests() = std::move(request);
      }
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
  });
  std::set<std::string> answered;
  int errors = 0;
  v1::ForecastStreamReply message;
  while (stream->Read(&message)) {
    for (const v1::ForecastReply& reply : message.replies()) {
      CHECK(answered.insert(reply.request_id()).second);
      if (reply.has_error()) {
        ++errors;
        CHECK(reply.request_id() == std::to_string(kBad));
        CHECK(reply.error().code() == grpc::StatusCode::INVALID_ARGUMENT);
      } else {
        CHECK(reply.has_forecast());
      }
    }
  }
  writer.join();
  CHECK(stream->Finish().ok());
  CHECK(answered.size() == kMessages * kPerMessage);
  CHECK(errors == 1);
}

TEST_CASE("Bad input gets the right code and a message that names the fault",
          "[forecaster][integration]") {
  const PlantedProblem problem;
  Forecaster forecaster;
  forecaster.Put(problem);

  SECTION("forecasts") {
    const auto status = [&](auto&& spoil) {
      v1::ForecastRequest request = RequestFor(problem, 0);
      spoil(request);
      v1::ForecastReply reply;
      return forecaster.Call(&v1::Forecaster::Stub::Forecast, request, reply);
    };
    const grpc::Status unknown = status([&](auto& r) {
      Candidate candidate = problem.candidates()[0];
      candidate.problem_id = "p_" + std::string(32, '0');
      candidate.candidate_id = CandidateId(candidate);
      *r.mutable_candidate() = kernelcast::ToProto(candidate);
    });
    CHECK(unknown.error_code() == grpc::StatusCode::NOT_FOUND);
    CHECK_THAT(unknown.error_message(), StartsWith("candidate.problem_id:"));
    for (const auto& [field, result] : std::vector<std::pair<std::string, grpc::Status>>{
             {"facts:", status([](auto& r) { r.mutable_facts()->add_values(1); })},
             {"facts:", status([](auto& r) { r.mutable_facts()->set_schema("x/1"); })},
             {"bin_scheme_id:", status([](auto& r) { r.set_bin_scheme_id("x/1"); })},
             {"backend:", status([](auto& r) { r.set_backend("oracle"); })},
             {"candidate:", status([](auto& r) { r.mutable_candidate()->set_source("\xff"); })},
             {"candidate:", status([](auto& r) { r.clear_candidate(); })},
             {"baseline_speedup:", status([](auto& r) { r.set_baseline_speedup(-1); })}}) {
      CAPTURE(field, result.error_message());
      CHECK(result.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
      CHECK_THAT(result.error_message(), StartsWith(field));
    }
  }

  SECTION("a batch with a malformed label keeps none of its labels") {
    v1::ObserveRequest request;
    for (const Label& label : SomeLabels(problem, 0, 3)) *request.add_labels() = ToProto(label);
    request.mutable_labels(1)->mutable_speedup()->set_value(-1);
    request.mutable_labels(2)->set_propensity(7);
    v1::ObserveReply reply;
    const grpc::Status status = forecaster.Call(&v1::Forecaster::Stub::Observe, request, reply);
    CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    CHECK_THAT(status.error_message(), StartsWith("labels[1].speedup.value:"));
    CHECK(forecaster.Describe().labels() == 0);
  }

  SECTION("labels of an unknown problem") {
    const PlantedProblem other("other");
    v1::ObserveRequest request;
    *request.add_labels() = ToProto(problem.MakeLabel(0));
    *request.add_labels() = ToProto(other.MakeLabel(0));
    v1::ObserveReply reply;
    const grpc::Status status = forecaster.Call(&v1::Forecaster::Stub::Observe, request, reply);
    CHECK(status.error_code() == grpc::StatusCode::NOT_FOUND);
    CHECK_THAT(status.error_message(), StartsWith("labels[1].candidate.problem_id:"));
    CHECK(forecaster.Describe().labels() == 0);
  }

  SECTION("a problem file with a mistake") {
    v1::PutProblemRequest request;
    *request.mutable_problem() = ProblemFilesToProto(problem.context()->problem);
    request.mutable_problem()->clear_problem_id();
    for (v1::SourceFile& file : *request.mutable_problem()->mutable_files()) {
      if (file.path() != "problem.yaml") continue;
      const size_t at = file.content().find("float32");
      file.mutable_content()->replace(at, 7, "float31");
    }
    v1::PutProblemReply reply;
    const grpc::Status status = forecaster.Call(&v1::Forecaster::Stub::PutProblem, request, reply);
    CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    CHECK_THAT(status.error_message(), StartsWith("problem.yaml:"));
    CHECK_THAT(status.error_message(), Contains("float31"));
  }

  SECTION("a deadline that has passed") {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
    v1::ForecastReply reply;
    CHECK(forecaster.stub().Forecast(&context, RequestFor(problem, 0), &reply).error_code() ==
          grpc::StatusCode::DEADLINE_EXCEEDED);
  }
}

TEST_CASE("A stream left open ends at its deadline", "[forecaster][integration]") {
  const PlantedProblem problem;
  Forecaster forecaster;
  forecaster.Put(problem);
  grpc::ClientContext context;
  // Long enough for a forecast on a busy machine.
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  auto stream = testing::OneByOne(forecaster.stub().ForecastStream(&context));
  REQUIRE(stream->Write(RequestFor(problem, 0)));
  v1::ForecastReply reply;
  CHECK(stream->Read(&reply));
  CHECK_FALSE(stream->Read(&reply));
  CHECK(stream->Finish().error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  // The service still works.
  CHECK(forecaster.Forecast(RequestFor(problem, 1)).has_forecast());
}

TEST_CASE("Scores are a pure function of the request", "[forecaster][integration]") {
  Forecaster forecaster;
  v1::ScoreRequest request;
  request.set_reward(v1::REWARD_KIND_HIT_BRIER);
  v1::ScoreItem& item = *request.add_items();
  item.set_item_id("a");
  item.set_group_id("g");
  item.set_true_bin(5);
  item.set_answer(
      R"({"p_severe_slowdown":0,"p_significant_slowdown":0,"p_moderate_slowdown":0,)"
      R"("p_minor_slowdown":0,"p_minor_speedup":1,"p_significant_speedup":0,"p_high_speedup":0,)"
      R"("p_extreme_speedup":0,"predicted_bin":5,"reasoning":"x"})");
  *request.add_items() = item;
  request.mutable_items(1)->set_answer("no idea");
  v1::ScoreReply reply;
  REQUIRE(forecaster.Call(&v1::Forecaster::Stub::Score, request, reply).ok());
  REQUIRE(reply.scores_size() == 2);
  CHECK(reply.scores(0).reward() == Approx(2));
  CHECK(reply.scoring_version() == "scoring/1");
  CHECK(reply.scores(0).parse_status() == v1::ItemScore::PARSE_STATUS_OK);
  CHECK(reply.scores(1).reward() == 0);
  CHECK(reply.scores(1).parse_status() == v1::ItemScore::PARSE_STATUS_UNPARSABLE);
  REQUIRE(reply.groups_size() == 1);
  CHECK(reply.groups(0).mean_reward() == Approx(1));
  CHECK(reply.metrics().unparsable() == 1);

  request.mutable_items(1)->clear_truth();
  const grpc::Status status = forecaster.Call(&v1::Forecaster::Stub::Score, request, reply);
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(status.error_message(), StartsWith("items[1].truth:"));
}

TEST_CASE("The service describes itself", "[forecaster][integration]") {
  Forecaster forecaster;
  const v1::ForecasterDescription description = forecaster.Describe();
  CHECK_FALSE(description.forecaster_id().empty());
  CHECK_FALSE(description.version().empty());
  REQUIRE(description.backends_size() == 1);
  CHECK(description.backends(0).name() == "embedded");
  CHECK(description.backends(0).ready());
  CHECK(description.labels() == 0);
  CHECK_FALSE(description.draining());
}

TEST_CASE("The service exits when asked to", "[forecaster][integration]") {
  const PlantedProblem problem;
  Forecaster forecaster;
  forecaster.Put(problem);
  forecaster.Observe(SomeLabels(problem, 0, 15));
  CHECK(forecaster.service().Terminate() == 0);
  forecaster.Start();
  CHECK(forecaster.Describe().labels() == 15);
}

TEST_CASE("State that is in use or damaged is a clear error at startup",
          "[forecaster][integration]") {
  Forecaster forecaster;
  const std::string state = forecaster.folder().File("state");
  SECTION("in use") {
    const TemporaryFolder folder("second");
    Service second("kernelcast-forecaster", {"--state-dir", state}, folder);
    const absl::Status started = second.Start();
    REQUIRE_FALSE(started.ok());
    CHECK_THAT(std::string(started.message()), Contains("in use by another process"));
  }
  SECTION("damaged") {
    // Stop cleanly: the journal of a killed process would repair the file.
    REQUIRE(forecaster.service().Terminate() == 0);
    std::ofstream(state + "/forecaster.db") << std::string(8192, 'x');
    const absl::Status started = forecaster.service().Start();
    REQUIRE_FALSE(started.ok());
    CHECK_THAT(std::string(started.message()), Contains("forecaster.db"));
  }
}

TEST_CASE("A forecaster with a model has three backends and describes its prompt",
          "[forecaster][llm]") {
  const auto endpoint = FakeLlmEndpoint::Start({}).value();
  Forecaster forecaster({"--llm", endpoint->url(), "--backend", "pool"});
  const PlantedProblem problem;
  forecaster.Put(problem);

  const v1::ForecasterDescription description = forecaster.Describe();
  REQUIRE(description.backends_size() == 3);
  CHECK(description.backends(0).name() == "pool");
  // The pool and the model share one prompt.
  REQUIRE(description.prompts_size() == 1);
  CHECK_THAT(description.prompts(0).version(), StartsWith("speedup-bins/2@"));
  CHECK(description.prompts(0).sha256().size() == 32);
  CHECK_THAT(description.prompts(0).user_template(), Contains("{{candidate}}"));
  CHECK_THAT(description.prompts(0).answer_schema(), Contains("p_high_speedup"));

  v1::ForecastRequest request = RequestFor(problem, 0);
  const v1::ForecastReply pooled = forecaster.Forecast(request);
  CHECK_FALSE(pooled.has_prompt());
  CHECK(pooled.forecast().backend() == "pool");
  REQUIRE(pooled.forecast().components_size() == 2);
  request.set_show_prompt(true);
  request.set_backend("llm");
  request.mutable_device()->set_model("A device of its own");
  const v1::ForecastReply shown = forecaster.Forecast(request);
  CHECK(shown.forecast().backend() == "llm:fake");
  CHECK(shown.forecast().prompt_version() == shown.prompt().version());
  CHECK_THAT(shown.prompt().user(), Contains("A device of its own"));
  request.set_backend("embedded");
  const v1::ForecastReply embedded = forecaster.Forecast(request);
  CHECK(embedded.forecast().backend() == "embedded");
  CHECK_FALSE(embedded.has_prompt());

  // A label with its pooled forecast restores the weights after a restart.
  Label label = problem.MakeLabel(0);
  label.forecast = kernelcast::FromProto(pooled.forecast());
  v1::ObserveRequest observe;
  *observe.add_labels() = ToProto(label);
  *observe.mutable_labels(0)->mutable_forecast() = pooled.forecast();
  v1::ObserveReply observed;
  REQUIRE(forecaster.Call(&v1::Forecaster::Stub::Observe, observe, observed).ok());
  const auto weight = [&] {
    v1::ForecastReply reply = forecaster.Forecast(RequestFor(problem, 1));
    return reply.forecast().components_size() == 2 ? reply.forecast().components(1).weight() : 0;
  };
  const double learnt = weight();
  CHECK(learnt != 0.5);
  CHECK(forecaster.service().Terminate() == 0);
  forecaster.Start();
  CHECK(weight() == Approx(learnt));
}

}  // namespace
}  // namespace kernelcast::testing
