#include "tests/fakes/fake_orchestrator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/convert/convert.h"
#include "common/convert/default_target.h"
#include "common/domain/bins.h"
#include "common/domain/forecast.h"

namespace kernelcast::testing {
namespace {

constexpr int64_t kStartSeconds = 1'800'000'000;

std::string Id(const char* prefix, int number) {
  char text[40];
  std::snprintf(text, sizeof text, "%s%032x", prefix, number);
  return text;
}

v1::Forecast MakeForecast(const std::string& candidate_id, double speedup) {
  kernelcast::Forecast forecast;
  forecast.candidate_id = candidate_id;
  forecast.expected_log2_speedup = std::log2(speedup);
  forecast.stddev_log2_speedup = 0.4;
  forecast.bin_probabilities =
      BinsFromStudentT(BinScheme::Default(), forecast.expected_log2_speedup, 0.4, 5);
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.failure_probability = 0.05;
  forecast.backend = "embedded";
  forecast.backend_version = "fake/1";
  return ToProto(forecast);
}

v1::Measurement MakeMeasurement(const std::string& candidate_id, double speedup,
                                v1::MeasureLevel level) {
  v1::Measurement measurement;
  measurement.set_candidate_id(candidate_id);
  measurement.set_target("cpu");
  measurement.set_level(level);
  measurement.set_worker_id("worker-fake");
  measurement.mutable_device()->set_model("Fake CPU 3000");
  measurement.mutable_device_time()->set_seconds(2);
  v1::Ratio ratio;
  ratio.set_value(speedup);
  ratio.set_low(speedup * 0.99);
  ratio.set_high(speedup * 1.01);
  ratio.set_confidence(0.95);
  v1::MeasuredOk* ok = measurement.mutable_ok();
  *ok->mutable_speedup() = ratio;
  ok->set_comparison(speedup > 1 ? v1::COMPARISON_FASTER : v1::COMPARISON_SLOWER);
  ok->set_runners(1);
  v1::ShapeTiming* shape = ok->add_shapes();
  (*shape->mutable_shape()->mutable_values())["n"] = 1024;
  shape->mutable_candidate()->set_median_ns(1e5 / speedup);
  shape->mutable_reference()->set_median_ns(1e5);
  *shape->mutable_speedup() = ratio;
  return measurement;
}

// Adds events and records in the orchestrator's log order.
class Writer {
 public:
  explicit Writer(SearchScript& script) : script_(script) {}

  v1::SearchEvent* AddEvent() {
    v1::SearchEvent* event = &script_.events.emplace_back();
    event->set_sequence(++sequence_);
    event->mutable_time()->set_seconds(kStartSeconds + static_cast<int64_t>(sequence_));
    event->set_status(v1::SEARCH_STATUS_RUNNING);
    *event->mutable_counts() = counts_;
    return event;
  }

  v1::Evaluation Propose(v1::DecisionKind kind, v1::DecisionReason reason, double forecast) {
    const int number = static_cast<int>(counts_.proposed()) + 1;
    counts_.set_proposed(counts_.proposed() + 1);
    counts_.set_decided(counts_.decided() + 1);
    counts_.set_considered(counts_.considered() + 1);
    v1::SearchEvent* event = AddEvent();
    event->mutable_proposed()->set_request_id(absl::StrCat("s/", number));
    event->mutable_proposed()->set_candidate_id(Id("k_", number));
    event->mutable_proposed()->set_origin("template:fake");
    v1::Evaluation evaluation;
    evaluation.set_request_id(absl::StrCat("s/", number));
    evaluation.set_candidate_id(Id("k_", number));
    evaluation.mutable_decision()->set_kind(kind);
    evaluation.mutable_decision()->set_reason(reason);
    evaluation.mutable_decision()->set_policy("threshold");
    evaluation.mutable_decision()->set_policy_version("threshold/1");
    evaluation.mutable_decision()->set_audit_propensity(1);
    if (forecast > 0)
      *evaluation.mutable_decided_on() = MakeForecast(evaluation.candidate_id(), forecast);
    return evaluation;
  }

  void Settle(v1::Evaluation evaluation) {
    if (evaluation.has_measured()) {
      if (evaluation.measured().level() != v1::MEASURE_LEVEL_FINAL) {
        counts_.set_measured(counts_.measured() + 1);
        counts_.mutable_device_time_spent()->set_seconds(2 *
                                                         static_cast<int64_t>(counts_.measured()));
      }
      if (!evaluation.measured().has_ok()) counts_.set_failures(counts_.failures() + 1);
    } else if (evaluation.has_forecast()) {
      counts_.set_pruned(counts_.pruned() + 1);
    } else {
      counts_.set_rejected(counts_.rejected() + 1);
    }
    evaluation.mutable_accepted_at()->set_seconds(kStartSeconds + static_cast<int64_t>(sequence_));
    evaluation.mutable_settled_at()->set_seconds(kStartSeconds + static_cast<int64_t>(sequence_) +
                                                 1);
    v1::SearchEvent* event = AddEvent();
    *event->mutable_settled() = evaluation;
    v1::ExportRecord* record = &script_.records.emplace_back();
    record->set_sequence(sequence_);
    record->set_problem_name("fake_problem");
    v1::Candidate* candidate = record->mutable_candidate();
    candidate->set_candidate_id(evaluation.candidate_id());
    candidate->set_target("cpu");
    candidate->set_kind(v1::CANDIDATE_KIND_HOST_NATIVE);
    candidate->set_origin("template:fake");
    candidate->set_source(
        absl::StrCat("#define N 1\nint source_of_", evaluation.candidate_id(), ";\n"));
    *record->mutable_evaluation() = std::move(evaluation);
  }

  // Has the sequence number of the preceding settlement, like the orchestrator's.
  void Improve(const v1::Evaluation& evaluation) {
    v1::SearchEvent event = script_.events.back();
    event.mutable_improved()->set_candidate_id(evaluation.candidate_id());
    *event.mutable_improved()->mutable_speedup() = evaluation.measured().ok().speedup();
    script_.events.push_back(std::move(event));
  }

  const v1::SearchCounts& counts() const { return counts_; }

 private:
  SearchScript& script_;
  v1::SearchCounts counts_;
  uint64_t sequence_ = 0;
};

}  // namespace

SearchScript MakeSearchScript(int measured, double first, double step) {
  SearchScript script;
  Writer writer(script);
  writer.AddEvent()->mutable_started();
  v1::Evaluation best;
  for (int i = 0; i < measured; ++i) {
    const double speedup = first + i * step;
    v1::Evaluation evaluation = writer.Propose(
        v1::DECISION_KIND_MEASURE,
        i % 2 == 0 ? v1::DECISION_REASON_LOW_CONFIDENCE : v1::DECISION_REASON_PROMISING,
        speedup * 1.1);
    *evaluation.mutable_measured() =
        MakeMeasurement(evaluation.candidate_id(), speedup, v1::MEASURE_LEVEL_SCREEN);
    writer.Settle(evaluation);
    if (!best.has_measured() || speedup > best.measured().ok().speedup().value()) {
      best = evaluation;
      writer.Improve(evaluation);
    }
    v1::Evaluation pruned =
        writer.Propose(v1::DECISION_KIND_PRUNE, v1::DECISION_REASON_UNPROMISING, 0.4);
    *pruned.mutable_forecast() = pruned.decided_on();
    writer.Settle(pruned);
  }
  v1::Evaluation rejected =
      writer.Propose(v1::DECISION_KIND_REJECT, v1::DECISION_REASON_COMPILE_ERROR, 0);
  rejected.mutable_rejected()->mutable_compile_error()->set_stage(v1::CompileError::STAGE_COMPILER);
  rejected.mutable_rejected()->mutable_compile_error()->set_log("no such thing");
  writer.Settle(rejected);
  v1::Evaluation crashed =
      writer.Propose(v1::DECISION_KIND_MEASURE, v1::DECISION_REASON_AUDIT, 0.5);
  *crashed.mutable_measured() =
      MakeMeasurement(crashed.candidate_id(), 1, v1::MEASURE_LEVEL_SCREEN);
  crashed.mutable_measured()->mutable_crash()->set_cause(v1::Crash::CAUSE_SIGNAL);
  crashed.mutable_measured()->mutable_crash()->set_signal(11);
  crashed.mutable_decision()->set_audit_propensity(0.1);
  writer.Settle(crashed);

  v1::SearchEvent* finishing = writer.AddEvent();
  finishing->set_status(v1::SEARCH_STATUS_FINISHING);
  finishing->mutable_ended()->set_reason("budget: max_measurements");
  v1::Search& search = script.finished;
  v1::SelectiveRisk& risk = *search.mutable_selective_risk();
  risk.set_estimate(0.02);
  risk.set_high(0.11);
  risk.set_candidates(static_cast<uint64_t>(measured));
  risk.set_measured(1);
  risk.set_alpha(0.05);
  risk.set_delta(0.05);
  search.set_status(v1::SEARCH_STATUS_DONE);
  search.set_end_reason("budget: max_measurements");
  *search.mutable_counts() = writer.counts();
  search.mutable_started_at()->set_seconds(kStartSeconds);
  search.mutable_ended_at()->set_seconds(kStartSeconds + 60);
  search.set_problem_name("fake_problem");
  search.mutable_spec()->set_target("cpu");
  if (best.has_measured()) {
    const double speedup = best.measured().ok().speedup().value();
    v1::Incumbent* confirmed = search.mutable_confirmed_best();
    for (const v1::ExportRecord& record : script.records) {
      if (record.evaluation().candidate_id() == best.candidate_id()) {
        *confirmed->mutable_candidate() = record.candidate();
      }
    }
    *confirmed->mutable_measurement() =
        MakeMeasurement(best.candidate_id(), speedup, v1::MEASURE_LEVEL_FINAL);
    *search.mutable_incumbent() = *confirmed;
  }
  v1::SearchEvent* closed = writer.AddEvent();
  closed->set_status(v1::SEARCH_STATUS_DONE);
  closed->mutable_ended()->set_reason("budget: max_measurements");
  return script;
}

FakeOrchestrator::FakeOrchestrator() {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) throw std::runtime_error("the fake orchestrator cannot listen");
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeOrchestrator::~FakeOrchestrator() { server_->Shutdown(std::chrono::system_clock::now()); }

std::vector<v1::StartSearchRequest> FakeOrchestrator::started() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return started_;
}
std::vector<v1::WatchSearchRequest> FakeOrchestrator::watched() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return watched_;
}
std::vector<v1::EvaluateRequest> FakeOrchestrator::evaluated() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return evaluated_;
}
std::vector<v1::ExportRequest> FakeOrchestrator::exported() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return exported_;
}
int FakeOrchestrator::stops() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stops_;
}
int FakeOrchestrator::problems_put() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return problems_put_;
}

std::vector<v1::Search> FakeOrchestrator::SearchesOf(const v1::Search& search) const {
  if (device_models.empty() || search.search_id().find('@') != std::string::npos) return {search};
  std::vector<v1::Search> all;
  for (const std::string& model : device_models) {
    v1::Search& one = all.emplace_back(search);
    one.set_search_id(absl::StrCat(
        search.search_id(), "@", absl::AsciiStrToLower(absl::StrReplaceAll(model, {{" ", "-"}}))));
    one.set_device_model(model);
  }
  return all;
}

grpc::Status FakeOrchestrator::ErrorOf(const std::string& method) const {
  const auto found = errors.find(method);
  if (found == errors.end()) return grpc::Status::OK;
  const auto left = error_counts.find(method);
  if (left != error_counts.end() && left->second.fetch_sub(1) <= 0) return grpc::Status::OK;
  return found->second;
}

std::string FakeOrchestrator::CurrentSearchId() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return started_.empty() ? script.finished.search_id() : started_.back().search_id();
}

grpc::Status FakeOrchestrator::Describe(grpc::ServerContext*,
                                        const v1::OrchestratorDescribeRequest*,
                                        v1::OrchestratorDescription* reply) {
  reply->set_version("0.0.0-fake");
  for (const v1::WorkerDescription& worker : workers) {
    *reply->add_workers()->mutable_description() = worker;
  }
  return ErrorOf("Describe");
}

grpc::Status FakeOrchestrator::PutProblem(grpc::ServerContext*,
                                          const v1::PutProblemRequest* request,
                                          v1::PutProblemReply* reply) {
  const auto problem = ProblemFromProto(request->problem());
  if (!problem.ok()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, std::string(problem.status().message())};
  }
  *reply->mutable_definition() = ToProto(*problem);
  SetDefaultTarget(*problem, workers, *reply);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++problems_put_;
  return ErrorOf("PutProblem");
}

grpc::Status FakeOrchestrator::StartSearch(grpc::ServerContext*,
                                           const v1::StartSearchRequest* request,
                                           v1::StartSearchReply* reply) {
  const std::lock_guard<std::mutex> lock(mutex_);
  started_.push_back(*request);
  v1::Search search;
  search.set_search_id(request->search_id());
  *search.mutable_spec() = request->spec();
  search.set_status(v1::SEARCH_STATUS_RUNNING);
  for (v1::Search& one : SearchesOf(search)) *reply->add_searches() = std::move(one);
  return ErrorOf("StartSearch");
}

grpc::Status FakeOrchestrator::WatchSearch(grpc::ServerContext* context,
                                           const v1::WatchSearchRequest* request,
                                           grpc::ServerWriter<v1::SearchEvent>* writer) {
  if (const grpc::Status error = ErrorOf("WatchSearch"); !error.ok()) return error;
  if (!device_models.empty() && request->search_id().find('@') == std::string::npos) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "search_id: watch one of them"};
  }
  size_t most = script.events.size() + 1;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (watched_.size() < watch_breaks.size()) most = watch_breaks[watched_.size()];
    watched_.push_back(*request);
  }
  size_t sent = 0;
  for (const v1::SearchEvent& event : script.events) {
    if (event.sequence() < request->from_sequence()) continue;
    if (sent == most) return {grpc::StatusCode::UNAVAILABLE, "the fake breaks off"};
    if (wait_for_stop && &event == &script.events.back()) {
      std::unique_lock<std::mutex> lock(mutex_);
      while (stops_ == 0 && !context->IsCancelled()) {
        changed_.wait_for(lock, std::chrono::milliseconds(20));
      }
    }
    v1::SearchEvent copy = event;
    copy.set_search_id(request->search_id());
    if (!writer->Write(copy)) return grpc::Status::CANCELLED;
    ++sent;
  }
  return grpc::Status::OK;
}

grpc::Status FakeOrchestrator::StopSearch(grpc::ServerContext*,
                                          const v1::StopSearchRequest* request,
                                          v1::StopSearchReply* reply) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++stops_;
  }
  changed_.notify_all();
  v1::Search search = script.finished;
  search.set_search_id(request->search_id());
  search.set_status(v1::SEARCH_STATUS_FINISHING);
  for (v1::Search& one : SearchesOf(search)) *reply->add_searches() = std::move(one);
  return ErrorOf("StopSearch");
}

grpc::Status FakeOrchestrator::GetSearch(grpc::ServerContext*, const v1::GetSearchRequest* request,
                                         v1::GetSearchReply* reply) {
  if (const grpc::Status error = ErrorOf("GetSearch"); !error.ok()) return error;
  // Searches on device models also have their own ids.
  if (request->search_id().substr(0, request->search_id().find('@')) != CurrentSearchId()) {
    return {grpc::StatusCode::NOT_FOUND,
            absl::StrCat("search_id: '", request->search_id(), "' is not known")};
  }
  v1::Search search = script.finished;
  search.set_search_id(request->search_id());
  for (v1::Search& one : SearchesOf(search)) *reply->add_searches() = std::move(one);
  return grpc::Status::OK;
}

grpc::Status FakeOrchestrator::ListSearches(grpc::ServerContext*,
                                            const v1::ListSearchesRequest* request,
                                            v1::ListSearchesReply* reply) {
  // Two per page, so that clients must page.
  size_t index = request->page_token().empty() ? 0 : std::stoul(request->page_token());
  for (int i = 0; i < 2 && index < searches.size(); ++i) *reply->add_searches() = searches[index++];
  if (index < searches.size()) reply->set_next_page_token(std::to_string(index));
  return ErrorOf("ListSearches");
}

grpc::Status FakeOrchestrator::Export(grpc::ServerContext*, const v1::ExportRequest* request,
                                      grpc::ServerWriter<v1::ExportRecord>* writer) {
  size_t left = SIZE_MAX;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    exported_.push_back(*request);
    if (exported_.size() <= export_breaks.size()) left = export_breaks[exported_.size() - 1];
  }
  for (v1::ExportRecord record : script.records) {
    if (record.sequence() < request->from_sequence()) continue;
    if (left-- == 0) return {grpc::StatusCode::UNAVAILABLE, "the orchestrator went away"};
    if (!request->include_sources()) record.mutable_candidate()->clear_source();
    v1::Evaluation& evaluation = *record.mutable_evaluation();
    if (!request->search_id().empty()) {
      evaluation.set_search_id(request->search_id());
    } else if (evaluation.search_id().empty()) {
      evaluation.set_search_id(CurrentSearchId());
    }
    writer->Write(record);
  }
  return ErrorOf("Export");
}

grpc::Status FakeOrchestrator::EvaluateStream(
    grpc::ServerContext*,
    grpc::ServerReaderWriter<v1::EvaluateStreamReply, v1::EvaluateStreamRequest>* stream) {
  size_t most = SIZE_MAX;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (evaluate_streams_ < evaluate_breaks.size()) most = evaluate_breaks[evaluate_streams_];
    ++evaluate_streams_;
  }
  v1::EvaluateStreamRequest message;
  size_t count = 0;
  while (stream->Read(&message)) {
    for (const v1::EvaluateRequest& request : message.requests()) {
      if (count++ == most) return {grpc::StatusCode::UNAVAILABLE, "the fake breaks off"};
      std::optional<v1::EvaluateReply> reply;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        evaluated_.push_back(request);
        if (on_evaluate) reply = on_evaluate(request);
      }
      if (!reply.has_value()) continue;
      v1::EvaluateStreamReply answer;
      *answer.add_replies() = *std::move(reply);
      stream->Write(answer);
    }
  }
  return grpc::Status::OK;
}

}  // namespace kernelcast::testing
