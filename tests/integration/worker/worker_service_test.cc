#include "services/worker/rpc/worker_service.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/convert/candidate_exchange.h"
#include "common/convert/convert.h"
#include "common/rpc/channel.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/integration/worker/cpu_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"

namespace kernelcast::testing::worker_service_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kCallLimit = seconds(60);
constexpr const char* kCandidates = "tests/candidates/iterated_map/candidates/";

// The worker as a separate process, with a stub.
class Worker {
 public:
  // `shell`: commands that precede the worker.
  explicit Worker(std::vector<std::string> arguments = {}, const std::string& shell = "")
      : folder_("worker"),
        service_("kernelcast-worker", WithCache(std::move(arguments)), folder_, After(shell)) {
    Start();
  }

  void Start() {
    const absl::Status started = service_.Start();
    INFO(started.ToString());
    REQUIRE(started.ok());
    auto channel = MakeChannel(service_.address());
    REQUIRE(channel.ok());
    stub_ = v1::Worker::NewStub(*channel);
  }

  v1::Worker::Stub& stub() { return *stub_; }
  Service& service() { return service_; }
  const TemporaryFolder& folder() const { return folder_; }

  void Put(const Problem& problem) {
    v1::PutProblemRequest request;
    *request.mutable_problem() = ProblemFilesToProto(problem);
    v1::PutProblemReply reply;
    grpc::ClientContext context;
    const grpc::Status status = stub_->PutProblem(&context, request, &reply);
    INFO(status.error_message());
    REQUIRE(status.ok());
    CHECK(reply.definition().problem_id() == problem.problem_id);
  }

  grpc::Status Compile(const v1::CompileRequest& request, v1::CompileReply* reply,
                       std::chrono::nanoseconds limit = kCallLimit) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<milliseconds>(limit));
    return stub_->Compile(&context, request, reply);
  }
  grpc::Status Measure(const v1::MeasureRequest& request, v1::MeasureReply* reply,
                       std::chrono::nanoseconds limit = kCallLimit) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<milliseconds>(limit));
    return stub_->Measure(&context, request, reply);
  }
  v1::WorkerDescription Describe() {
    v1::WorkerDescription description;
    grpc::ClientContext context;
    REQUIRE(stub_->Describe(&context, v1::WorkerDescribeRequest(), &description).ok());
    return description;
  }

 private:
  static ServiceSite After(const std::string& shell) {
    ServiceSite site;
    if (!shell.empty()) {
      site.launcher = {"/bin/sh", "-c", absl::StrCat(shell, "; exec \"$0\" \"$@\"")};
    }
    return site;
  }
  std::vector<std::string> WithCache(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--cache-dir", folder_.File("cache")});
    return arguments;
  }

  TemporaryFolder folder_;
  Service service_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

Candidate MakeCandidate(const Problem& problem, const std::string& source) {
  Candidate candidate;
  candidate.problem_id = problem.problem_id;
  candidate.target = "cpu";
  candidate.source = source;
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

std::string Good() { return SourceFile(absl::StrCat(kCandidates, "vectorised.cc")); }

std::string Hanging() {
  return absl::StrCat("#define HOW HANG\n#define AFTER 0\n",
                      SourceFile(absl::StrCat(kCandidates, "crash.cc")));
}

// Takes the compiler far longer than any deadline in this test.
std::string CompilesForEver() {
  return R"(#include <kernelcast/candidate.h>
template <int N, int M> struct Bomb {
  static constexpr long value = Bomb<N - 1, M>::value + Bomb<N - 1, M + (1 << N)>::value;
};
template <int M> struct Bomb<0, M> { static constexpr long value = M; };
extern "C" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, void*) {
  return Bomb<24, 0>::value > 0;
}
)";
}

v1::MeasureRequest MeasureOf(const Candidate& candidate, const std::string& request_id = "r") {
  v1::MeasureRequest request;
  request.set_request_id(request_id);
  *request.mutable_candidate() = ToProto(candidate);
  request.set_level(v1::MEASURE_LEVEL_SCREEN);
  return request;
}

v1::CompileRequest CompileOf(const Candidate& candidate) {
  v1::CompileRequest request;
  request.set_request_id("c");
  request.set_problem_id(candidate.problem_id);
  request.set_target(candidate.target);
  *request.mutable_candidate() = ToProto(candidate);
  return request;
}

// Child processes of `parent` with this name.
std::vector<pid_t> Children(pid_t parent, const std::string& name) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    if (!std::getline(file, stat)) {
      continue;
    }
    const size_t close = stat.rfind(')');
    const size_t open = stat.find('(');
    if (close == std::string::npos || stat.substr(open + 1, close - open - 1) != name) {
      continue;
    }
    // "pid (name) state parent"
    if (std::stoi(stat.substr(close + 4)) == parent && stat[close + 2] != 'Z') {
      found.push_back(std::stoi(stat));
    }
  }
  return found;
}

int64_t Ns(const google::protobuf::Duration& duration) {
  return duration.seconds() * 1'000'000'000 + duration.nanos();
}

TEST_CASE("A worker describes itself, takes a problem, compiles and measures") {
  Worker worker;
  const v1::WorkerDescription description = worker.Describe();
  const auto cpu = std::find_if(description.targets().begin(), description.targets().end(),
                                [](const auto& target) { return target.target() == "cpu"; });
  REQUIRE(cpu != description.targets().end());
  const v1::TargetDescription& target = *cpu;
  INFO(target.unavailable_reason());
  CHECK(target.can_compile());
  CHECK(target.can_measure());
  CHECK(target.allowed_flags_size() > 10);
  CHECK(target.architecture().find("x86-64/") == 0);
  CHECK_FALSE(target.toolchain().empty());
  CHECK_FALSE(target.device().model().empty());
  REQUIRE(target.peaks_size() == 5);
  for (const v1::DevicePeak& peak : target.peaks()) {
    INFO(peak.DebugString());
    CHECK_FALSE(peak.name().empty());
    CHECK(peak.per_second() > 0);
    CHECK(peak.source() == v1::DevicePeak::SOURCE_MEASURED);
    CHECK_FALSE(peak.detail().empty());
  }
  REQUIRE(target.devices_size() == 1);
  CHECK(target.devices(0).peaks_size() == target.peaks_size());
  CHECK(description.measure_credits() > 0);
  CHECK_FALSE(description.draining());
  CHECK(description.protocol_version() == kProtocolVersion);

  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  const Candidate candidate = MakeCandidate(problem, Good());
  v1::CompileRequest compile = CompileOf(candidate);
  compile.set_want_artifact(true);
  v1::CompileReply compiled;
  REQUIRE(worker.Compile(compile, &compiled).ok());
  REQUIRE(compiled.has_success());
  CHECK(compiled.request_id() == "c");
  CHECK_FALSE(compiled.cached());
  CHECK(compiled.success().facts().schema() == "cpu-asm/1");
  CHECK(ValidateFacts(FromProto(compiled.success().facts())).ok());
  CHECK(compiled.success().artifact().content().size() > 1000);

  v1::CompileReply again;
  compile.set_want_artifact(false);
  REQUIRE(worker.Compile(compile, &again).ok());
  CHECK(again.cached());
  CHECK(again.success().artifact().content().empty());
  CHECK(again.success().facts().SerializeAsString() ==
        compiled.success().facts().SerializeAsString());

  v1::CompileRequest reference;
  reference.set_problem_id(problem.problem_id);
  reference.set_target("cpu");
  reference.set_reference(true);
  v1::CompileReply reference_reply;
  REQUIRE(worker.Compile(reference, &reference_reply).ok());
  CHECK(reference_reply.has_success());

  // With the artefact as sent, by name only, and without it.
  for (int way = 0; way < 3; ++way) {
    INFO("way " << way);
    v1::MeasureRequest request = MeasureOf(candidate, absl::StrCat("m", way));
    if (way < 2) {
      *request.mutable_artifact() =
          way == 0 ? compiled.success().artifact() : again.success().artifact();
    }
    request.set_want_hardware_counters(way == 0);
    v1::MeasureReply reply;
    const grpc::Status status = worker.Measure(request, &reply);
    INFO(status.error_message());
    REQUIRE(status.ok());
    if (reply.measurement().has_ok()) {
      CHECK(reply.measurement().ok().environment().counters_unavailable_reason() ==
            (way == 0 ? "the cpu target has no profiler" : ""));
    }
    CHECK(reply.request_id() == absl::StrCat("m", way));
    CHECK(reply.measurement().candidate_id() == candidate.candidate_id);
    CHECK(reply.measurement().protocol_version() == "cpu/7");
    // The first candidate of a problem pays for its preparation.
    const int64_t preparing_ns = Ns(reply.measurement().preparation_time());
    CHECK((preparing_ns > 1'000'000) == (way == 0));
    CHECK(preparing_ns < Ns(reply.measurement().device_time()));
    CHECK((reply.measurement().has_ok() || reply.measurement().has_environment_unstable()));
  }
}

TEST_CASE("A worker judges with any mask of file modes and few descriptors", "[slow]") {
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  for (const char* shell : {"umask 077", "umask 027", "umask 007", "ulimit -n 256"}) {
    INFO(shell);
    Worker worker({}, shell);
    worker.Put(problem);
    v1::MeasureReply reply;
    const grpc::Status status = worker.Measure(MeasureOf(MakeCandidate(problem, Good())), &reply);
    INFO(status.error_message());
    REQUIRE(status.ok());
    INFO(reply.DebugString());
    CHECK((reply.measurement().has_ok() || reply.measurement().has_environment_unstable()));
  }
}

TEST_CASE("A service that may not open enough files names the limit") {
  const TemporaryFolder folder("limit");
  ServiceSite site;
  site.launcher = {"/bin/sh", "-c", "ulimit -n 100; exec \"$0\" \"$@\""};
  Service service("kernelcast-worker", {"--cache-dir", folder.File("cache")}, folder, site);
  const absl::Status started = service.Start();
  CHECK_FALSE(started.ok());
  CHECK_THAT(std::string(started.message()),
             Catch::Contains("limit of open files") && Catch::Contains("ulimit -n"));
}

TEST_CASE("A screening ends early below the caller's bound, and a final measurement does not") {
  Worker worker;
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  const Candidate candidate = MakeCandidate(problem, Good());
  v1::CompileReply compiled;
  REQUIRE(worker.Compile(CompileOf(candidate), &compiled).ok());
  const auto shape_of = [&](v1::MeasureLevel level, double stop_below) {
    v1::MeasureRequest request = MeasureOf(candidate);
    request.set_level(level);
    request.set_stop_below(stop_below);
    const bool may_stop = stop_below > 0 && level == v1::MEASURE_LEVEL_SCREEN;
    constexpr int kAttempts = 24;
    for (int attempt = 1; attempt <= kAttempts; ++attempt) {
      v1::MeasureReply reply;
      const grpc::Status status = worker.Measure(request, &reply);
      INFO(status.error_message());
      REQUIRE(status.ok());
      // On a busy machine there is no figure, or one with too much noise to stop early.
      if (!reply.measurement().has_ok()) continue;
      const v1::MeasuredOk& ok = reply.measurement().ok();
      if (may_stop && ok.shapes(0).stop_reason() != kStoppedBehind && attempt < kAttempts) continue;
      CHECK(ok.speedup().value() > 1);
      CHECK(ok.speedup().low() < ok.speedup().value());
      CHECK(ok.speedup().value() < ok.speedup().high());
      CHECK(ok.shapes(0).weight() == 1);
      return ok.shapes(0);
    }
    FAIL("the environment stayed unstable");
    return v1::ShapeTiming();
  };
  const v1::ShapeTiming behind = shape_of(v1::MEASURE_LEVEL_SCREEN, 100);
  CHECK(behind.stop_reason() == kStoppedBehind);
  const v1::ShapeTiming full = shape_of(v1::MEASURE_LEVEL_SCREEN, 0);
  CHECK(full.stop_reason() != kStoppedBehind);
  CHECK(shape_of(v1::MEASURE_LEVEL_FINAL, 100).stop_reason() != kStoppedBehind);

  for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
    v1::MeasureRequest request = MeasureOf(candidate);
    request.set_stop_below(bad);
    v1::MeasureReply reply;
    CHECK(worker.Measure(request, &reply).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST_CASE("Requests that cannot be served get the right code") {
  Worker worker;
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  const Candidate candidate = MakeCandidate(problem, Good());
  v1::CompileReply compiled;
  v1::MeasureReply measured;
  CHECK(worker.Compile(CompileOf(candidate), &compiled).error_code() ==
        grpc::StatusCode::NOT_FOUND);
  CHECK(worker.Measure(MeasureOf(candidate), &measured).error_code() ==
        grpc::StatusCode::NOT_FOUND);
  worker.Put(problem);

  Candidate other = candidate;
  other.target = "h100";
  other.candidate_id = CandidateId(other);
  CHECK(worker.Measure(MeasureOf(other), &measured).error_code() ==
        grpc::StatusCode::UNIMPLEMENTED);
  CHECK(worker.Compile(CompileOf(other), &compiled).error_code() ==
        grpc::StatusCode::UNIMPLEMENTED);

  v1::CompileRequest no_subject = CompileOf(candidate);
  no_subject.clear_candidate();
  CHECK(worker.Compile(no_subject, &compiled).error_code() == grpc::StatusCode::INVALID_ARGUMENT);

  v1::MeasureRequest wrong_id = MeasureOf(candidate);
  wrong_id.mutable_candidate()->set_candidate_id("k_00000000000000000000000000000000");
  CHECK(worker.Measure(wrong_id, &measured).error_code() == grpc::StatusCode::INVALID_ARGUMENT);

  v1::MeasureRequest not_utf8 = MeasureOf(candidate);
  not_utf8.mutable_candidate()->set_candidate_id("");
  not_utf8.mutable_candidate()->set_source("// \xff\xfe\n");
  CHECK(worker.Measure(not_utf8, &measured).error_code() == grpc::StatusCode::INVALID_ARGUMENT);

  v1::MeasureRequest no_artifact = MeasureOf(candidate);
  no_artifact.mutable_artifact()->set_artifact_id("a_00000000000000000000000000000000");
  no_artifact.mutable_artifact()->set_format(v1::ARTIFACT_FORMAT_SHARED_OBJECT);
  CHECK(worker.Measure(no_artifact, &measured).error_code() ==
        grpc::StatusCode::FAILED_PRECONDITION);

  // A source that does not compile is a reply of both calls.
  const Candidate broken = MakeCandidate(problem, "int x = ;\n");
  REQUIRE(worker.Compile(CompileOf(broken), &compiled).ok());
  CHECK(compiled.compile_error().stage() == v1::CompileError::STAGE_COMPILER);
  CHECK(compiled.compile_error().log().find("kernel.cc:1:") != std::string::npos);
  REQUIRE(worker.Measure(MeasureOf(broken), &measured).ok());
  CHECK(measured.compile_error().stage() == v1::CompileError::STAGE_COMPILER);
}

TEST_CASE("A worker takes a candidate that it has by its id, and refuses an unknown id") {
  Worker worker;
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  const Candidate broken = MakeCandidate(problem, "int x = ;\n");
  v1::CompileRequest compile = CompileOf(broken);
  v1::MeasureRequest measure = MeasureOf(broken);
  SentCandidates sent;
  sent.Add(broken);
  *compile.mutable_candidate() = *measure.mutable_candidate() = sent.Write(broken);
  REQUIRE(measure.candidate().source().empty());
  v1::CompileReply compiled;
  v1::MeasureReply measured;
  CHECK(worker.Compile(compile, &compiled).error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(worker.Measure(measure, &measured).error_code() == grpc::StatusCode::NOT_FOUND);

  REQUIRE(worker.Compile(CompileOf(broken), &compiled).ok());
  REQUIRE(worker.Compile(compile, &compiled).ok());
  CHECK(compiled.compile_error().stage() == v1::CompileError::STAGE_COMPILER);
  REQUIRE(worker.Measure(measure, &measured).ok());
  CHECK(measured.compile_error().stage() == v1::CompileError::STAGE_COMPILER);
}

TEST_CASE("A deadline stops running work and the next request is served") {
  Worker worker;
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  v1::CompileReply compiled;
  CHECK(worker
            .Compile(CompileOf(MakeCandidate(problem, CompilesForEver())), &compiled,
                     milliseconds(300))
            .error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  CHECK(Eventually([&] { return worker.Describe().compiles_in_flight() == 0; }));
  CHECK(Children(worker.service().pid(), "g++").empty());

  v1::MeasureReply measured;
  REQUIRE(worker.Measure(MeasureOf(MakeCandidate(problem, Good())), &measured).ok());
  CHECK(worker.Measure(MeasureOf(MakeCandidate(problem, Hanging())), &measured, milliseconds(600))
            .error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  CHECK(Eventually([&] { return worker.Describe().measures_in_flight() == 0; }));
  REQUIRE(worker.Measure(MeasureOf(MakeCandidate(problem, Good())), &measured).ok());
}

TEST_CASE("A caller that leaves frees the worker for others") {
  Worker worker;
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  grpc::ClientContext context;
  v1::MeasureReply reply;
  grpc::Status status;
  std::thread caller([&] {
    status = worker.stub().Measure(&context, MeasureOf(MakeCandidate(problem, Hanging())), &reply);
  });
  CHECK(Eventually([&] { return !Children(worker.service().pid(), "kernelcast-runn").empty(); }));
  context.TryCancel();
  caller.join();
  CHECK(status.error_code() == grpc::StatusCode::CANCELLED);
  CHECK(Eventually([&] { return worker.Describe().measures_in_flight() == 0; }));
  v1::MeasureReply good;
  CHECK(worker.Measure(MeasureOf(MakeCandidate(problem, Good())), &good).ok());
}

TEST_CASE("A full worker gives a retry delay") {
  Worker worker({"--measure-credits", "1", "--compile-credits", "1"});
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  grpc::ClientContext first_context;
  v1::MeasureReply first_reply;
  std::thread first([&] {
    (void)worker.stub().Measure(&first_context, MeasureOf(MakeCandidate(problem, Hanging())),
                                &first_reply);
  });
  CHECK(Eventually([&] { return worker.Describe().measures_in_flight() == 1; }));
  grpc::ClientContext context;
  v1::MeasureReply reply;
  const grpc::Status status =
      worker.stub().Measure(&context, MeasureOf(MakeCandidate(problem, Good())), &reply);
  CHECK(status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto hint = trailers.find("retry-after-ms");
  REQUIRE(hint != trailers.end());
  CHECK(std::stoi(std::string(hint->second.data(), hint->second.size())) > 0);
  first_context.TryCancel();
  first.join();
}

TEST_CASE("Measurements in flight at once have their own outcomes") {
  Worker worker({"--measure-credits", "8"});
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  Candidate unknown_problem = MakeCandidate(problem, Good());
  unknown_problem.problem_id = "p_00000000000000000000000000000000";
  unknown_problem.candidate_id = CandidateId(unknown_problem);
  const std::string wrong =
      absl::StrCat("#define MISTAKE VALUE\n", SourceFile(absl::StrCat(kCandidates, "wrong.cc")));
  struct Answer {
    grpc::Status status;
    v1::MeasureReply reply;
  };
  const auto start = [&](const Candidate& candidate, const std::string& id) {
    return std::async(std::launch::async, [&worker, request = MeasureOf(candidate, id)] {
      Answer answer;
      answer.status = worker.Measure(request, &answer.reply);
      return answer;
    });
  };
  std::future<Answer> good = start(MakeCandidate(problem, Good()), "good");
  std::future<Answer> mistaken = start(MakeCandidate(problem, wrong), "wrong");
  std::future<Answer> broken = start(MakeCandidate(problem, "int x = ;"), "broken");
  std::future<Answer> unknown = start(unknown_problem, "unknown");
  const v1::MeasureReply good_reply = good.get().reply;
  CHECK(good_reply.request_id() == "good");
  CHECK(good_reply.measurement().has_ok());
  const v1::MeasureReply wrong_reply = mistaken.get().reply;
  CHECK(wrong_reply.request_id() == "wrong");
  CHECK(wrong_reply.measurement().has_wrong_result());
  const v1::MeasureReply broken_reply = broken.get().reply;
  CHECK(broken_reply.request_id() == "broken");
  CHECK(broken_reply.compile_error().stage() == v1::CompileError::STAGE_COMPILER);
  CHECK(unknown.get().status.error_code() == grpc::StatusCode::NOT_FOUND);
}

TEST_CASE("A compile stream answers every request by its id, whatever the outcome") {
  Worker worker({"--compile-credits", "8"});
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
  auto stream = worker.stub().CompileStream(&context);
  Candidate unknown_problem = MakeCandidate(problem, Good());
  unknown_problem.problem_id = "p_00000000000000000000000000000000";
  unknown_problem.candidate_id = CandidateId(unknown_problem);
  v1::CompileStreamRequest message;
  const auto add = [&](const Candidate& candidate, const std::string& id) {
    v1::CompileRequest* const request = message.add_requests();
    request->set_request_id(id);
    request->set_problem_id(candidate.problem_id);
    request->set_target(candidate.target);
    *request->mutable_candidate() = ToProto(candidate);
  };
  add(MakeCandidate(problem, Good()), "good");
  add(MakeCandidate(problem, "int x = ;"), "broken");
  REQUIRE(stream->Write(message));
  message.Clear();
  add(unknown_problem, "unknown");
  message.add_requests()->set_request_id("empty");
  REQUIRE(stream->Write(message));
  REQUIRE(stream->WritesDone());
  std::map<std::string, v1::CompileReply> replies;
  v1::CompileStreamReply answers;
  while (stream->Read(&answers)) {
    for (const v1::CompileReply& reply : answers.replies()) {
      CHECK(replies.emplace(reply.request_id(), reply).second);
    }
  }
  CHECK(stream->Finish().ok());
  REQUIRE(replies.size() == 4);
  CHECK(replies["good"].success().facts().values_size() > 0);
  CHECK(replies["broken"].compile_error().stage() == v1::CompileError::STAGE_COMPILER);
  CHECK(replies["unknown"].error().code() == static_cast<int>(grpc::StatusCode::NOT_FOUND));
  CHECK(replies["empty"].error().code() == static_cast<int>(grpc::StatusCode::UNIMPLEMENTED));
}

TEST_CASE("Killing a runner from outside affects no other candidate") {
  Worker worker;
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  v1::MeasureReply reply;
  REQUIRE(worker.Measure(MeasureOf(MakeCandidate(problem, Good())), &reply).ok());

  // The reference's process, which is kept between candidates.
  for (const pid_t pid : Children(worker.service().pid(), "kernelcast-runn")) {
    kill(pid, SIGKILL);
  }
  const grpc::Status status = worker.Measure(MeasureOf(MakeCandidate(problem, Good())), &reply);
  INFO(status.error_message());
  CHECK(status.ok());

  // A candidate's process in the middle of a call.
  grpc::Status killed;
  v1::MeasureReply killed_reply;
  std::thread caller([&] {
    killed = worker.Measure(MeasureOf(MakeCandidate(problem, Hanging())), &killed_reply);
  });
  CHECK(
      Eventually([&] { return Children(worker.service().pid(), "kernelcast-runn").size() >= 2; }));
  for (const pid_t pid : Children(worker.service().pid(), "kernelcast-runn")) {
    kill(pid, SIGKILL);
  }
  caller.join();
  INFO(killed.error_message());
  CHECK(killed.ok());
  REQUIRE(worker.Measure(MeasureOf(MakeCandidate(problem, Good())), &reply).ok());
}

TEST_CASE("A killed worker leaves no runner behind and restarts on its cache") {
  Worker worker;
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  const Candidate candidate = MakeCandidate(problem, Good());
  v1::MeasureReply reply;
  REQUIRE(worker.Measure(MeasureOf(candidate), &reply).ok());
  const std::vector<pid_t> runners = Children(worker.service().pid(), "kernelcast-runn");
  CHECK_FALSE(runners.empty());
  worker.service().Kill();
  for (const pid_t pid : runners) {
    CHECK(Eventually([&] { return kill(pid, 0) != 0; }));
  }
  worker.Start();
  worker.Put(problem);
  v1::CompileReply compiled;
  REQUIRE(worker.Compile(CompileOf(candidate), &compiled).ok());
  CHECK(compiled.cached());
}

TEST_CASE("A draining worker finishes its running jobs and accepts no more") {
  Worker worker;
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  worker.Put(problem);
  v1::MeasureReply warm;
  REQUIRE(worker.Measure(MeasureOf(MakeCandidate(problem, Good())), &warm).ok());
  grpc::Status status;
  v1::MeasureReply reply;
  std::thread caller(
      [&] { status = worker.Measure(MeasureOf(MakeCandidate(problem, Hanging())), &reply); });
  // Its process runs next to the reference's, so it is past compilation.
  CHECK(
      Eventually([&] { return Children(worker.service().pid(), "kernelcast-runn").size() >= 2; }));
  CHECK(worker.service().Terminate() == 0);
  caller.join();
  INFO(status.error_message());
  CHECK(status.ok());
  CHECK(reply.measurement().has_timeout());
}

TEST_CASE("A draining worker hands back its queued jobs immediately") {
  const TemporaryFolder folder("records");
  const RecordedProblem recorded = MakeRecordedProblem(6, 5);
  WriteRecords(recorded, folder.File("records.jsonl"));
  // A measurement takes five seconds.
  Worker worker({"--replay", folder.File("records.jsonl"), "--replay-pace", "10"});
  worker.Put(recorded.problem);
  struct Outcome {
    absl::Status status;
    std::chrono::steady_clock::time_point time;
  };
  std::vector<std::future<Outcome>> calls;
  for (uint32_t i = 0; i < 4; ++i) {
    calls.push_back(std::async(std::launch::async, [&, i]() -> Outcome {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
      v1::MeasureReply reply;
      const grpc::Status status =
          worker.stub().Measure(&context, MeasureOf(recorded.candidates[i]), &reply);
      return {FromGrpc(status, context), std::chrono::steady_clock::now()};
    }));
    REQUIRE(Eventually([&] { return worker.Describe().measures_in_flight() == i + 1; }));
  }
  const auto begun = std::chrono::steady_clock::now();
  CHECK(worker.service().Terminate() == 0);
  const Outcome first = calls[0].get();
  CHECK(first.status.ok());
  for (size_t i = 1; i < calls.size(); ++i) {
    const Outcome handed_back = calls[i].get();
    CHECK(absl::IsUnavailable(handed_back.status));
    CHECK(IsNotStarted(handed_back.status));
    // Handed back before the running one ended, so before its turn.
    CHECK(handed_back.time < first.time);
    CHECK(handed_back.time - begun < seconds(2));
  }
}

TEST_CASE("The environment names the lease file, and the command line overrides it") {
  const TemporaryFolder folder("leases");
  const auto starts = [&](const std::string& variable, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--cache-dir", folder.File("cache")});
    ServiceSite site;
    site.launcher = {"/usr/bin/env", "KERNELCAST_LEASE_FILE=" + variable};
    Service worker("kernelcast-worker", arguments, folder, site);
    const absl::Status started = worker.Start();
    INFO(started.ToString());
    CHECK(started.ok());
    worker.Terminate();
  };
  starts(folder.File("a"), {});
  CHECK(std::filesystem::exists(folder.File("a")));
  starts(folder.File("b"), {"--lease-file", folder.File("c")});
  CHECK(std::filesystem::exists(folder.File("c")));
  const std::string config = folder.File("worker.yaml");
  std::ofstream(config) << "lease-file: " << folder.File("d") << "\n";
  starts(folder.File("b"), {"--config", config});
  CHECK(std::filesystem::exists(folder.File("d")));
  CHECK_FALSE(std::filesystem::exists(folder.File("b")));
}

TEST_CASE("Recorded measurements are replayed under their target's name") {
  const TemporaryFolder folder("records");
  const RecordedProblem recorded = MakeRecordedProblem(6, 5);
  WriteRecords(recorded, folder.File("records.jsonl"));
  Worker worker({"--replay", folder.File("records.jsonl")});
  worker.Put(recorded.problem);
  const v1::WorkerDescription description = worker.Describe();
  REQUIRE(description.targets_size() == 1);
  CHECK(description.targets(0).target() == "cpu");

  for (const Candidate& candidate : recorded.candidates) {
    v1::CompileReply compiled;
    REQUIRE(worker.Compile(CompileOf(candidate), &compiled).ok());
    CHECK(compiled.has_success());
    v1::MeasureReply reply;
    REQUIRE(worker.Measure(MeasureOf(candidate), &reply).ok());
    CHECK(reply.measurement().ok().speedup().value() == Approx(RecordedSpeedup(candidate)));
  }
  v1::CompileRequest reference;
  reference.set_problem_id(recorded.problem.problem_id);
  reference.set_target("cpu");
  reference.set_reference(true);
  v1::CompileReply reply;
  REQUIRE(worker.Compile(reference, &reply).ok());
  CHECK(reply.success().facts().schema() == "cpu-asm/1");

  const Candidate unknown = MakeCandidate(recorded.problem, "// not recorded\n");
  REQUIRE(worker.Compile(CompileOf(unknown), &reply).ok());
  CHECK(reply.compile_error().stage() == v1::CompileError::STAGE_ADMISSION);
  CHECK(reply.compile_error().log().find("not recorded") != std::string::npos);
}

TEST_CASE("A worker answers thousands of recorded measurements per second") {
  const TemporaryFolder folder("records");
  const RecordedProblem recorded = MakeRecordedProblem(40, 25);
  WriteRecords(recorded, folder.File("records.jsonl"));
  Worker worker({"--replay", folder.File("records.jsonl")});
  worker.Put(recorded.problem);
  constexpr size_t kRounds = 4;
  constexpr int kCallers = 4;  // fewer than the worker's credits
  const size_t calls = kRounds * recorded.candidates.size();
  std::atomic<size_t> next = 0;
  std::atomic<size_t> measured = 0;
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&] {
        for (size_t call = next++; call < calls; call = next++) {
          const Candidate& candidate = recorded.candidates[call % recorded.candidates.size()];
          v1::MeasureReply reply;
          const grpc::Status status =
              worker.Measure(MeasureOf(candidate, absl::StrCat(call)), &reply);
          if (status.ok() && reply.request_id() == absl::StrCat(call) && reply.has_measurement()) {
            ++measured;
          }
        }
      });
    }
  }
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK(measured == calls);
  // Far below the rate of an idle machine, so that a busy one passes.
  CHECK(static_cast<double>(calls) / elapsed > 500);
}

}  // namespace
}  // namespace kernelcast::testing::worker_service_test
