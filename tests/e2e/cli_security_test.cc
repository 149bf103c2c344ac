// Tests the real services with mutual TLS and tokens, and the program as their client.

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "tests/e2e/program.h"
#include "tests/support/metrics_page.h"
#include "tests/support/recorded_problem.h"
#include "tests/unit/common/rpc/test_certificates.h"

namespace kernelcast::testing::cli_security_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A home with certificates, tokens and a problem with recorded measurements.
struct Site {
  Site() : home("security"), recorded(MakeRecordedProblem(6, 4)) {
    problem = home.File("problems/" + recorded.problem.name);
    for (const ProblemFile& file : recorded.files) {
      const fs::path path = fs::path(problem) / file.path;
      fs::create_directories(path.parent_path());
      std::ofstream(path, std::ios::binary) << file.content;
    }
    WriteRecords(recorded, home.File("records.jsonl"));
    const PemPair authority = MakeAuthority("authority");
    const PemPair stranger = MakeAuthority("stranger");
    Write("ca.crt", authority.certificate);
    for (const std::string name : {"worker", "forecaster", "orchestrator", "client"}) {
      WritePair(name, MakeCertificate(authority, name));
    }
    WritePair("stranger", MakeCertificate(stranger, "stranger"));
    Write("worker.yaml", "tokens:\n" + Token("orchestrator", {"submit", "measure"}));
    fs::copy(home.File("worker.yaml"), home.File("forecaster.yaml"));
    Write("orchestrator.yaml",
          "tokens:\n" + Token("alice", {"submit"}) + Token("operator", {"admin"}));
    Token("mallory", {"submit", "measure", "admin"});  // in no file
  }

  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(home.File(name)) << content;
  }
  void WritePair(const std::string& name, const PemPair& pair) const {
    Write(name + ".crt", pair.certificate);
    Write(name + ".key", pair.key);
  }
  // Creates a token with the program. Returns the entry that it prints.
  std::string Token(const std::string& name, const std::vector<std::string>& roles) const {
    std::vector<std::string> arguments = {"token", name, "-o", home.File(name + ".token")};
    for (const std::string& role : roles) {
      arguments.insert(arguments.end(), {"--role", role});
    }
    const Outcome made = Run(home, arguments);
    INFO(made.err);
    REQUIRE(made.exit_code == 0);
    return made.out;
  }
  // Service flags to present `name`'s certificate and require others'.
  std::vector<std::string> Server(const std::string& name,
                                  const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"--tls-certificate-file", home.File(name + ".crt"),
                                          "--tls-key-file",         home.File(name + ".key"),
                                          "--tls-client-ca-file",   home.File("ca.crt"),
                                          "--auth-tokens-file",     home.File(name + ".yaml")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  TemporaryFolder home;
  RecordedProblem recorded;
  std::string problem;
};

TEST_CASE("A token file is readable by its owner only and never overwritten", "[e2e]") {
  const TemporaryFolder home("token");
  const std::string file = home.File("token");
  const Outcome made = Run(
      home, {"token", "alice", "--role", "submit", "--role", "admin", "--output", file, "--json"});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  const json entry = json::parse(made.out);
  CHECK(entry["name"] == "alice");
  CHECK(entry["roles"] == json({"submit", "admin"}));
  CHECK(entry["sha256"].get<std::string>().size() == 64);
  const std::string token = ReadFile(file).value();
  CHECK(token.size() == 47);
  CHECK_THAT(made.out, !Catch::Contains(token.substr(3, 20)));
  struct stat status {};
  REQUIRE(stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const Outcome again = Run(home, {"token", "alice", "--role", "submit", "--output", file});
  CHECK(again.exit_code == 2);
  CHECK(ReadFile(file).value() == token);
  CHECK(Run(home, {"token", "alice", "--role", "root", "-o", home.File("x")}).exit_code == 2);
  CHECK(Run(home, {"token", "a: b", "--role", "submit", "-o", home.File("x")}).exit_code == 2);
  CHECK_FALSE(fs::exists(home.File("x")));
}

TEST_CASE("Only clients with a certificate and a token are served", "[e2e]") {
  const Site site;
  const TemporaryFolder& home = site.home;
  Service worker("kernelcast-worker",
                 site.Server("worker", {"--replay", home.File("records.jsonl"), "--cache-dir",
                                        home.File("cache")}),
                 home);
  Service forecaster("kernelcast-forecaster",
                     site.Server("forecaster", {"--state-dir", home.File("forecaster")}), home);
  REQUIRE(worker.Start().ok());
  REQUIRE(forecaster.Start().ok());
  Service orchestrator(
      "kernelcast-orchestrator",
      site.Server(
          "orchestrator",
          {"--state-dir", home.File("orchestrator"), "--worker", worker.address(), "--forecaster",
           forecaster.address(), "--client-ca-file", home.File("ca.crt"),
           "--client-certificate-file", home.File("orchestrator.crt"), "--client-key-file",
           home.File("orchestrator.key"), "--client-token-file", home.File("orchestrator.token")}),
      home);
  const absl::Status started = orchestrator.Start();
  INFO(started.ToString());
  REQUIRE(started.ok());

  const auto run = [&](std::vector<std::string> arguments, const std::string& certificate,
                       const std::string& token) {
    arguments.insert(arguments.end(),
                     {"--orchestrator", orchestrator.address(), "--tls-ca", home.File("ca.crt")});
    if (!certificate.empty()) {
      arguments.insert(arguments.end(), {"--tls-certificate", home.File(certificate + ".crt"),
                                         "--tls-key", home.File(certificate + ".key")});
    }
    if (!token.empty()) {
      arguments.insert(arguments.end(), {"--token-file", home.File(token + ".token")});
    }
    const Outcome outcome = Run(home, arguments);
    CHECK_THAT(outcome.out + outcome.err, !Catch::Contains("kc_"));
    return outcome;
  };
  const std::vector<std::string> searches = {"searches"};
  const Outcome search =
      run({"search", site.problem, "--json", "--budget-measurements", "10"}, "client", "alice");
  INFO(search.out << search.err);
  CHECK((search.exit_code == 0 || search.exit_code == 1));
  CHECK_THAT(search.out, Catch::Contains("\"measured\""));
  CHECK(run(searches, "client", "alice").exit_code == 0);
  // The orchestrator's own token was accepted by the others.
  for (const Service* service : {&worker, &forecaster}) {
    const auto page = MetricsPage::Fetch(service->metrics_port());
    REQUIRE(page.ok());
    CHECK(page->Sum("kernelcast_auth_refused_calls_total") == 0);
    CHECK(page->Value("kernelcast_auth_tokens") == 1);
    CHECK(page->Value("kernelcast_tls_certificate_expiry_timestamp_seconds{use=\"server\"}") > 1e9);
  }
  const auto page = MetricsPage::Fetch(orchestrator.metrics_port());
  REQUIRE(page.ok());
  CHECK(page->Value("kernelcast_tls_certificate_expiry_timestamp_seconds{use=\"client\"}") > 1e9);

  const Outcome none = run(searches, "client", "");
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Catch::Contains("a token with role submit"));
  CHECK_THAT(run(searches, "client", "mallory").err, Catch::Contains("not known"));
  const Outcome denied = run(searches, "client", "operator");
  CHECK(denied.exit_code == 2);
  CHECK_THAT(denied.err, Catch::Contains("needs role submit, and the token 'operator' has admin"));

  CHECK(run(searches, "", "alice").exit_code == 3);
  CHECK(run(searches, "stranger", "alice").exit_code == 3);

  CHECK(orchestrator.Terminate() == 0);
  CHECK(forecaster.Terminate() == 0);
  CHECK(worker.Terminate() == 0);
}

}  // namespace
}  // namespace kernelcast::testing::cli_security_test
