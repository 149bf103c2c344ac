// A search whose endpoint is killed and restarted on the same port, with separate processes, and
// the forecaster's metrics during it.

#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process/child_process.h"
#include "tests/e2e/program.h"
#include "tests/support/eventually.h"
#include "tests/support/metrics_page.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"

namespace kernelcast::testing::llm_outage_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kLimit = std::chrono::seconds(60);

void Require(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

// fake-llm-endpoint as a process.
class EndpointProcess {
 public:
  // Uses port 0 the first time, then the same port.
  void Start() {
    ChildOptions options;
    options.argv = {ProgramFolder() + "/fake-llm-endpoint", "--port", std::to_string(port_),
                    "--latency-ms", "20"};
    for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {
      if (const char* value = std::getenv(name)) {
        options.environment.push_back(absl::StrCat(name, "=", value));
      }
    }
    child_ = ChildProcess::Spawn(options).value();
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (child_->output().find('\n') == std::string::npos) {
      REQUIRE_FALSE(child_->Poll());
      REQUIRE(std::chrono::steady_clock::now() < limit);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // its output cannot be waited on
    }
    const std::string& output = child_->output();
    const size_t digits = output.rfind(':') + 1;
    port_ = std::stoi(output.substr(digits));
  }
  void Kill() { child_.reset(); }
  int port() const { return port_; }

 private:
  int port_ = 0;
  std::unique_ptr<ChildProcess> child_;
};

struct Cluster {
  explicit Cluster(const std::string& backend)
      : home("outage"), recorded(MakeRecordedProblem(48, 32)) {
    problem = home.File("problems/" + recorded.problem.name);
    for (const ProblemFile& file : recorded.files) {
      const fs::path path = fs::path(problem) / file.path;
      fs::create_directories(path.parent_path());
      std::ofstream(path, std::ios::binary) << file.content;
    }
    WriteRecords(recorded, home.File("records.jsonl"));
    endpoint.Start();
    std::ofstream(home.File("llm.yaml"))
        << "endpoints:\n  - {name: here, url: 'http://127.0.0.1:" << endpoint.port()
        << "/v1', model: fake}\n"
        << "breaker: {consecutive_failures: 3, open_ms: 50, open_cap_ms: 200}\n"
        << "retry: {backoff_base_ms: 10, backoff_cap_ms: 50}\n";
    // Measurements take 50 ms each, so that the search is still running when the endpoint returns.
    worker = std::make_unique<Service>(
        "kernelcast-worker",
        std::vector<std::string>{"--replay", home.File("records.jsonl"), "--replay-pace", "0.1",
                                 "--cache-dir", home.File("cache")},
        home);
    Require(worker->Start());
    forecaster = std::make_unique<Service>(
        "kernelcast-forecaster",
        std::vector<std::string>{"--state-dir", home.File("forecaster"), "--backend", backend,
                                 "--llm-config", home.File("llm.yaml")},
        home);
    Require(forecaster->Start());
    orchestrator = std::make_unique<Service>(
        "kernelcast-orchestrator",
        std::vector<std::string>{"--state-dir", home.File("orchestrator"), "--worker",
                                 worker->address(), "--forecaster", forecaster->address(),
                                 "--confirm", "2"},
        home);
    Require(orchestrator->Start());
  }

  static MetricsPage PageOf(const Service& service) {
    auto page = MetricsPage::Fetch(service.metrics_port());
    INFO(page.status().ToString());
    REQUIRE(page.ok());
    return *std::move(page);
  }
  MetricsPage Forecaster() const { return PageOf(*forecaster); }
  double Decisions() const {
    return PageOf(*orchestrator).Sum("kernelcast_orchestrator_decisions_total");
  }

  TemporaryFolder home;
  RecordedProblem recorded;
  std::string problem;
  EndpointProcess endpoint;
  std::unique_ptr<Service> worker;
  std::unique_ptr<Service> forecaster;
  std::unique_ptr<Service> orchestrator;
};

std::string Llm(const std::string& name, const std::string& labels) {
  return absl::StrCat("kernelcast_forecaster_llm_", name, "{endpoint=\"here\"",
                      labels.empty() ? "" : ",", labels, "}");
}

TEST_CASE("A search continues through an endpoint outage, and metrics show it",
          "[e2e][llm][slow]") {
  const std::string backend = GENERATE("pool", "llm");
  CAPTURE(backend);
  Cluster cluster(backend);
  // The results of questions during the outage.
  const std::string unanswered =
      backend == "pool" ? R"(kernelcast_forecaster_pool_questions_total{result="unanswered"})"
                        : R"(kernelcast_forecaster_llm_questions_total{result="unavailable"})";
  const std::string answered = Llm("attempts_total", "result=\"ok\"");

  Program search(cluster.home,
                 {"search", cluster.problem, "--json", "--orchestrator",
                  cluster.orchestrator->address(), "--search-id", "s", "--seed", "3", "--no-report",
                  "--budget-measurements", "1000", "--in-flight", "8"});
  REQUIRE(Eventually([&] { return cluster.Forecaster().Value(answered) >= 5; }));
  MetricsPage page = cluster.Forecaster();
  CHECK(page.Value(Llm("breaker_state", "")) == 0);
  CHECK(page.Value(unanswered) == 0);

  cluster.endpoint.Kill();
  REQUIRE(Eventually([&] {
    page = cluster.Forecaster();
    return page.Value(Llm("breaker_changes_total", "state=\"open\"")) >= 1 &&
           page.Value(unanswered) >= 3;
  }));
  CHECK(page.Value(Llm("attempts_total", "result=\"unreachable\"")) +
            page.Value(Llm("attempts_total", "result=\"cut_off\"")) >=
        3);
  CHECK(page.Value(Llm("breaker_state", "")) != 0);
  CHECK(page.Value(Llm("breaker_changes_total", "state=\"closed\"")) == 0);
  const double answered_before = page.Value(answered);
  const double decided_before = cluster.Decisions();
  // Candidates are still decided.
  CHECK(Eventually([&] { return cluster.Decisions() >= decided_before + 10; }));
  CHECK(cluster.Forecaster().Value(answered) == answered_before);
  REQUIRE(Alive(search.pid()));

  cluster.endpoint.Start();
  CHECK(Eventually([&] {
    page = cluster.Forecaster();
    return page.Value(Llm("breaker_changes_total", "state=\"closed\"")) >= 1 &&
           page.Value(answered) >= answered_before + 5;
  }));
  CHECK(page.Value(Llm("breaker_state", "")) == 0);
  CHECK(page.Value(Llm("breaker_changes_total", "state=\"half_open\"")) >= 1);

  search.Signal(SIGINT);
  const Outcome outcome = search.Wait(120);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 4);
  // The command has ended, the search settles what was in flight.
  const Outcome watched = Run(cluster.home, {"watch", "s", "--json", "--no-report",
                                             "--orchestrator", cluster.orchestrator->address()});
  INFO(watched.err);
  const json result = json::parse(watched.out);
  CHECK(result["status"] == "done");
  CHECK(result["counts"]["measured"].get<int>() > 0);
  // Nothing remains under way.
  CHECK(Eventually([&] {
    page = cluster.Forecaster();
    return page.Value("kernelcast_forecaster_llm_pending_calls") == 0 &&
           page.Value(Llm("in_flight", "")) == 0;
  }));
  CHECK(page.Sum("kernelcast_forecaster_llm_calls_total") > 0);
}

TEST_CASE("A forecaster with an endpoint exposes the metrics that docs/reference/metrics.md lists",
          "[e2e][llm]") {
  const Cluster cluster("pool");
  std::ifstream document(SourcePath("docs/reference/metrics.md"));
  std::string listed;
  size_t names = 0;
  const MetricsPage page = cluster.Forecaster();
  for (std::string line; std::getline(document, line);) {
    listed += line + "\n";
    if (line.rfind("| `kernelcast_forecaster_", 0) != 0) continue;
    const std::string name = line.substr(3, line.find('`', 3) - 3);
    INFO(name);
    ++names;
    // Device models are known from labels.
    if (line.find("from the first label") != std::string::npos) continue;
    const auto at = page.series().lower_bound(name);
    CHECK((at != page.series().end() && at->first.rfind(name, 0) == 0));
  }
  CHECK(names > 20);
  for (const auto& [series, value] : page.series()) {
    if (series.rfind("kernelcast_", 0) != 0) continue;
    std::string name = series.substr(0, series.find('{'));
    for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
      if (listed.find("`" + name + "`") != std::string::npos) break;
      if (name.size() > suffix.size() &&
          name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
        name.resize(name.size() - suffix.size());
      }
    }
    INFO(series);
    CHECK(listed.find("`" + name + "`") != std::string::npos);
  }
}

}  // namespace
}  // namespace kernelcast::testing::llm_outage_test
