// What an interrupt does to commands that wait for a service.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/program.h"
#include "tests/fakes/fake_orchestrator.h"

namespace kernelcast::testing::cli_interrupt_test {
namespace {

// Far above the two seconds that a command may take, for a busy machine, and far below the timeouts
// of calls.
constexpr double kEndsSeconds = 20;

// A server that accepts connections and never answers.
class SilentServer {
 public:
  SilentServer() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(fd_, 16) == 0);
    REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~SilentServer() {
    for (const int fd : connections_) close(fd);
    close(fd_);
  }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;

  const std::string& address() const { return address_; }
  // Waits until a program has connected.
  bool Accept() {
    pollfd ready = {fd_, POLLIN, 0};
    if (poll(&ready, 1, 60'000) != 1) return false;
    connections_.push_back(accept(fd_, nullptr, nullptr));
    return connections_.back() >= 0;
  }

 private:
  const int fd_;
  std::string address_;
  std::vector<int> connections_;
};

TEST_CASE("One Ctrl-C ends any command that waits for a service", "[e2e]") {
  const TemporaryFolder home("cli");
  std::filesystem::create_directories(home.path() / "candidates");
  std::ofstream(home.File("candidates/a.cc")) << "int x;\n";
  const std::string candidates = home.File("candidates");
  const std::vector<std::string> asking_orchestrator[] = {
      {"search", "row_softmax"},
      {"watch", "s"},
      {"evaluate", "row_softmax", "--candidates", candidates},
      {"searches"},
      {"best", "s"},
      {"report", "s"},
      {"export", "s"},
      {"export", "--all"},
      {"stop", "s"},
      {"lessons", "learn", "--book", home.File("book.jsonl")}};
  const std::vector<std::string> asking_worker[] = {
      {"compile", "row_softmax", "--candidates", candidates},
      {"measure", "row_softmax", "--candidates", candidates},
      {"forecast", "row_softmax", "--candidates", candidates}};
  const auto interrupt = [&](std::vector<std::string> arguments, const char* option) {
    SilentServer server;
    arguments.insert(arguments.end(), {option, server.address()});
    INFO(arguments.front());
    Program program(home, arguments);
    REQUIRE(server.Accept());
    program.Signal(SIGINT);
    const Outcome outcome = program.Wait(kEndsSeconds);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 4);
  };
  for (const std::vector<std::string>& arguments : asking_orchestrator) {
    interrupt(arguments, "--orchestrator");
  }
  for (const std::vector<std::string>& arguments : asking_worker) interrupt(arguments, "--worker");
}

std::vector<std::string> SearchArguments(const FakeOrchestrator& fake,
                                         std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"search", "row_softmax", "--orchestrator", fake.address()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_CASE("One Ctrl-C ends a search that does not stop, with a report of what it has", "[e2e]") {
  const TemporaryFolder home("cli");
  FakeOrchestrator fake;
  fake.script = MakeSearchScript(5, 1.2, 0.1);
  // Stopping has no effect: the search never ends.
  fake.script.events.pop_back();
  fake.watch_breaks = std::vector<size_t>(1000, 1000);
  fake.errors["WatchSearch"] = grpc::Status(grpc::StatusCode::UNAVAILABLE, "never");
  Program program(home, SearchArguments(fake, {"--report", home.File("r.html")}));
  REQUIRE(program.AwaitErr("connection lost"));
  program.Signal(SIGINT);
  const Outcome outcome = program.Wait(kEndsSeconds);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 4);
  CHECK(fake.stops() == 1);
  CHECK(std::filesystem::exists(home.File("r.html")));
  CHECK_THAT(outcome.err, Catch::Contains(" continues; follow it with: kernelcast watch s_") &&
                              Catch::Contains(" --orchestrator " + fake.address()));
}

TEST_CASE("SIGTERM, also twice as from timeout, leaves the search and says how to follow it",
          "[e2e]") {
  for (const int times : {1, 2}) {
    INFO(times);
    const TemporaryFolder home("cli");
    FakeOrchestrator fake;
    fake.script = MakeSearchScript(5, 1.2, 0.1);
    fake.wait_for_stop = true;
    Program program(home, SearchArguments(fake, {"--report", home.File("r.html")}));
    REQUIRE(program.AwaitErr("best 1.60x"));
    for (int i = 0; i < times; ++i) program.Signal(SIGTERM);
    const Outcome outcome = program.Wait(kEndsSeconds);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 4);
    CHECK(fake.stops() == 0);
    const std::string id = fake.started().at(0).search_id();
    CHECK_THAT(outcome.err, Catch::Contains("the search " + id +
                                            " continues; follow it with: kernelcast watch " + id +
                                            " --orchestrator " + fake.address()));
    CHECK_THAT(outcome.out, Catch::Contains("measured"));
    CHECK(std::filesystem::exists(home.File("r.html")));
  }
}

TEST_CASE("Without its orchestrator an interrupted search still says how to follow it", "[e2e]") {
  const TemporaryFolder home("cli");
  auto fake = std::make_unique<FakeOrchestrator>();
  fake->script = MakeSearchScript(5, 1.2, 0.1);
  fake->wait_for_stop = true;
  Program program(home, SearchArguments(*fake));
  REQUIRE(program.AwaitErr("best 1.60x"));
  fake.reset();
  REQUIRE(program.AwaitErr("connection lost"));
  program.Signal(SIGINT);
  const Outcome outcome = program.Wait(kEndsSeconds);
  CHECK(outcome.exit_code == 4);
  CHECK_THAT(outcome.err, Catch::Contains("kernelcast watch s_"));
}

}  // namespace
}  // namespace kernelcast::testing::cli_interrupt_test
