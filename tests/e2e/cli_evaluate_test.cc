#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"
#include "common/convert/default_target.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/e2e/program.h"
#include "tests/fakes/fake_orchestrator.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string MakeCandidates(const TemporaryFolder& home, int count) {
  fs::create_directories(home.path() / "candidates");
  for (int i = 0; i < count; ++i) {
    std::ofstream(home.path() / "candidates" / ("c" + std::to_string(i) + ".cc"))
        << "int candidate_" << i << ";\n";
  }
  return home.File("candidates");
}

size_t Occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

v1::EvaluateReply Measured(const v1::EvaluateRequest& request, double speedup) {
  v1::EvaluateReply reply;
  reply.set_request_id(request.request_id());
  *reply.mutable_evaluation() = MakeSearchScript(1, speedup, 0).records[0].evaluation();
  reply.mutable_evaluation()->set_request_id(request.request_id());
  return reply;
}

v1::EvaluateReply Refused(const v1::EvaluateRequest& request, int code,
                          const std::string& message) {
  v1::EvaluateReply reply;
  reply.set_request_id(request.request_id());
  reply.mutable_error()->set_code(code);
  reply.mutable_error()->set_message(message);
  return reply;
}

TEST_CASE("Candidates are evaluated and shown in name order", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.on_evaluate = [](const v1::EvaluateRequest& request) { return Measured(request, 2.5); };
  const std::string folder = MakeCandidates(home, 3);
  std::ofstream(folder + "/c1.json") << R"({"flags": ["-ffast-math"], "tunables": {"N": 4}})";
  const Outcome outcome = Run(home, {"evaluate", "row_softmax", "--candidates", folder, "--mode",
                                     "final", "--orchestrator", fake.address()});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("2.50x"));
  CHECK(outcome.out.find("c0") < outcome.out.find("c1"));
  CHECK(outcome.out.find("c1") < outcome.out.find("c2"));
  CHECK(fake.problems_put() == 1);
  const auto requests = fake.evaluated();
  REQUIRE(requests.size() == 3);
  for (const v1::EvaluateRequest& request : requests) {
    CHECK(request.mode() == v1::EVALUATE_MODE_FINAL);
    if (request.candidate().source() == "int candidate_1;\n") {
      CHECK(request.candidate().flags(0) == "-ffast-math");
      CHECK(request.candidate().tunables(0).value() == "4");
    }
  }
}

TEST_CASE("Device code goes to the problem's CUDA target with its launches", "[e2e][cuda]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.on_evaluate = [](const v1::EvaluateRequest& request) { return Measured(request, 2.5); };
  fs::create_directories(home.path() / "candidates");
  const std::string folder = home.File("candidates");
  std::ofstream(folder + "/k.cu") << "extern \"C\" __global__ void k() {}\n";
  std::ofstream(folder + "/k.json") << R"({"tunables": {"BLOCK": 128}, "launches": [{"kernel": "k",
      "grid": ["rows"], "block": ["BLOCK"], "arguments": ["x", "y", "cols", "workspace"]}],
      "workspace_bytes": "4*rows"})";
  const auto evaluate = [&](const std::string& problem, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"evaluate", problem,          "--candidates",
                                          folder,     "--orchestrator", fake.address()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Run(home, arguments);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
  };
  evaluate("rmsnorm_bf16", {});
  evaluate("row_softmax", {"--target", "cuda"});
  evaluate("row_softmax", {});
  const auto requests = fake.evaluated();
  REQUIRE(requests.size() == 3);
  CHECK(requests[0].candidate().target() == "cuda");
  CHECK(requests[1].candidate().target() == "cuda");
  CHECK(requests[2].candidate().target() == "cpu");
  const v1::Candidate& sent = requests[0].candidate();
  CHECK(sent.kind() == v1::CANDIDATE_KIND_DEVICE_CUDA);
  REQUIRE(sent.launches_size() == 1);
  CHECK(sent.launches(0).kernel() == "k");
  CHECK(sent.launches(0).arguments(3) == "workspace");
  CHECK(sent.workspace_bytes() == "4*rows");
}

// Judges on a GPU; PyTorch tasks too if `kind` says so.
v1::WorkerDescription GpuWorker(v1::CandidateKind kind, bool can_measure) {
  v1::WorkerDescription worker;
  worker.add_targets()->set_target("cpu");
  worker.mutable_targets(0)->set_can_measure(true);
  worker.mutable_targets(0)->add_candidate_kinds(v1::CANDIDATE_KIND_PYTHON);
  v1::TargetDescription& cuda = *worker.add_targets();
  cuda.set_target("cuda");
  cuda.set_can_measure(can_measure);
  cuda.add_candidate_kinds(kind);
  cuda.mutable_device()->set_model("NVIDIA Test 1000");
  return worker;
}

// A worker that does not compile, and keeps what it is asked.
class RefusingWorker final : public v1::Worker::Service {
 public:
  explicit RefusingWorker(v1::WorkerDescription description)
      : description_(std::move(description)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~RefusingWorker() override { server_->Shutdown(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // The target of the last compile.
  std::string target() const {
    const std::lock_guard lock(mutex_);
    return target_;
  }

 private:
  grpc::Status Describe(grpc::ServerContext*, const v1::WorkerDescribeRequest*,
                        v1::WorkerDescription* reply) override {
    *reply = description_;
    return grpc::Status::OK;
  }
  grpc::Status PutProblem(grpc::ServerContext*, const v1::PutProblemRequest* request,
                          v1::PutProblemReply* reply) override {
    const absl::StatusOr<Problem> problem = ProblemFromProto(request->problem());
    if (!problem.ok()) return {grpc::StatusCode::INVALID_ARGUMENT, "no problem"};
    SetDefaultTarget(*problem, {description_}, *reply);
    return grpc::Status::OK;
  }
  grpc::Status Compile(grpc::ServerContext*, const v1::CompileRequest* request,
                       v1::CompileReply*) override {
    const std::lock_guard lock(mutex_);
    target_ = request->target();
    return {grpc::StatusCode::UNIMPLEMENTED, "no compiler"};
  }

  const v1::WorkerDescription description_;
  mutable std::mutex mutex_;
  std::string target_;  // guarded by mutex_
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_CASE("A PyTorch task goes to the GPU where a worker judges it on one", "[e2e]") {
  const TemporaryFolder home("cli");
  fs::create_directories(home.path() / "candidates");
  const std::string folder = home.File("candidates");
  std::ofstream(folder + "/k.py") << "class ModelNew: pass\n";
  const std::string task = KERNELCAST_SOURCE_DIR "/examples/tasks/kernelbench/gated_silu.py";
  struct Case {
    std::string name;
    std::vector<v1::WorkerDescription> workers;
    std::vector<std::string> more;
    std::string target;
  };
  const v1::WorkerDescription judges = GpuWorker(v1::CANDIDATE_KIND_PYTHON, true);
  const v1::WorkerDescription without_torch = GpuWorker(v1::CANDIDATE_KIND_DEVICE_CUDA, true);
  const v1::WorkerDescription without_gpu = GpuWorker(v1::CANDIDATE_KIND_PYTHON, false);
  const std::vector<Case> cases = {
      {"no worker", {}, {}, "cpu"},
      {"a GPU", {without_torch, judges}, {}, "cuda"},
      {"a GPU, and the processor asked for", {judges}, {"--target", "cpu"}, "cpu"},
      {"no PyTorch for the GPU", {without_torch}, {}, "cpu"},
      {"no GPU", {without_gpu}, {}, "cpu"},
  };
  for (const Case& tried : cases) {
    INFO(tried.name);
    FakeOrchestrator fake;
    fake.workers = tried.workers;
    fake.on_evaluate = [](const v1::EvaluateRequest& request) { return Measured(request, 2.5); };
    std::vector<std::string> arguments = {"evaluate",       task,          "--candidates", folder,
                                          "--orchestrator", fake.address()};
    arguments.insert(arguments.end(), tried.more.begin(), tried.more.end());
    const Outcome outcome = Run(home, arguments);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    REQUIRE(fake.evaluated().size() == 1);
    CHECK(fake.evaluated()[0].candidate().target() == tried.target);
    CHECK((outcome.err.find("target cuda (NVIDIA Test 1000)") != std::string::npos) ==
          (tried.target == "cuda"));
    fake.script = MakeSearchScript(2, 1.5, 0.2);
    arguments = {"search",      task,  "--orchestrator",      fake.address(),
                 "--generator", "llm", "--budget-candidates", "4"};
    arguments.insert(arguments.end(), tried.more.begin(), tried.more.end());
    CHECK(Run(home, arguments).exit_code == 0);
    REQUIRE(fake.started().size() == 1);
    CHECK(fake.started()[0].spec().target() == tried.target);
    if (tried.workers.empty()) continue;
    // The last one: the worker of a pool that decides.
    const RefusingWorker worker(tried.workers.back());
    arguments = {"compile", task, "--candidates", folder, "--worker", worker.address()};
    arguments.insert(arguments.end(), tried.more.begin(), tried.more.end());
    CHECK(Run(home, arguments).exit_code != 0);
    CHECK(worker.target() == tried.target);
  }
  // Other problems keep their target.
  const TemporaryFolder others("cli");
  FakeOrchestrator fake;
  fake.workers = {judges};
  fake.on_evaluate = [](const v1::EvaluateRequest& request) { return Measured(request, 2.5); };
  const Outcome outcome = Run(home, {"evaluate", "row_softmax", "--candidates",
                                     MakeCandidates(others, 1), "--orchestrator", fake.address()});
  INFO(outcome.err);
  REQUIRE(fake.evaluated().size() == 1);
  CHECK(fake.evaluated()[0].candidate().target() == "cpu");
}

TEST_CASE("A PyTorch task is evaluated as it is, without a problem folder", "[e2e]") {
  const std::string python = "/usr/bin/python3";
  const std::string probe = python + " -c 'import torch' 2>/dev/null";
  if (std::system(probe.c_str()) != 0) {
    WARN("no PyTorch in " << python << ": nothing is tested (install python3-torch)");
    return;
  }
  const TemporaryFolder home("cli");
  const std::string tasks = KERNELCAST_SOURCE_DIR "/examples/tasks/kernelbench/";
  const Outcome outcome = RunUntil(
      home,
      [&](int) -> std::vector<std::string> {
        return {"evaluate",     tasks + "row_variance.py",
                "--candidates", tasks + "candidates/row_variance",
                "--mode",       "measure",
                "--python",     python};
      },
      [](const Outcome& run) { return run.out.find("too noisy") == std::string::npos; });
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 1);  // one candidate is wrong
  CHECK_THAT(outcome.out, Catch::Contains("one_call") && Catch::Contains("wrong_unbiased"));
  CHECK_THAT(outcome.out, Catch::Matches(R"([^]*one_call +requested +\S+ +[\d.]+x \[[^]*)"));
  CHECK_THAT(outcome.out, Catch::Contains("output1"));
}

TEST_CASE("PyTorch candidates without a recording are all measured", "[e2e][slow]") {
  const std::string python = "/usr/bin/python3";
  const std::string probe = python + " -c 'import torch' 2>/dev/null";
  if (std::system(probe.c_str()) != 0) {
    WARN("no PyTorch in " << python << ": nothing is tested (install python3-torch)");
    return;
  }
  const TemporaryFolder home("cli");
  fs::create_directories(home.path() / "candidates");
  const std::string folder = home.File("candidates");
  constexpr int kCandidates = 14;
  // The fast ones come first and last, the slow ones in between.
  for (int i = 0; i < kCandidates; ++i) {
    const int passes = i == 0 ? 2 : i == kCandidates - 1 ? 0 : 12;
    std::ofstream(absl::StrCat(folder, "/c", i + 10, ".py"))
        << "import torch\nimport torch.nn as nn\nclass ModelNew(nn.Module):\n"
        << "    def forward(self, gate, value):\n"
        << "        y = torch.sigmoid(gate).mul_(gate).mul_(value)\n"
        << "        for _ in range(" << passes << "):\n            y = y + 0.0\n"
        << "        return y\n# " << i << "\n";
  }
  const std::string task = KERNELCAST_SOURCE_DIR "/examples/tasks/kernelbench/gated_silu.py";
  for (const char* in_flight : {"1", "8"}) {
    INFO("in flight " << in_flight);
    const Outcome outcome = Run(home, {"evaluate", task, "--candidates", folder, "--target", "cpu",
                                       "--in-flight", in_flight, "--json", "--python", python});
    INFO(outcome.out << outcome.err);
    int seen = 0;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      const json evaluation = json::parse(line)["evaluation"];
      ++seen;
      CHECK(evaluation["decision"]["kind"] == "DECISION_KIND_MEASURE");
      CHECK(evaluation["decision"]["reason"] == "DECISION_REASON_NO_FORECAST");
      CHECK(evaluation["decided_on"]["basis"] == "FORECAST_BASIS_PRIOR_ONLY");
    }
    CHECK(seen == kCandidates);
  }
}

TEST_CASE("With --json each evaluation is printed as a line when it settles", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.on_evaluate = [](const v1::EvaluateRequest& request) { return Measured(request, 2.5); };
  const Outcome outcome =
      Run(home, {"evaluate", "row_softmax", "--candidates", MakeCandidates(home, 4), "--json",
                 "--orchestrator", fake.address()});
  CHECK(outcome.exit_code == 0);
  std::set<std::string> names;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    names.insert(one["name"]);
    CHECK(one["evaluation"]["measured"]["ok"]["speedup"]["value"] == 2.5);
  }
  CHECK(names == std::set<std::string>{"c0", "c1", "c2", "c3"});
}

TEST_CASE("evaluate says which candidates are not simulated, and why", "[e2e]") {
  const TemporaryFolder home("cli");
  const std::string candidates = MakeCandidates(home, 3);
  FakeOrchestrator fake;
  fake.on_evaluate = [](const v1::EvaluateRequest& request) {
    v1::EvaluateReply reply = Measured(request, 2.5);
    v1::CompileFacts& facts = *reply.mutable_evaluation()->mutable_facts();
    facts.set_schema("python-source/1");
    v1::ShapeSimulation& simulation = *facts.add_simulations();
    v1::LaunchSimulation& launch = *simulation.add_launches();
    launch.set_kernel("the candidate");
    if (request.candidate().source() == "int candidate_0;\n") {
      launch.set_not_covered("uses torch.compile");
    } else if (request.candidate().source() == "int candidate_1;\n") {
      // It was recorded, and the reference was not.
      reply.mutable_evaluation()->mutable_decided_on()->set_basis(v1::FORECAST_BASIS_PRIOR_ONLY);
    } else {
      reply.mutable_evaluation()->mutable_decided_on()->set_basis(v1::FORECAST_BASIS_RECORDING);
    }
    return reply;
  };
  const std::vector<std::string> arguments = {"evaluate", "row_softmax",    "--candidates",
                                              candidates, "--orchestrator", fake.address()};
  const Outcome table = Run(home, arguments);
  INFO(table.out);
  CHECK(fake.evaluated().at(0).include_facts());
  CHECK_THAT(table.out, Catch::Matches(R"([^]*c0 [^\n]* not simulated\n[^]*)"));
  CHECK_THAT(table.out, Catch::Matches(R"([^]*c2 [^\n]*2\.5[^\n]*\n[^]*)"));
  CHECK_THAT(table.out, Catch::Contains("\nc0: not simulated: uses torch.compile\n"));
  CHECK_THAT(table.out,
             Catch::Contains("\nc1: not simulated: the task's reference is not simulated"));
  CHECK(Occurrences(table.out, "not simulated: ") == 2);

  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  std::map<std::string, std::string> reasons;
  std::istringstream lines(Run(home, as_json).out);
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    reasons[one["name"]] = one.value("not_simulated", "");
    CHECK_FALSE(one["evaluation"].contains("facts"));
  }
  CHECK(reasons["c0"] == "uses torch.compile");
  CHECK_THAT(reasons["c1"], Catch::StartsWith("the task's reference"));
  CHECK(reasons["c2"].empty());
}

TEST_CASE("A failing or refused candidate gives a negative exit code", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.on_evaluate = [](const v1::EvaluateRequest& request) -> v1::EvaluateReply {
    if (request.candidate().source() == "int candidate_0;\n") return Measured(request, 2);
    if (request.candidate().source() == "int candidate_1;\n") {
      v1::EvaluateReply reply = Measured(request, 2);
      reply.mutable_evaluation()->mutable_measured()->mutable_timeout()->set_stage("check");
      return reply;
    }
    return Refused(request, 3, "flags[0]: \x1b[31mnot allowed");
  };
  const Outcome outcome = Run(home, {"evaluate", "row_softmax", "--candidates",
                                     MakeCandidates(home, 3), "--orchestrator", fake.address()});
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.out, Catch::Contains("timeout"));
  CHECK_THAT(outcome.out, Catch::Contains("INVALID_ARGUMENT"));
  CHECK_THAT(outcome.out, Catch::Contains("\\x1b[31mnot allowed"));
  CHECK(outcome.out.find('\x1b') == std::string::npos);
}

TEST_CASE("The full text of each failure stands below the table", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  const std::string log =
      "kernel.cc:3:17: error: no member named 'shape_of_the_output' in 'DLTensor'\n"
      "    3 |   return tensor->shape_of_the_output[0];\n";
  fake.on_evaluate = [&](const v1::EvaluateRequest& request) -> v1::EvaluateReply {
    if (request.candidate().source() == "int candidate_0;\n") return Measured(request, 2);
    v1::EvaluateReply reply = Measured(request, 2);
    v1::Evaluation& evaluation = *reply.mutable_evaluation();
    v1::CompileError& error = *evaluation.mutable_rejected()->mutable_compile_error();
    error.set_stage(v1::CompileError::STAGE_COMPILER);
    error.set_log(log);
    evaluation.set_text_feedback("Does not compile: " + log);
    return reply;
  };
  const std::vector<std::string> arguments = {"evaluate",       "row_softmax",
                                              "--candidates",   MakeCandidates(home, 3),
                                              "--orchestrator", fake.address()};
  for (const auto streams : {Program::Streams::kTerminal, Program::Streams::kPipes}) {
    Outcome outcome = Program(home, arguments, {{"NO_COLOR", "1"}}, streams, 80).Wait();
    CHECK(outcome.exit_code == 1);
    std::erase(outcome.out, '\r');
    // Once for both candidates.
    CHECK_THAT(outcome.out, Catch::Contains("\nc1, c2:\nDoes not compile: " + log));
    CHECK(Occurrences(outcome.out, "shape_of_the_output[0]") == 1);
  }
}

TEST_CASE("Files that are no candidates are refused by name, and the others evaluated", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.on_evaluate = [](const v1::EvaluateRequest& request) { return Measured(request, 2.5); };
  const std::string folder = MakeCandidates(home, 2);
  std::ofstream(folder + "/empty.cc") << "";
  std::ofstream(folder + "/latin.cc") << "int caf\xe9;\n";
  const std::vector<std::string> arguments = {"evaluate", "row_softmax",    "--candidates",
                                              folder,     "--orchestrator", fake.address()};
  const Outcome outcome = Run(home, arguments);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK(fake.evaluated().size() == 2);
  CHECK(Occurrences(outcome.out, "2.50x") == 2);
  CHECK(Occurrences(outcome.out, "refused") == 2);
  CHECK_THAT(outcome.out, Catch::Contains("is empty") && Catch::Contains("is not UTF-8"));
  std::vector<std::string> with_json = arguments;
  with_json.emplace_back("--json");
  const Outcome lines = Run(home, with_json);
  CHECK(lines.exit_code == 1);
  std::map<std::string, json> by_name;
  std::istringstream text(lines.out);
  for (std::string line; std::getline(text, line);) {
    const json one = json::parse(line);
    by_name[one["name"]] = one;
  }
  REQUIRE(by_name.size() == 4);
  CHECK(by_name["c0"].contains("evaluation"));
  CHECK(by_name["empty"]["error"]["code"] == "INVALID_ARGUMENT");
  CHECK_THAT(by_name["latin"]["error"]["message"].get<std::string>(),
             Catch::Contains("latin.cc: source: is not UTF-8"));
}

TEST_CASE("A right candidate without a kernel of its own is said to only call PyTorch", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.on_evaluate = [](const v1::EvaluateRequest& request) { return Measured(request, 2.5); };
  fs::create_directories(home.path() / "candidates");
  const std::string folder = home.File("candidates");
  const std::string model = "import torch\nclass ModelNew(torch.nn.Module): pass\n";
  std::ofstream(folder + "/calls.py") << model;
  std::ofstream(folder + "/kernel.py") << "import triton\n" << model;
  const std::string task = KERNELCAST_SOURCE_DIR "/examples/tasks/kernelbench/gated_silu.py";
  const std::vector<std::string> arguments = {
      "evaluate", task, "--candidates", folder, "--orchestrator", fake.address()};
  const Outcome outcome = Run(home, arguments);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(Occurrences(outcome.out, "only calls PyTorch") == 1);
  std::vector<std::string> with_json = arguments;
  with_json.emplace_back("--json");
  const Outcome lines = Run(home, with_json);
  CHECK(Occurrences(lines.out, "\"only_calls_pytorch\":true") == 1);
}

TEST_CASE("The reason why candidates are not evaluated appears once while they settle", "[e2e]") {
  const TemporaryFolder home("cli-evaluate");
  FakeOrchestrator fake;
  fake.on_evaluate = [](const v1::EvaluateRequest& request) {
    v1::EvaluateReply reply = Measured(request, 1);
    reply.mutable_evaluation()->clear_measured();
    reply.mutable_evaluation()->mutable_rejected()->set_unavailable("no PyTorch tasks: no torch");
    return reply;
  };
  const Outcome outcome = Run(home, {"evaluate", "row_softmax", "--candidates",
                                     MakeCandidates(home, 3), "--orchestrator", fake.address()});
  CHECK(outcome.exit_code == 1);
  CHECK(Occurrences(outcome.err, "not evaluated: no PyTorch tasks: no torch") == 1);
  CHECK(Occurrences(outcome.err, "not evaluated") == 3);
  // All three candidates have it, below the table.
  CHECK_THAT(outcome.out, Catch::Contains("\nc0, c1, c2:\nno PyTorch tasks: no torch\n"));
  CHECK(Occurrences(outcome.out, "no PyTorch tasks: no torch") == 1);
}

TEST_CASE("A busy orchestrator is retried after the delay it asks for", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  std::map<std::string, int> asked;
  fake.on_evaluate = [&asked](const v1::EvaluateRequest& request) {
    if (++asked[request.request_id()] < 3) {
      v1::EvaluateReply busy = Refused(request, 8, "too many in flight");
      busy.mutable_error()->mutable_retry_after()->set_nanos(20'000'000);
      return busy;
    }
    return Measured(request, 2);
  };
  const Outcome outcome = Run(home, {"evaluate", "row_softmax", "--candidates",
                                     MakeCandidates(home, 5), "--orchestrator", fake.address()});
  CHECK(outcome.exit_code == 0);
  CHECK(asked.size() == 5);
  for (const auto& [id, times] : asked) CHECK(times == 3);
}

TEST_CASE("A broken stream is reopened, and each candidate is answered once", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.evaluate_breaks = {3, 0, 5};
  fake.on_evaluate = [](const v1::EvaluateRequest& request) { return Measured(request, 2); };
  const Outcome outcome =
      Run(home, {"evaluate", "row_softmax", "--candidates", MakeCandidates(home, 12), "--json",
                 "--in-flight", "4", "--orchestrator", fake.address()});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, Catch::Contains("connection lost"));
  std::map<std::string, int> answers;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) ++answers[json::parse(line)["name"]];
  CHECK(answers.size() == 12);
  for (const auto& [name, count] : answers) CHECK(count == 1);
  std::set<std::string> ids;
  for (const v1::EvaluateRequest& request : fake.evaluated()) ids.insert(request.request_id());
  CHECK(ids.size() == 12);
}

TEST_CASE("Ctrl-C during an evaluation exits with code 4 and shows what was settled", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.on_evaluate = [](const v1::EvaluateRequest& request) -> std::optional<v1::EvaluateReply> {
    if (request.candidate().source() != "int candidate_0;\n") return std::nullopt;
    return Measured(request, 2);
  };
  Program program(home, {"evaluate", "row_softmax", "--candidates", MakeCandidates(home, 3),
                         "--orchestrator", fake.address()});
  REQUIRE(program.AwaitErr("c0"));
  program.Signal(SIGINT);
  const Outcome outcome = program.Wait(20);
  CHECK(outcome.exit_code == 4);
  CHECK_THAT(outcome.out, Catch::Contains("2.00x"));
}

}  // namespace
}  // namespace kernelcast::testing
