// The contract of an orchestrator with its clients, with a replaying worker and a real forecaster.
// It is the same with a log of its own, and with a shared log whichever orchestrator is asked.

#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/convert/convert.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/one_by_one.h"
#include "tests/support/postgresql.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"
#include "tests/support/span_collector.h"

namespace kernelcast::contract_test {
namespace {

// Where the log is, and which orchestrator the client asks.
struct SetUp {
  // Two orchestrators share a log of one shard.
  bool shared = false;
  // The client asks the one that does not hold the shard, which forwards every call.
  bool elsewhere = false;
};
struct OwnLog {
  static constexpr SetUp kSetUp = {};
};
struct SharedLog {
  static constexpr SetUp kSetUp = {.shared = true};
};
struct SharedLogElsewhere {
  static constexpr SetUp kSetUp = {.shared = true, .elsewhere = true};
};

struct Cluster {
  // `shared_arguments`: of all services.
  explicit Cluster(SetUp set_up, std::vector<std::string> shared_arguments = {})
      : arguments(std::move(shared_arguments)),
        folder("orchestrator"),
        recorded(testing::MakeRecordedProblem(16, 12)),
        worker("kernelcast-worker",
               WithShared({"--replay", Records(), "--cache-dir", folder.File("cache")}), folder),
        forecaster("kernelcast-forecaster", WithShared({"--state-dir", folder.File("forecaster")}),
                   folder) {
    Require(worker.Start());
    Require(forecaster.Start());
    if (set_up.shared) {
      Require(database.Start());
      AddOrchestrator("first",
                      {"--store", database.Uri(), "--store-shards", "1", "--lease-seconds", "2"});
      REQUIRE(testing::Eventually([&] {
        return database.Number("SELECT count(*) FROM kernelcast_shards WHERE expires_at > now()")
                   .value_or(0) == 1;
      }));
      AddOrchestrator("second", {"--store", database.Uri(), "--lease-seconds", "2"});
    } else {
      AddOrchestrator("first", {});
    }
    orchestrator = orchestrators[set_up.elsewhere ? 1 : 0].get();
    stub = StubOf(*orchestrator);
    v1::PutProblemRequest request;
    *request.mutable_problem() = ProblemFilesToProto(recorded.problem);
    v1::PutProblemReply reply;
    REQUIRE(Call([&](auto* context) { return stub->PutProblem(context, request, &reply); }).ok());
    CHECK(reply.definition().problem_id() == recorded.problem.problem_id);
    CHECK(reply.definition().space_points().at("cpu") == recorded.candidates.size());
  }

  std::vector<std::string> WithShared(std::vector<std::string> own) const {
    own.insert(own.end(), arguments.begin(), arguments.end());
    return own;
  }
  void AddOrchestrator(const std::string& name, std::vector<std::string> own) {
    own.insert(own.end(), {"--state-dir", folder.File(name), "--worker", worker.address(),
                           "--forecaster", forecaster.address(), "--confirm", "1"});
    orchestrators.push_back(std::make_unique<testing::Service>(
        "kernelcast-orchestrator", WithShared(std::move(own)), folder,
        testing::ServiceSite{.name = name, .launcher = {}}));
    Require(orchestrators.back()->Start());
  }
  static std::unique_ptr<v1::Orchestrator::Stub> StubOf(const testing::Service& service) {
    return v1::Orchestrator::NewStub(
        grpc::CreateChannel(service.address(), grpc::InsecureChannelCredentials()));
  }
  // Number of events in the log.
  uint64_t Events() const {
    uint64_t events = 0;
    for (const auto& one : orchestrators) {
      v1::OrchestratorDescription description;
      const auto asked = StubOf(*one);
      REQUIRE(Call([&](auto* c) { return asked->Describe(c, {}, &description); }).ok());
      events += description.events();
    }
    return events;
  }

  std::string Records() {
    testing::WriteRecords(recorded, folder.File("records.jsonl"));
    return folder.File("records.jsonl");
  }
  static void Require(const absl::Status& status) {
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  template <class F>
  static grpc::Status Call(const F& call) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return call(&context);
  }
  grpc::Status Evaluate(const v1::EvaluateRequest& request, v1::EvaluateReply* reply) {
    return Call([&](auto* context) { return stub->Evaluate(context, request, reply); });
  }
  v1::EvaluateRequest Request(const std::string& id, size_t candidate) const {
    v1::EvaluateRequest request;
    request.set_request_id(id);
    request.set_mode(v1::EVALUATE_MODE_MEASURE);
    *request.mutable_candidate() = ToProto(recorded.candidates[candidate]);
    return request;
  }
  v1::StartSearchRequest Search(const std::string& id, uint64_t measurements) const {
    v1::StartSearchRequest request;
    request.set_search_id(id);
    auto* spec = request.mutable_spec();
    spec->set_problem_id(recorded.problem.problem_id);
    spec->set_target("cpu");
    spec->set_generator(v1::GENERATOR_TEMPLATE);
    spec->mutable_budget()->set_max_measurements(measurements);
    return request;
  }

  const std::vector<std::string> arguments;
  testing::TemporaryFolder folder;
  testing::RecordedProblem recorded;
  testing::Service worker;
  testing::Service forecaster;
  testing::PostgresqlServer database;  // started for a shared log
  std::vector<std::unique_ptr<testing::Service>> orchestrators;
  testing::Service* orchestrator = nullptr;  // the one that the client asks
  std::unique_ptr<v1::Orchestrator::Stub> stub;
};

#define CONTRACT_TEST(name) TEMPLATE_TEST_CASE(name, "", OwnLog, SharedLog, SharedLogElsewhere)
#define SLOW_CONTRACT_TEST(name) \
  TEMPLATE_TEST_CASE(name, "[slow]", OwnLog, SharedLog, SharedLogElsewhere)
#define SKIP_IF_MISSING() \
  if (TestType::kSetUp.shared && testing::PostgresqlServer::Missing()) return

CONTRACT_TEST("A search is watched from its first event to its end and exported") {
  SKIP_IF_MISSING();
  Cluster cluster(TestType::kSetUp);
  v1::StartSearchReply started;
  REQUIRE(cluster
              .Call([&](auto* context) {
                return cluster.stub->StartSearch(context, cluster.Search("s1", 40), &started);
              })
              .ok());

  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::WatchSearchRequest watch;
  watch.set_search_id("s1");
  auto stream = cluster.stub->WatchSearch(&context, watch);
  v1::SearchEvent event, last;
  std::set<std::string> proposed, settled;
  double best = 0;
  uint64_t last_sequence = 0;
  while (stream->Read(&event)) {
    CHECK(event.sequence() >= last_sequence);
    last_sequence = event.sequence();
    if (event.has_proposed()) CHECK(proposed.insert(event.proposed().request_id()).second);
    if (event.has_settled()) CHECK(settled.insert(event.settled().request_id()).second);
    if (event.has_improved()) {
      CHECK(event.improved().speedup().value() > best);
      best = event.improved().speedup().value();
    }
    last = event;
  }
  CHECK(stream->Finish().ok());
  CHECK(last.has_ended());
  CHECK(last.status() == v1::SEARCH_STATUS_DONE);
  CHECK(proposed == settled);
  CHECK(last.counts().considered() == cluster.recorded.candidates.size());
  CHECK(last.counts().measured() <= 40);
  CHECK(last.ended().best_speedup().value() >= 0.95 * cluster.recorded.best_speedup);

  v1::GetSearchReply search;
  REQUIRE(cluster
              .Call([&](auto* c) {
                v1::GetSearchRequest request;
                request.set_search_id("s1");
                return cluster.stub->GetSearch(c, request, &search);
              })
              .ok());
  CHECK(search.searches(0).counts().SerializeAsString() == last.counts().SerializeAsString());

  grpc::ClientContext export_context;
  v1::ExportRequest export_request;
  export_request.set_search_id("s1");
  auto records = cluster.stub->Export(&export_context, export_request);
  v1::ExportRecord record;
  std::set<std::string> exported;
  while (records->Read(&record)) {
    CHECK(exported.insert(record.evaluation().request_id()).second);
    CHECK(record.candidate().source().empty());
    CHECK(record.problem_name() == "recorded");
    CHECK(record.facts().values_size() > 0);
    CHECK(record.reference_facts().values_size() > 0);
  }
  CHECK(records->Finish().ok());
  CHECK(exported == settled);

  // From the end of the log on there is nothing; further on there is no number to begin at.
  const uint64_t next = cluster.Events() + 1;
  const auto exported_from = [&](const std::string& search_id, uint64_t sequence) {
    return cluster.Call([&](grpc::ClientContext* c) {
      v1::ExportRequest request;
      request.set_search_id(search_id);
      request.set_from_sequence(sequence);
      auto reader = cluster.stub->Export(c, request);
      while (reader->Read(&record)) CHECK(record.sequence() >= sequence);
      return reader->Finish();
    });
  };
  const auto watched_from = [&](uint64_t sequence) {
    return cluster.Call([&](grpc::ClientContext* c) {
      v1::WatchSearchRequest request;
      request.set_search_id("s1");
      request.set_from_sequence(sequence);
      auto reader = cluster.stub->WatchSearch(c, request);
      while (reader->Read(&event)) CHECK(event.sequence() >= sequence);
      return reader->Finish();
    });
  };
  for (const char* search_id : {"", "s1"}) {
    CHECK(exported_from(search_id, next).ok());
  }
  CHECK(watched_from(next).ok());
  // The last two are -5 and INT64_MIN for those whose integers are signed.
  for (const uint64_t beyond :
       {next + 1000, uint64_t{1} << 62, static_cast<uint64_t>(-5), uint64_t{1} << 63}) {
    const std::string message =
        "from_sequence: " + std::to_string(beyond) + " is beyond the end of the log; from 0 to ";
    for (const grpc::Status& status :
         {exported_from("", beyond), exported_from("s1", beyond), watched_from(beyond)}) {
      CHECK(status.error_code() == grpc::StatusCode::OUT_OF_RANGE);
      // The forecaster may still observe labels, which are events too.
      CHECK_THAT(status.error_message(), Catch::StartsWith(message));
    }
  }
}

CONTRACT_TEST("A stream answers every request once, good or bad, and ends when half-closed") {
  SKIP_IF_MISSING();
  Cluster cluster(TestType::kSetUp);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  auto stream = testing::OneByOne(cluster.stub->EvaluateStream(&context));
  constexpr int kRequests = 150;
  for (int i = 0; i < kRequests; ++i) {
    v1::EvaluateRequest request = cluster.Request("r" + std::to_string(i), static_cast<size_t>(i));
    if (i % 10 == 3) {
      request.mutable_candidate()->set_problem_id("p_unknown");
      request.mutable_candidate()->clear_candidate_id();
    }
    if (i % 10 == 7) request.mutable_candidate()->set_source("\xff\xfe not text");
    REQUIRE(stream->Write(request));
  }
  stream->WritesDone();
  std::map<std::string, int> answers;
  int measured = 0, not_found = 0, invalid = 0;
  v1::EvaluateReply reply;
  while (stream->Read(&reply)) {
    ++answers[reply.request_id()];
    if (reply.evaluation().has_measured()) ++measured;
    if (reply.error().code() == grpc::StatusCode::NOT_FOUND) ++not_found;
    if (reply.error().code() == grpc::StatusCode::INVALID_ARGUMENT) ++invalid;
  }
  CHECK(stream->Finish().ok());
  CHECK(answers.size() == kRequests);
  for (const auto& [id, count] : answers) CHECK(count == 1);
  CHECK(measured == kRequests * 8 / 10);
  CHECK(not_found == kRequests / 10);
  CHECK(invalid == kRequests / 10);
}

CONTRACT_TEST("Messages with many requests are answered once each, good or bad") {
  SKIP_IF_MISSING();
  Cluster cluster(TestType::kSetUp);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  auto stream = cluster.stub->EvaluateStream(&context);
  constexpr int kMessages = 5;
  constexpr int kEach = 30;
  REQUIRE(stream->Write(v1::EvaluateStreamRequest()));  // an empty message
  for (int sent = 0; sent < kMessages; ++sent) {
    v1::EvaluateStreamRequest message;
    for (int i = 0; i < kEach; ++i) {
      const int number = sent * kEach + i;
      v1::EvaluateRequest& request = *message.add_requests();
      request = cluster.Request("b" + std::to_string(number), static_cast<size_t>(number));
      if (i % 10 == 3) {
        request.mutable_candidate()->set_problem_id("p_unknown");
        request.mutable_candidate()->clear_candidate_id();
      }
      if (i % 10 == 7) request.mutable_candidate()->set_source("\xff\xfe not text");
    }
    REQUIRE(stream->Write(message));
  }
  stream->WritesDone();
  std::map<std::string, int> answers;
  int measured = 0, not_found = 0, invalid = 0;
  v1::EvaluateStreamReply message;
  while (stream->Read(&message)) {
    CHECK(message.replies_size() > 0);
    for (const v1::EvaluateReply& reply : message.replies()) {
      ++answers[reply.request_id()];
      if (reply.evaluation().has_measured()) ++measured;
      if (reply.error().code() == grpc::StatusCode::NOT_FOUND) ++not_found;
      if (reply.error().code() == grpc::StatusCode::INVALID_ARGUMENT) ++invalid;
    }
  }
  CHECK(stream->Finish().ok());
  constexpr int kRequests = kMessages * kEach;
  CHECK(answers.size() == kRequests);
  for (const auto& [id, count] : answers) CHECK(count == 1);
  CHECK(measured == kRequests * 8 / 10);
  CHECK(not_found == kRequests / 10);
  CHECK(invalid == kRequests / 10);
}

CONTRACT_TEST("A retry gets the result and measures nothing again") {
  SKIP_IF_MISSING();
  Cluster cluster(TestType::kSetUp);
  v1::EvaluateReply first, again;
  REQUIRE(cluster.Evaluate(cluster.Request("r", 3), &first).ok());
  REQUIRE(first.evaluation().has_measured());
  const auto settled = [&] {
    grpc::ClientContext context;
    auto reader = cluster.stub->Export(&context, {});
    v1::ExportRecord record;
    int records = 0;
    while (reader->Read(&record)) ++records;
    CHECK(reader->Finish().ok());
    return records;
  };
  CHECK(settled() == 1);
  REQUIRE(cluster.Evaluate(cluster.Request("r", 3), &again).ok());
  CHECK(again.SerializeAsString() == first.SerializeAsString());
  v1::EvaluateReply other;
  CHECK(cluster.Evaluate(cluster.Request("r", 4), &other).error_code() ==
        grpc::StatusCode::ALREADY_EXISTS);
  // A retry may want the compile facts, which come with their names.
  CHECK_FALSE(again.evaluation().has_facts());
  v1::EvaluateRequest with_facts = cluster.Request("r", 3);
  with_facts.set_include_facts(true);
  REQUIRE(cluster.Evaluate(with_facts, &again).ok());
  const v1::Evaluation& evaluation = again.evaluation();
  REQUIRE(evaluation.fact_schemas_size() == 1);
  CHECK(evaluation.fact_schemas(0).schema() == evaluation.facts().schema());
  CHECK(evaluation.fact_schemas(0).names_size() == evaluation.facts().values_size());
  CHECK(evaluation.fact_schemas(0).meanings_size() == evaluation.facts().values_size());
  CHECK(settled() == 1);
}

CONTRACT_TEST("An evaluation is cancelled with its call where the caller wants it") {
  SKIP_IF_MISSING();
  Cluster cluster(TestType::kSetUp);
  // It waits for a worker that does not come.
  v1::EvaluateRequest request = cluster.Request("r1", 0);
  request.add_device_models("absent");
  request.set_cancel_with_call(true);
  const uint64_t events = cluster.Events();
  grpc::ClientContext context;
  v1::EvaluateReply unanswered;
  auto call = std::async(std::launch::async, [&] {
    return cluster.stub->Evaluate(&context, request, &unanswered).error_code();
  });
  REQUIRE(testing::Eventually([&] { return cluster.Events() > events; }));
  context.TryCancel();
  CHECK(call.get() == grpc::StatusCode::CANCELLED);
  request.set_cancel_with_call(false);
  v1::EvaluateReply reply;
  REQUIRE(cluster.Evaluate(request, &reply).ok());
  CHECK(reply.evaluation().rejected().has_cancelled());
  CHECK(reply.evaluation().decision().reason() == v1::DECISION_REASON_CANCELLED);

  // A stream has many evaluations, and a caller that cancels it may want the others.
  request.set_request_id("r2");
  request.set_cancel_with_call(true);
  grpc::ClientContext stream_context;
  const auto stream = cluster.stub->EvaluateStream(&stream_context);
  v1::EvaluateStreamRequest message;
  *message.add_requests() = request;
  REQUIRE(stream->Write(message));
  v1::EvaluateStreamReply replies;
  REQUIRE(stream->Read(&replies));
  CHECK(replies.replies(0).error().code() == grpc::StatusCode::INVALID_ARGUMENT);
  stream_context.TryCancel();
}

CONTRACT_TEST("A search without an id gets one") {
  SKIP_IF_MISSING();
  Cluster cluster(TestType::kSetUp);
  v1::StartSearchReply started;
  REQUIRE(cluster
              .Call([&](auto* context) {
                return cluster.stub->StartSearch(context, cluster.Search("", 3), &started);
              })
              .ok());
  REQUIRE(started.searches_size() == 1);
  v1::GetSearchRequest request;
  request.set_search_id(started.searches(0).search_id());
  v1::GetSearchReply found;
  REQUIRE(cluster.Call([&](auto* c) { return cluster.stub->GetSearch(c, request, &found); }).ok());
  CHECK(found.searches(0).search_id() == request.search_id());
  v1::ListSearchesReply list;
  REQUIRE(cluster.Call([&](auto* c) { return cluster.stub->ListSearches(c, {}, &list); }).ok());
  REQUIRE(list.searches_size() == 1);
  CHECK(list.searches(0).search_id() == request.search_id());
  request.set_search_id("nobody");
  CHECK(cluster.Call([&](auto* c) { return cluster.stub->GetSearch(c, request, &found); })
            .error_code() == grpc::StatusCode::NOT_FOUND);
}

CONTRACT_TEST("Bad input gets the right code and names the field") {
  SKIP_IF_MISSING();
  Cluster cluster(TestType::kSetUp);
  auto status_of = [&](const v1::EvaluateRequest& request) {
    v1::EvaluateReply reply;
    return cluster.Evaluate(request, &reply);
  };
  v1::EvaluateRequest request = cluster.Request("", 0);
  CHECK(status_of(request).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(status_of(request).error_message(), Catch::Contains("request_id"));

  request = cluster.Request("r", 0);
  request.mutable_candidate()->set_source(std::string((1 << 20) + 1, ' '));
  CHECK(status_of(request).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(status_of(request).error_message(), Catch::Contains("source"));

  request = cluster.Request("r", 0);
  request.mutable_candidate()->set_source("int x = 1; // \xc3\x28");
  CHECK(status_of(request).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(status_of(request).error_message(), Catch::Contains("UTF-8"));

  request = cluster.Request("r", 0);
  request.mutable_candidate()->set_candidate_id("k_0123");
  CHECK(status_of(request).error_code() == grpc::StatusCode::INVALID_ARGUMENT);

  request = cluster.Request("r", 0);
  request.clear_candidate();
  CHECK(status_of(request).error_code() == grpc::StatusCode::INVALID_ARGUMENT);

  request = cluster.Request("r", 0);
  request.mutable_candidate()->set_problem_id("p_unknown");
  request.mutable_candidate()->clear_candidate_id();
  CHECK(status_of(request).error_code() == grpc::StatusCode::NOT_FOUND);

  request = cluster.Request("r", 0);
  request.set_search_id("nobody");
  CHECK(status_of(request).error_code() == grpc::StatusCode::NOT_FOUND);

  request = cluster.Request("r", 0);
  request.set_mode(static_cast<v1::EvaluateMode>(77));
  CHECK(status_of(request).error_code() == grpc::StatusCode::INVALID_ARGUMENT);

  auto search_status = [&](const v1::StartSearchRequest& bad) {
    v1::StartSearchReply reply;
    return cluster.Call(
        [&](auto* context) { return cluster.stub->StartSearch(context, bad, &reply); });
  };
  v1::StartSearchRequest negative = cluster.Search("s", 5);
  negative.mutable_spec()->mutable_budget()->mutable_max_wall_time()->set_seconds(-1);
  CHECK(search_status(negative).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(search_status(negative).error_message(), Catch::Contains("max_wall_time"));
  v1::StartSearchRequest wrapped = cluster.Search("s", static_cast<uint64_t>(-5));
  CHECK(search_status(wrapped).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(search_status(wrapped).error_message(), Catch::Contains("max_measurements"));

  v1::PutProblemRequest put;
  *put.mutable_problem() = ProblemFilesToProto(cluster.recorded.problem);
  put.mutable_problem()->clear_problem_id();
  for (auto& file : *put.mutable_problem()->mutable_files()) {
    if (file.path() != "problem.yaml") continue;
    std::string text = file.content();
    text.replace(text.find("float32"), 7, "float31");
    file.set_content(text);
  }
  v1::PutProblemReply put_reply;
  const grpc::Status malformed = cluster.Call(
      [&](auto* context) { return cluster.stub->PutProblem(context, put, &put_reply); });
  CHECK(malformed.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(malformed.error_message(),
             Catch::Contains("problem.yaml:9: inputs[0].dtype") && Catch::Contains("float31"));

  grpc::ClientContext late;
  late.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
  v1::EvaluateReply reply;
  CHECK(cluster.stub->Evaluate(&late, cluster.Request("late", 0), &reply).error_code() ==
        grpc::StatusCode::DEADLINE_EXCEEDED);

  grpc::ClientContext watch_context;
  v1::WatchSearchRequest watch;
  watch.set_search_id("nobody");
  v1::SearchEvent event;
  auto stream = cluster.stub->WatchSearch(&watch_context, watch);
  CHECK_FALSE(stream->Read(&event));
  CHECK(stream->Finish().error_code() == grpc::StatusCode::NOT_FOUND);

  // Nothing of it was recorded.
  CHECK(cluster.Events() == 1);
}

SLOW_CONTRACT_TEST("A stopped search is confirmed and its end is remembered") {
  SKIP_IF_MISSING();
  Cluster cluster(TestType::kSetUp);
  v1::StartSearchRequest request = cluster.Search("s1", 10'000);
  request.mutable_spec()->set_measure_everything(true);
  v1::StartSearchReply started;
  REQUIRE(cluster
              .Call([&](auto* context) {
                return cluster.stub->StartSearch(context, request, &started);
              })
              .ok());
  v1::StopSearchRequest stop;
  stop.set_search_id("s1");
  v1::StopSearchReply stopped;
  REQUIRE(
      cluster.Call([&](auto* context) { return cluster.stub->StopSearch(context, stop, &stopped); })
          .ok());
  // Watching until the stream ends waits for the search to end.
  grpc::ClientContext context;
  v1::WatchSearchRequest watch;
  watch.set_search_id("s1");
  auto stream = cluster.stub->WatchSearch(&context, watch);
  v1::SearchEvent event;
  while (stream->Read(&event)) {
  }
  CHECK(stream->Finish().ok());
  REQUIRE(cluster.orchestrator->Terminate() == 0);
  Cluster::Require(cluster.orchestrator->Start());
  v1::ListSearchesReply list;
  REQUIRE(cluster
              .Call([&](auto* c) {
                c->set_wait_for_ready(true);
                return cluster.stub->ListSearches(c, {}, &list);
              })
              .ok());
  REQUIRE(list.searches_size() == 1);
  CHECK(list.searches(0).status() == v1::SEARCH_STATUS_DONE);
  CHECK(list.searches(0).end_reason() == "stopped");
}

// The spans of a trace, each as "PARENT > SPAN". An orchestrator that forwards a call makes two
// spans more, for the call that it makes and for the one that is served; they count as the first
// one.
std::set<std::string> LinksOf(const std::vector<testing::CollectedSpan>& spans,
                              const std::string& trace_id) {
  using Span = testing::CollectedSpan;
  std::map<std::string, const Span*> by_id;
  for (const Span& span : spans) by_id[span.span_id] = &span;
  const auto parent_of = [&](const Span& span) -> const Span* {
    const auto found = by_id.find(span.parent_span_id);
    return found != by_id.end() ? found->second : nullptr;
  };
  const auto is_call = [](const Span* span) {
    return span != nullptr && span->name.find("v1.Orchestrator/") != std::string::npos;
  };
  const auto is_forwarded = [&](const Span* span) {
    return is_call(span) && is_call(parent_of(*span));
  };
  const auto text_of = [](const Span& span) {
    return span.service.substr(span.service.find('-') + 1) + " " +
           span.name.substr(span.name.find('.') + 1);
  };
  std::set<std::string> links;
  for (const Span& span : spans) {
    if (span.trace_id != trace_id || is_forwarded(&span)) continue;
    const Span* parent = parent_of(span);
    while (is_forwarded(parent)) parent = parent_of(*parent);
    links.insert((parent != nullptr ? text_of(*parent) : span.parent_span_id) + " > " +
                 text_of(span));
  }
  return links;
}

SLOW_CONTRACT_TEST("A call makes the same spans wherever the log is") {
  SKIP_IF_MISSING();
  const testing::SpanCollector collector;
  Cluster cluster(TestType::kSetUp, {"--otlp-endpoint", collector.url(), "--trace-ratio", "0"});
  const std::string caller = "00f067aa0ba902b7";
  const auto trace = [](int call) { return std::string(31, 'a') + std::to_string(call); };
  const auto begin_trace = [&](grpc::ClientContext* context, int call) {
    context->AddMetadata("traceparent", "00-" + trace(call) + "-" + caller + "-01");
  };
  v1::EvaluateReply reply;
  REQUIRE(cluster
              .Call([&](auto* context) {
                begin_trace(context, 0);
                return cluster.stub->Evaluate(context, cluster.Request("unary", 0), &reply);
              })
              .ok());
  CHECK(reply.evaluation().has_measured());
  REQUIRE(cluster
              .Call([&](auto* context) {
                begin_trace(context, 1);
                auto stream = testing::OneByOne(cluster.stub->EvaluateStream(context));
                stream->Write(cluster.Request("streamed", 1));
                stream->WritesDone();
                while (stream->Read(&reply)) CHECK(reply.evaluation().has_measured());
                return stream->Finish();
              })
              .ok());
  v1::StartSearchReply started;
  REQUIRE(cluster
              .Call([&](auto* context) {
                begin_trace(context, 2);
                return cluster.stub->StartSearch(context, cluster.Search("s1", 4), &started);
              })
              .ok());
  REQUIRE(cluster
              .Call([&](auto* context) {
                v1::WatchSearchRequest watch;
                watch.set_search_id("s1");
                auto events = cluster.stub->WatchSearch(context, watch);
                v1::SearchEvent event;
                while (events->Read(&event)) {
                }
                return events->Finish();
              })
              .ok());
  for (const auto& orchestrator : cluster.orchestrators) CHECK(orchestrator->Terminate() == 0);
  CHECK(cluster.worker.Terminate() == 0);
  CHECK(cluster.forecaster.Terminate() == 0);

  const std::set<std::string> of_evaluation = {
      "orchestrator evaluate > orchestrator accept",
      "orchestrator evaluate > orchestrator compile",
      "orchestrator compile > orchestrator queue",
      "orchestrator compile > orchestrator v1.Worker/Compile",
      "orchestrator v1.Worker/Compile > worker v1.Worker/Compile",
      "worker v1.Worker/Compile > worker queue",
      "worker v1.Worker/Compile > worker compile",
      "orchestrator evaluate > orchestrator forecast",
      "orchestrator forecast > orchestrator v1.Forecaster/Forecast",
      "orchestrator v1.Forecaster/Forecast > forecaster v1.Forecaster/Forecast",
      "orchestrator evaluate > orchestrator decide",
      "orchestrator evaluate > orchestrator measure",
      "orchestrator measure > orchestrator queue",
      "orchestrator measure > orchestrator v1.Worker/Measure",
      "orchestrator v1.Worker/Measure > worker v1.Worker/Measure",
      "worker v1.Worker/Measure > worker queue",
      "worker v1.Worker/Measure > worker compile",
      "worker v1.Worker/Measure > worker measure",
      "orchestrator evaluate > orchestrator commit",
  };
  const std::vector<testing::CollectedSpan> spans = collector.spans();
  const auto check = [&](int call, const std::vector<std::string>& path) {
    std::set<std::string> expected = of_evaluation;
    for (size_t i = 1; i < path.size(); ++i) expected.insert(path[i - 1] + " > " + path[i]);
    std::set<std::string> links = LinksOf(spans, trace(call));
    // Whether a search ranks what it pruned depends on the order of events.
    links.erase("orchestrator search > orchestrator v1.Forecaster/Forecast");
    CHECK(links == expected);
  };
  check(0, {caller, "orchestrator v1.Orchestrator/Evaluate", "orchestrator evaluate"});
  check(1, {caller, "orchestrator v1.Orchestrator/EvaluateStream", "orchestrator evaluate"});
  check(2, {caller, "orchestrator v1.Orchestrator/StartSearch", "orchestrator search",
            "orchestrator evaluate"});
}

}  // namespace
}  // namespace kernelcast::contract_test
