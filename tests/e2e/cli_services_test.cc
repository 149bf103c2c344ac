// Tests the program with the real services. The worker replays synthetic records, so that no test
// depends on a quiet machine.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "common/base/file.h"
#include "common/process/child_process.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/cli/commands/connection.h"
#include "tests/e2e/program.h"
#include "tests/support/eventually.h"
#include "tests/support/recorded_problem.h"

namespace kernelcast::testing::cli_services_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A home with a problem and the records of all its points.
struct Site {
  Site() : home("services"), recorded(MakeRecordedProblem(12, 8)) {
    problem = home.File("problems/" + recorded.problem.name);
    for (const ProblemFile& file : recorded.files) {
      const fs::path path = fs::path(problem) / file.path;
      fs::create_directories(path.parent_path());
      std::ofstream(path, std::ios::binary) << file.content;
    }
    records = home.File("records.jsonl");
    WriteRecords(recorded, records);
  }

  std::vector<std::string> Up(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"up",          "--json",   "--listen",
                                          "127.0.0.1:0", "--replay", records};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::vector<std::string> Search(std::vector<std::string> more = {}, int measurements = 25) const {
    std::vector<std::string> arguments = {"search",
                                          problem,
                                          "--json",
                                          "--replay",
                                          records,
                                          "--budget-measurements",
                                          std::to_string(measurements)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  TemporaryFolder home;
  RecordedProblem recorded;
  std::string problem;
  std::string records;
};

// `up` prints one line of JSON when it is ready.
void AwaitReady(Program& program) { REQUIRE(program.AwaitOut("}\n")); }

// Listens on a port of 127.0.0.1.
struct Listener {
  explicit Listener(uint16_t port) : fd(socket(AF_INET, SOCK_STREAM, 0)) {
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    listens =
        bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(fd, 1) == 0;
  }
  ~Listener() { close(fd); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  const int fd;
  bool listens = false;
};

json AddressesIn(const Site& site) {
  std::ifstream file(site.home.File("state/kernelcast/services.json"));
  return json::parse(file);
}

pid_t ServiceOf(pid_t supervisor, const std::string& name) {
  for (const pid_t child : ChildrenOf(supervisor)) {
    // Anyone may read it, but not the link to the worker's program, because that is not dumpable.
    const absl::StatusOr<std::string> command =
        ReadFile("/proc/" + std::to_string(child) + "/cmdline");
    if (command.ok() && fs::path(command->c_str()).filename() == name) return child;
  }
  return -1;
}

TEST_CASE("up runs the services until it is stopped, and only once per state folder",
          "[e2e][slow]") {
  const Site site;
  Program up(site.home, site.Up());
  AwaitReady(up);
  const json addresses = AddressesIn(site);
  CHECK(addresses["pid"] == up.pid());
  const std::vector<pid_t> children = ChildrenOf(up.pid());
  CHECK(children.size() == 3);

  const Outcome second = Run(site.home, site.Up());
  CHECK(second.exit_code == 2);
  CHECK_THAT(second.err,
             Catch::Contains("another kernelcast (process " + std::to_string(up.pid()) + ")"));

  const Outcome doctor = Run(site.home, {"doctor", "--json"});
  CHECK_THAT(doctor.out, Catch::Contains("1 of 1 workers"));

  // The help of --policy lists the orchestrator's policies.
  v1::OrchestratorDescription description;
  grpc::ClientContext call;
  REQUIRE(v1::Orchestrator::NewStub(
              grpc::CreateChannel(addresses["orchestrator"], grpc::InsecureChannelCredentials()))
              ->Describe(&call, {}, &description)
              .ok());
  std::string policies;
  for (const std::string& policy : description.policies()) {
    policies += (policies.empty() ? "{" : ",") + policy;
  }
  CHECK_THAT(Run(site.home, {"search", "--help"}).out,
             Catch::Contains("--policy " + policies + "}"));

  up.Signal(SIGTERM);
  const Outcome outcome = up.Wait(60);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  for (const pid_t child : children) CHECK_FALSE(Alive(child));
  CHECK_FALSE(fs::exists(site.home.File("state/kernelcast/services.json")));
  // Bookmarks and scrape targets stay valid: --listen changes only the orchestrator's address.
  Program again(site.home, site.Up());
  AwaitReady(again);
  json kept = AddressesIn(site);
  for (const char* name : {"worker", "forecaster", "orchestrator_status", "orchestrator_metrics",
                           "worker_metrics", "forecaster_metrics"}) {
    INFO(name);
    REQUIRE(kept.contains(name));
    CHECK(kept[name] == addresses[name]);
  }
  again.Signal(SIGINT);
  CHECK(again.Wait(60).exit_code == 0);

  // A port in use is replaced, with a message.
  const std::string status = addresses["orchestrator_status"];
  const Listener blocker(static_cast<uint16_t>(std::stoi(status.substr(status.find(':') + 1))));
  REQUIRE(blocker.listens);
  Program third(site.home, site.Up());
  AwaitReady(third);
  CHECK(AddressesIn(site)["orchestrator_status"] != status);
  third.Signal(SIGINT);
  const Outcome moved = third.Wait(60);
  CHECK(moved.exit_code == 0);
  CHECK_THAT(moved.err, Catch::Contains(status + " is taken; the status page gets another port"));
}

TEST_CASE("searches, best and export read the log without services", "[e2e][slow]") {
  const Site site;
  REQUIRE(Run(site.home, {"searches"}).out == "no searches\n");
  CHECK_FALSE(fs::exists(site.home.File("state")));
  const Outcome searched = Run(site.home, site.Search({"--search-id", "s1"}));
  INFO(searched.err);
  REQUIRE(searched.exit_code == 0);
  const auto logs = [&] {
    std::map<std::string, uintmax_t> sizes;
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(site.home.File("state"))) {
      // SQLite makes and removes files for readers of its write-ahead log.
      const std::string name = entry.path().filename();
      if (!entry.is_regular_file() || name.ends_with("-shm") || name.ends_with("-wal")) continue;
      sizes[entry.path()] = entry.file_size();
    }
    return sizes;
  };
  const std::map<std::string, uintmax_t> before = logs();
  // A folder with the orchestrator alone: nothing else can be started.
  const std::string programs = site.home.File("programs");
  fs::create_directories(programs);
  fs::create_symlink(ProgramFolder() + "/kernelcast-orchestrator",
                     programs + "/kernelcast-orchestrator");
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--service-dir", programs});
    return Run(site.home, arguments);
  };
  const Outcome searches = run({"searches", "--ids"});
  INFO(searches.err);
  CHECK(searches.exit_code == 0);
  CHECK(searches.out == "s1\n");
  CHECK(run({"best", "s1", "-o", site.home.File("best.cc")}).exit_code == 0);
  const Outcome exported = run({"export", "latest"});
  CHECK(exported.exit_code == 0);
  CHECK(std::ranges::count(exported.out, '\n') >= 25);
  CHECK(run({"report", "s1", "-o", site.home.File("r.html")}).exit_code == 0);
  CHECK(logs() == before);

  // Services that run answer themselves.
  Program up(site.home, site.Up());
  AwaitReady(up);
  CHECK(Run(site.home, {"searches", "--ids"}).out == "s1\n");
  REQUIRE(Run(site.home, site.Search({"--search-id", "s2"})).exit_code == 0);
  up.Signal(SIGINT);
  CHECK(up.Wait(60).exit_code == 0);

  // They read an archive, too.
  Service orchestrator("kernelcast-orchestrator",
                       {"--state-dir", site.home.File("state/kernelcast/orchestrator"),
                        "--retention-days", "0", "--archive-dir", site.home.File("archives"),
                        "--worker", "127.0.0.1:1", "--forecaster", "127.0.0.1:1"},
                       site.home);
  REQUIRE(orchestrator.Start().ok());
  CHECK(orchestrator.Terminate() == 0);
  CHECK_THAT(run({"searches", "--ids"}).out, !Catch::Contains("s1\n"));
  REQUIRE(fs::exists(site.home.File("archives")));
  const std::string archive = fs::directory_iterator(site.home.File("archives"))->path();
  CHECK_THAT(run({"searches", "--ids", "--state-dir", archive}).out, Catch::Contains("s1\n"));
  CHECK(run({"export", "s1", "--state-dir", archive}).out == exported.out);
  CHECK(run({"best", "s1", "--state-dir", archive, "-o", site.home.File("again.cc")}).exit_code ==
        0);
  CHECK(ReadFile(site.home.File("again.cc")).value() ==
        ReadFile(site.home.File("best.cc")).value());
}

TEST_CASE("up continues with a damaged event log if the loss is accepted, once", "[e2e][slow]") {
  const Site site;
  {
    Program up(site.home, site.Up());
    AwaitReady(up);
    up.Signal(SIGTERM);
    REQUIRE(up.Wait(60).exit_code == 0);
  }
  const Outcome search = Run(site.home, site.Search());
  INFO(search.err);
  REQUIRE(search.exit_code == 0);
  const std::string log = site.home.File("state/kernelcast/orchestrator/orchestrator.db");
  REQUIRE(fs::remove(log));

  const Outcome refused = Run(site.home, site.Up());
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err,
             Catch::Contains("events were acknowledged") && Catch::Contains("--accept-loss"));

  Program up(site.home, site.Up({"--accept-loss"}));
  AwaitReady(up);
  const auto arguments = [&up] {
    const pid_t pid = ServiceOf(up.pid(), "kernelcast-orchestrator");
    REQUIRE(pid > 0);
    return ReadFile("/proc/" + std::to_string(pid) + "/cmdline").value();
  };
  CHECK_THAT(arguments(), Catch::Contains("--accept-loss"));
  // Restarted services must not lose more.
  kill(ServiceOf(up.pid(), "kernelcast-orchestrator"), SIGKILL);
  REQUIRE(up.AwaitErr("the orchestrator is back"));
  CHECK_THAT(arguments(), !Catch::Contains("--accept-loss"));
  up.Signal(SIGTERM);
  CHECK(up.Wait(60).exit_code == 0);
  Program whole(site.home, site.Up());
  AwaitReady(whole);
  whole.Signal(SIGTERM);
  CHECK(whole.Wait(60).exit_code == 0);
}

#ifdef KERNELCAST_FAKE_DRIVER
TEST_CASE("up measures on the GPUs given by --gpus", "[e2e][slow]") {
  const TemporaryFolder home("up-gpus");
  fs::create_symlink(fs::path(KERNELCAST_FAKE_DRIVER) / "libcuda.so.1", home.File("libcuda.so.1"));
  std::ofstream(home.File("models")) << "Fake GPU A\nFake GPU B\n";
  Program up(home, {"up", "--json", "--listen", "127.0.0.1:0", "--gpus", "1"},
             {{"LD_LIBRARY_PATH", home.path().string()}, {"CUDA_HOME", KERNELCAST_CUDA_HOME}});
  REQUIRE(up.AwaitOut("}\n"));
  std::ifstream file(home.File("state/kernelcast/services.json"));
  const json addresses = json::parse(file);
  v1::WorkerDescription description;
  grpc::ClientContext call;
  REQUIRE(v1::Worker::NewStub(
              grpc::CreateChannel(addresses["worker"], grpc::InsecureChannelCredentials()))
              ->Describe(&call, {}, &description)
              .ok());
  std::vector<std::string> models;
  for (const v1::TargetDescription& target : description.targets()) {
    for (const v1::TargetDevice& device : target.devices()) {
      if (target.target() == "cuda") models.push_back(device.device().model());
    }
  }
  CHECK(models == std::vector<std::string>{"Fake GPU B"});
  up.Signal(SIGINT);
  CHECK(up.Wait(60).exit_code == 0);
}

TEST_CASE("Python candidates are forecast by their recorded launches without a GPU", "[e2e]") {
  const std::string python = "/usr/bin/python3";
  if (std::system((python + " -c 'import torch' 2>/dev/null").c_str()) != 0) {
    WARN("no PyTorch in " << python << ": nothing is tested (install python3-torch)");
    return;
  }
  const TemporaryFolder home("recorded");
  const auto write = [&](const std::string& file, const std::string& body) {
    std::ofstream(home.File(file)) << "import torch\n\nsilu = torch.nn.functional.silu\n\n" << body;
  };
  write("gate.py",
        "class Model(torch.nn.Module):\n"
        "    def forward(self, gate, value):\n"
        "        return silu(gate) * value\n\n"
        "def get_inputs():\n"
        "    return [torch.randn(4096, 4096), torch.randn(4096, 4096)]\n\n"
        "def get_init_inputs():\n"
        "    return []\n");
  fs::create_directories(home.path() / "candidates");
  const auto candidate = [&](const std::string& name, const std::string& result) {
    write("candidates/" + name + ".py",
          "class ModelNew(torch.nn.Module):\n"
          "    def forward(self, gate, value):\n"
          "        return " +
              result + "\n");
  };
  candidate("in_place", "silu(gate).mul_(value)");
  candidate("twice", "silu(gate.clone()).clone() * value.clone()");
  candidate("reads", "silu(gate) * value if gate.sum().item() < 1e9 else gate");
  const Outcome outcome = Run(home,
                              {"forecast", home.File("gate.py"), "--target", "cuda", "--candidates",
                               home.File("candidates"), "--python", python, "--json"},
                              {{"CUDA_HOME", KERNELCAST_CUDA_HOME}});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 0);
  std::map<std::string, json> forecasts;
  std::map<std::string, std::string> not_simulated;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    if (one.contains("forecast")) forecasts[one.at("name")] = one.at("forecast");
    not_simulated[one.at("name")] = one.value("not_simulated", "");
  }
  REQUIRE(forecasts.size() == 3);
  const auto expected = [&](const std::string& name) {
    return forecasts[name].value("expected_log2_speedup", 0.0);
  };
  // As many bytes as the reference: five times the size of a tensor. Then 11, of which none is
  // computed.
  CHECK(expected("in_place") == Approx(0).margin(0.05));
  CHECK(expected("twice") == Approx(-0.9 * std::log2(11 / 5.0)).margin(0.1));
  CHECK(expected("reads") == 0);
  // P(more than twice as slow) of each.
  const auto slow = [&](const std::string& name) {
    const json& bins = forecasts[name].at("bin_probabilities");
    return bins.at(0).get<double>() + bins.at(1).get<double>();
  };
  CHECK(slow("in_place") < slow("reads"));
  CHECK(slow("reads") < slow("twice"));
  CHECK(forecasts["in_place"].at("backend") == "embedded");
  CHECK(not_simulated["in_place"].empty());
  CHECK(not_simulated["reads"] == "reads values of a tensor (item)");

  const Outcome doctor =
      Run(home, {"doctor", "--python", python}, {{"CUDA_HOME", KERNELCAST_CUDA_HOME}});
  INFO(doctor.out);
  CHECK_THAT(doctor.out, Catch::Contains("PyTorch forecasts"));
}
#endif

TEST_CASE("A service that dies is restarted at its address", "[e2e][slow]") {
  const Site site;
  Program up(site.home, site.Up());
  AwaitReady(up);
  const json before = AddressesIn(site);
  for (const char* name :
       {"kernelcast-worker", "kernelcast-forecaster", "kernelcast-orchestrator"}) {
    INFO(name);
    const pid_t victim = ServiceOf(up.pid(), name);
    REQUIRE(victim > 0);
    kill(victim, SIGKILL);
    REQUIRE(up.AwaitErr(std::string("the ") + (name + 11) + " is back"));
    CHECK(ServiceOf(up.pid(), name) != victim);
  }
  CHECK(AddressesIn(site) == before);
  const Outcome search = Run(site.home, site.Search());
  INFO(search.err);
  CHECK(search.exit_code == 0);
  up.Signal(SIGTERM);
  CHECK(up.Wait(60).exit_code == 0);
}

TEST_CASE("Services die with the program that started them, however it exits", "[e2e][slow]") {
  const Site site;
  std::vector<pid_t> children;
  {
    Program up(site.home, site.Up());
    AwaitReady(up);
    children = ChildrenOf(up.pid());
    REQUIRE(children.size() == 3);
    up.Signal(SIGKILL);
    CHECK(up.Wait(20).exit_code == -SIGKILL);
  }
  for (const pid_t child : children) {
    CHECK(Eventually([&] { return !Alive(child); }));
  }
  // Nothing left behind prevents the next start.
  Program again(site.home, site.Up());
  AwaitReady(again);
  again.Signal(SIGTERM);
  CHECK(again.Wait(60).exit_code == 0);
}

TEST_CASE("search starts the services itself and finds a kernel near the best", "[e2e]") {
  const Site site;
  const Outcome outcome = Run(site.home, site.Search({"--report", site.home.File("r.html")}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json result = json::parse(outcome.out);
  CHECK(result["status"] == "done");
  CHECK(result["best"]["confirmed"] == true);
  CHECK(result["best"]["speedup"]["value"].get<double>() > 0.8 * site.recorded.best_speedup);
  CHECK(result["counts"]["measured"].get<int>() <= 25);
  CHECK(fs::file_size(site.home.File("r.html")) > 50'000);

  // The state persists: new services list, export and report the search.
  const std::string id = result["search_id"];
  CHECK_THAT(Run(site.home, {"searches"}).out, Catch::Contains(id));
  const Outcome exported = Run(site.home, {"export", id, "-o", site.home.File("out.jsonl")});
  CHECK(exported.exit_code == 0);
  const Outcome report =
      Run(site.home, {"report", id, "-o", site.home.File("again.html"), "--json"});
  CHECK(report.exit_code == 0);
  CHECK(json::parse(report.out)["counts"] == result["counts"]);
  CHECK(Run(site.home, {"eval", site.home.File("out.jsonl")}).exit_code == 0);
  // With the records of several searches, eval compares what they found.
  fs::copy_file(site.home.File("out.jsonl"), site.home.File("same.jsonl"));
  const Outcome compared =
      Run(site.home, {"eval", site.home.File("out.jsonl"), site.home.File("same.jsonl"), "--json",
                      "--report", site.home.File("eval.html")});
  INFO(compared.err);
  REQUIRE(compared.exit_code == 0);
  const size_t last = compared.out.rfind('\n', compared.out.size() - 2);
  const json searches = json::parse(compared.out.substr(last + 1))["searches"];
  REQUIRE(searches.size() == 2);
  CHECK(searches[0]["searches"] == 1);
  CHECK(searches[0]["device_seconds"].get<double>() > 0);
  CHECK(searches[0]["candidates_per_measurement"]["value"].get<double>() > 1);
  CHECK(searches[0]["best_so_far"] == searches[1]["best_so_far"]);
  CHECK(searches[0]["best_so_far"].back()["found"]["value"] == 1.0);
  CHECK_THAT(ReadFile(site.home.File("eval.html")).value(),
             Catch::Contains("Best so far against device seconds"));
}

TEST_CASE("A search on an absent device fails within seconds and lists the available devices",
          "[e2e][slow]") {
  const Site site;
  const Outcome outcome = Run(site.home, site.Search({"--device-model", "no such device"}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.err, Catch::Contains("no worker measures cpu on no such device") &&
                              Catch::Contains("there are: cpu on "));
  const json result = json::parse(outcome.out);
  CHECK(result["status"] == "failed");
  CHECK_FALSE(result.value("interrupted", true));
}

TEST_CASE("A target that nothing here measures is refused at once", "[e2e]") {
  const TemporaryFolder home("no-gpu");
  fs::create_directories(home.path() / "candidates");
  std::ofstream(home.File("candidates/a.cu")) << "extern \"C\" __global__ void f() {}\n";
  std::ofstream(home.File("candidates/a.json"))
      << R"({"launches": [{"kernel": "f", "grid": [1], "block": [1], "arguments": []}]})";
  const std::vector<std::string> commands[] = {
      {"search", "row_softmax", "--target", "cuda", "--json"},
      {"evaluate", "row_softmax", "--target", "cuda", "--candidates", home.File("candidates"),
       "--json"}};
  for (const std::vector<std::string>& arguments : commands) {
    INFO(arguments.front());
    const Outcome outcome = Run(home, arguments, {{"CUDA_VISIBLE_DEVICES", ""}});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err, Catch::Contains("nothing on this machine measures cuda") &&
                                Catch::Contains("it measures cpu"));
    // No figures of a search that never ran.
    const json error = json::parse(outcome.out);
    CHECK(error["error"]["code"] == "UNAVAILABLE");
  }
  CHECK(Run(home, {"searches"}).out == "no searches\n");
}

TEST_CASE("The search's counts match the report's counts", "[e2e][slow]") {
  const Site site;
  const Outcome outcome = Run(site.home, site.Search());
  REQUIRE(outcome.exit_code == 0);
  const json result = json::parse(outcome.out);
  const Outcome listed = Run(site.home, {"searches", "--json"});
  const json counts = json::parse(listed.out)["counts"];
  const auto number = [&](const char* name) {
    return counts.contains(name) ? std::stoull(counts[name].get<std::string>()) : 0;
  };
  CHECK(result["counts"]["considered"] == number("considered"));
  CHECK(result["counts"]["decided"] == number("decided"));
  CHECK(result["counts"]["measured"] == number("measured"));
  CHECK(result["counts"]["deferred"] == number("deferred"));
  CHECK(result["counts"]["promoted"] == number("promoted"));
  CHECK(result["counts"]["audited"] == number("audited"));
}

TEST_CASE("A search continues when the orchestrator is killed during it", "[e2e]") {
  const Site site;
  Program up(site.home, site.Up());
  AwaitReady(up);
  Program search(site.home, site.Search({}, 60));
  REQUIRE(search.AwaitErr("measured"));
  const pid_t orchestrator = ServiceOf(up.pid(), "kernelcast-orchestrator");
  REQUIRE(orchestrator > 0);
  kill(orchestrator, SIGKILL);
  const Outcome outcome = search.Wait(120);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  up.Signal(SIGTERM);
  CHECK(up.Wait(60).exit_code == 0);
}

TEST_CASE("Two concurrent searches share the services of the first", "[e2e][slow]") {
  const Site site;
  Program first(site.home, site.Search());
  Program second(site.home, site.Search({"--seed", "2"}));
  const Outcome one = first.Wait(120);
  const Outcome two = second.Wait(120);
  INFO(one.err << two.err);
  CHECK(one.exit_code == 0);
  CHECK(two.exit_code == 0);
  const Outcome list = Run(site.home, {"searches"});
  CHECK(std::count(list.out.begin(), list.out.end(), '\n') == 3);
}

TEST_CASE("A request lost with stopped services is sent to their replacements", "[e2e][slow]") {
  const Site site;
  Program first(site.home, site.Up());
  AwaitReady(first);
  std::unique_ptr<Program> second;
  const cli::Interrupt interrupt;
  cli::Console console;
  cli::Context context{console, interrupt, {}, ProgramFolder(), nullptr};
  cli::ConnectionFlags flags;
  flags.state_dir = site.home.File("state/kernelcast");
  cli::Connection connection(context, flags, cli::Needs::kOrchestrator);
  int asked = 0;
  const absl::Status status =
      connection.AskOrchestrator([&](v1::Orchestrator::Stub& stub) -> absl::Status {
        if (++asked == 1) {
          first.Signal(SIGTERM);
          CHECK(first.Wait(60).exit_code == 0);
          second = std::make_unique<Program>(site.home, site.Up());
          AwaitReady(*second);
        }
        // Like the streams that read a search: without waiting for a connection.
        grpc::ClientContext call;
        v1::ListSearchesReply reply;
        return FromGrpc(stub.ListSearches(&call, {}, &reply));
      });
  INFO(status);
  CHECK(status.ok());
  CHECK(asked == 2);
  CHECK_FALSE(connection.owns_services());

  // Errors of the call itself are not retried.
  asked = 0;
  CHECK(absl::IsNotFound(connection.AskOrchestrator([&](v1::Orchestrator::Stub& stub) {
    ++asked;
    grpc::ClientContext call;
    v1::GetSearchRequest request;
    request.set_search_id("s_unknown");
    v1::GetSearchReply reply;
    return FromGrpc(stub.GetSearch(&call, request, &reply));
  })));
  CHECK(asked == 1);
  second->Signal(SIGTERM);
  CHECK(second->Wait(60).exit_code == 0);
}

TEST_CASE("A port in use is reported from the orchestrator's own log", "[e2e][slow]") {
  const Site site;
  Program up(site.home, site.Up());
  AwaitReady(up);
  const std::string taken = AddressesIn(site)["orchestrator"];
  const Outcome outcome = Run(site.home, {"up", "--listen", taken, "--replay", site.records,
                                          "--state-dir", site.home.File("other")});
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(outcome.err, Catch::Contains("the orchestrator exited with code"));
  CHECK_THAT(outcome.err, Catch::Contains(taken.substr(taken.find(':') + 1)));
  up.Signal(SIGTERM);
  CHECK(up.Wait(60).exit_code == 0);
}

TEST_CASE("doctor finds everything a search needs", "[e2e]") {
  const TemporaryFolder home("doctor");
  const Outcome outcome = Run(home, {"doctor", "--json"});
  INFO(outcome.out);
  CHECK_THAT(outcome.out, !Catch::Contains("cannot measure: cannot measure"));
  CHECK_THAT(outcome.out, Catch::Contains("\"check\":\"services\",\"verdict\":\"ok\""));
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("\"check\":\"target cpu\",\"verdict\":\"ok\""));
  CHECK_THAT(outcome.out, Catch::Contains("\"check\":\"gpu driver\"") ||
                              Catch::Contains("\"check\":\"cuda\",\"verdict\":\"note\""));
}

TEST_CASE("The worker and doctor warn when a machine refuses protections", "[e2e][slow]") {
  const TemporaryFolder home("refused");
  const auto doctor = [&](const std::string& refused) {
    ChildOptions options;
    options.argv = {ProgramFolder() + "/refuse-calls",
                    refused,
                    ProgramFolder() + "/kernelcast",
                    "doctor",
                    "--json",
                    "--state-dir",
                    home.File(refused)};
    options.environment = {std::string("PATH=") + std::getenv("PATH"),
                           "HOME=" + home.path().string()};
    const auto child = ChildProcess::Spawn(options);
    REQUIRE(child.ok());
    const ChildExit exit = (*child)->Wait(int64_t{120} * 1'000'000'000);
    INFO(exit.output);
    REQUIRE(exit.exited);
    std::vector<std::string> missing;
    std::ifstream log(home.File(refused) + "/log/worker.log");
    for (std::string line; std::getline(log, line);) {
      const json entry = json::parse(line, nullptr, false);
      if (!entry.is_object() || !entry.contains("protection")) continue;
      CHECK(entry["level"] == "warning");
      if (entry["target"] == "cpu") missing.push_back(entry["protection"]);
    }
    std::sort(missing.begin(), missing.end());
    return std::pair(missing, exit.output);
  };
  // Refuses a call that nothing makes, as a baseline of this machine's own refusals.
  const auto [granted, all_well] = doctor("swapon");
  for (const auto& [call, protection] : {std::pair{"unshare", "namespaces"},
                                         {"landlock_create_ruleset", "landlock"},
                                         {"seccomp", "seccomp"},
                                         {"setresuid", "unprivileged_user"}}) {
    if (geteuid() != 0 && std::string(call) == "setresuid") continue;
    INFO(call);
    const auto [missing, printed] = doctor(call);
    std::set<std::string> expected(granted.begin(), granted.end());
    expected.insert(protection);
    CHECK(missing == std::vector<std::string>(expected.begin(), expected.end()));
    CHECK_THAT(printed, Catch::Contains(absl::StrCat("runner ", protection)));
    // Landlock and namespaces replace each other.
    const bool suffices = expected == std::set<std::string>{"landlock"} ||
                          expected == std::set<std::string>{"namespaces"};
    CHECK_THAT(printed, Catch::Contains(suffices ? "still contain a candidate"
                                                 : "do not run candidates that you do not trust"));
  }
}

TEST_CASE("Records become rows with the same scores, and balanced training pools", "[e2e][slow]") {
  Site site;
  const TemporaryFolder& home = site.home;
  const std::map<std::string, std::string> environment = {
      {"KERNELCAST_PROBLEMS", home.File("problems")}};
  const Outcome searched = Run(home, site.Search({"--search-id", "s1"}), environment);
  INFO(searched.err);
  REQUIRE((searched.exit_code == 0 || searched.exit_code == 1));
  REQUIRE(
      Run(home, {"export", "s1", "--sources", "-o", home.File("r.jsonl")}, environment).exit_code ==
      0);
  const auto rows = [&](const std::string& format, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"export", "--records", home.File("r.jsonl"), "--format",
                                          format,   "-o",        home.File(format)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Run(home, arguments, environment);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return home.File(format);
  };
  // Sources are restored to records without them.
  REQUIRE(Run(home, {"export", "s1", "-o", home.File("bare.jsonl")}, environment).exit_code == 0);
  CHECK_THAT(ReadFile(home.File("bare.jsonl")).value(), !Catch::Contains("\"source\":"));
  const Outcome filled = Run(home,
                             {"export", "--records", home.File("bare.jsonl"), "--sources", "-o",
                              home.File("filled.jsonl"), "--json"},
                             environment);
  INFO(filled.err);
  REQUIRE(filled.exit_code == 0);
  CHECK(json::parse(filled.out)["without_source"] == 0);
  CHECK(ReadFile(home.File("filled.jsonl")).value() == ReadFile(home.File("r.jsonl")).value());

  const Outcome direct = Run(home, {"eval", home.File("r.jsonl"), "--json"});
  const Outcome through_rows =
      Run(home, {"eval", rows("evaluation-rows"), rows("prediction-rows"), "--json"});
  INFO(through_rows.err);
  REQUIRE(direct.exit_code == 0);
  REQUIRE(through_rows.exit_code == 0);
  const json a = json::parse(direct.out);
  // The line after the evaluation tells what the answers took.
  const json b = json::parse(through_rows.out.substr(0, through_rows.out.find('\n')));
  CHECK(a["items"] == b["items"]);
  for (const char* metric : {"accuracy", "crps", "spearman", "negative_log_likelihood"}) {
    CAPTURE(metric);
    CHECK(a[metric]["value"].get<double>() ==
          Approx(b[metric]["value"].get<double>()).epsilon(1e-9));
  }

  REQUIRE(Run(home, {"export", "s1", "--format", "search-events", "-o", home.File("events.jsonl")},
              environment)
              .exit_code == 0);
  const Outcome events = Run(home, {"eval", home.File("events.jsonl"), "--json"});
  INFO(events.err);
  REQUIRE(events.exit_code == 0);
  // Candidates with several forecasts were decided on the last one, as in the records.
  CHECK(json::parse(events.out)["items"] == a["items"]);
  CHECK(json::parse(events.out)["accuracy"]["value"].get<double>() ==
        Approx(a["accuracy"]["value"].get<double>()).epsilon(1e-9));
  CHECK_THAT(events.err, Catch::Contains("candidate_deferred"));

  std::map<int, int> bins;
  std::ifstream pool(rows("rl", {"--pairs", "300", "--per-bin", "4"}));
  int count = 0;
  for (std::string line; std::getline(pool, line); ++count) {
    const json row = json::parse(line);
    ++bins[row["relative_bin"].get<int>()];
    CHECK(row["bin_scheme_id"] == "sqrt2/1");
    CHECK_THAT(row["prompt_version"].get<std::string>(), Catch::StartsWith("speedup-bins/2@"));
    CHECK(row["speedup_low"] <= row["aggregated_speedup"]);
    CHECK_FALSE(row["candidate_code"].get<std::string>().empty());
    CHECK(row["provenance"]["candidate"]["search_id"] == "s1");
  }
  CHECK(count >= 8);
  for (const auto& [bin, of_bin] : bins) CHECK(of_bin <= 4);
}

TEST_CASE("Training is reproducible and reports when there is nothing to learn from",
          "[e2e][slow]") {
  const TemporaryFolder home("train");
  fs::create_directories(home.File("spaces"));
  fs::create_directories(home.File("empty"));
  const std::string measured =
      std::string(KERNELCAST_SOURCE_DIR) + "/data/measured/amd-epyc/spaces/";
  for (const char* problem : {"row_softmax", "rmsnorm", "column_sum", "gather"}) {
    fs::copy(measured + problem + ".jsonl.gz", home.File("spaces"));
  }
  const auto train = [&](const std::string& folder, const std::string& output) {
    return Run(
        home, {"train", home.File(folder), "--problems",
               std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems", "-o", home.File(output)});
  };
  const Outcome first = train("spaces", "a.json");
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  CHECK_THAT(first.out, Catch::Contains("measurements of 4 problems and targets"));
  REQUIRE(train("spaces", "b.json").exit_code == 0);
  const auto text = [&](const std::string& name) { return ReadFile(home.File(name)).value(); };
  CHECK(text("a.json").size() > 1000);
  CHECK(text("a.json") == text("b.json"));
  const auto search = [&](const std::string& prior) {
    const std::string state = home.File("state of " + fs::path(prior).filename().string());
    const Outcome outcome =
        Run(home,
            {"search", std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems/row_softmax",
             "--target", "cpu", "--replay", measured + "row_softmax.jsonl.gz", "--state-dir", state,
             "--search-id", "s", "--budget-measurements", "2", "--no-report", "--prior", prior});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code <= 1);
    return Run(home, {"export", "s", "--state-dir", state}).out;
  };
  CHECK_THAT(search(home.File("a.json")), Catch::Contains("+prior/"));
  const std::string without = search("none");
  CHECK_THAT(without, Catch::Contains("embedded/") && !Catch::Contains("prior/"));
  const Outcome none = train("empty", "c.json");
  CHECK(none.exit_code != 0);
  CHECK_THAT(none.err, Catch::Contains("no records to learn from"));
  CHECK_FALSE(fs::exists(home.File("c.json")));
}

}  // namespace
}  // namespace kernelcast::testing::cli_services_test
