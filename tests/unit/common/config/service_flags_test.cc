#include "common/config/service_flags.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/log.h"
#include "common/base/version.h"

namespace kernelcast {
namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Folder {
 public:
  Folder() {
    char pattern[] = "/tmp/kernelcast_test_XXXXXX";
    REQUIRE(mkdtemp(pattern) != nullptr);
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name)) << content;
    return Path(name);
  }

 private:
  std::string path_;
};

struct Parsed {
  int code = 0;
  ServiceFlags flags;
  std::vector<std::string> forecasters;
  bool verbose = false;
  int workers = 1;
  std::string out;
  std::string err;
};

Parsed Parse(std::vector<std::string> arguments, const std::string& name = "kernelcast-test") {
  Parsed parsed;
  CLI::App app("A service for tests.", name);
  AddServiceFlags(app, parsed.flags);
  app.add_option("--forecaster", parsed.forecasters, "Addresses.");
  app.add_option("--workers", parsed.workers, "A number.")->check(CLI::PositiveNumber);
  app.add_flag("--verbose", parsed.verbose, "A switch.");
  arguments.insert(arguments.begin(), "/usr/bin/kernelcast-test");
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  std::ostringstream out;
  std::ostringstream err;
  std::streambuf* const old_out = std::cout.rdbuf(out.rdbuf());
  std::streambuf* const old_err = std::cerr.rdbuf(err.rdbuf());
  parsed.code = ParseServiceFlags(app, static_cast<int>(argv.size()), argv.data());
  std::cout.rdbuf(old_out);
  std::cerr.rdbuf(old_err);
  SetLogLevel(LogLevel::kInfo);
  parsed.out = out.str();
  parsed.err = err.str();
  return parsed;
}

}  // namespace

TEST_CASE("Without flags the defaults apply", "[config]") {
  const Parsed parsed = Parse({});
  CHECK(parsed.code == -1);
  CHECK(parsed.flags.server.listen_address == "127.0.0.1:0");
  CHECK(parsed.flags.server.max_connection_age == absl::Minutes(5));
  CHECK(parsed.flags.log_level == "info");
}

TEST_CASE("Flags are read from the command line", "[config]") {
  const Parsed parsed = Parse({"--listen",
                               "0.0.0.0:50051",
                               "--metrics",
                               "",
                               "--tls-certificate-file",
                               "c",
                               "--tls-key-file",
                               "k",
                               "--tls-client-ca-file",
                               "a",
                               "--auth-tokens-file",
                               "t",
                               "--health-listen",
                               "127.0.0.1:2",
                               "--max-message-bytes",
                               "1048576",
                               "--max-connection-age-seconds",
                               "90",
                               "--max-connection-age-grace-seconds",
                               "600.5",
                               "--log-level",
                               "warning",
                               "--drain-seconds",
                               "2.5",
                               "--ready-file",
                               "r",
                               "--forecaster",
                               "x",
                               "--forecaster",
                               "y"});
  CHECK(parsed.code == -1);
  CHECK(parsed.flags.server.listen_address == "0.0.0.0:50051");
  CHECK(parsed.flags.metrics_address.empty());
  CHECK(parsed.flags.server.tls.certificate_file == "c");
  CHECK(parsed.flags.server.tls.key_file == "k");
  CHECK(parsed.flags.server.tls.ca_file == "a");
  CHECK(parsed.flags.server.token_file == "t");
  CHECK(parsed.flags.server.health_address == "127.0.0.1:2");
  CHECK(parsed.flags.server.max_message_bytes == 1 << 20);
  CHECK(parsed.flags.server.max_connection_age == absl::Seconds(90));
  CHECK(parsed.flags.server.max_connection_age_grace == absl::Milliseconds(600'500));
  CHECK(parsed.flags.log_level == "warning");
  CHECK(parsed.flags.drain_seconds == 2.5);
  CHECK(parsed.flags.ready_file == "r");
  CHECK(parsed.forecasters == std::vector<std::string>{"x", "y"});
}

TEST_CASE("Flags are read from a YAML file and overridden by the command line", "[config]") {
  const Folder folder;
  const std::string file = folder.Write("service.yaml", R"(
# A comment.
listen: "127.0.0.1:1"
metrics: ""
drain-seconds: 7
max-connection-age-seconds: 60
workers: 3
verbose: true
forecaster: [a:1, "b:2"]
)");
  const Parsed parsed = Parse({"--listen", "127.0.0.1:2", "--config", file});
  INFO(parsed.err);
  CHECK(parsed.code == -1);
  CHECK(parsed.flags.server.listen_address == "127.0.0.1:2");
  CHECK(parsed.flags.metrics_address.empty());
  CHECK(parsed.flags.drain_seconds == 7);
  CHECK(parsed.flags.server.max_connection_age == absl::Minutes(1));
  CHECK(parsed.workers == 3);
  CHECK(parsed.verbose);
  CHECK(parsed.forecasters == std::vector<std::string>{"a:1", "b:2"});
  CHECK(Parse({"--config", file, "--forecaster", "c:3"}).forecasters ==
        std::vector<std::string>{"c:3"});
  CHECK(Parse({"--config", folder.Write("empty.yaml", "")}).code == -1);
}

TEST_CASE("Configuration file errors are reported with file and line", "[config]") {
  const Folder folder;
  for (const auto& [content, line, what] :
       {std::tuple{"listen: 127.0.0.1:0\nlisteen: x\n", ":2: ", "'listeen'"},
        {"a: [b\n", ":2: ", ""},
        {"- listen\n", ":1: ", "mapping"},
        {"\n\nlisten: {a: b}\n", ":3: ", "'listen'"},
        {"listen: a:1\nlisten: b:2\n", ":2: ", "'listen' is given twice"},
        {"config: other.yaml\n", ":1: ", "'config'"},
        {"version: true\n", ":1: ", "'version'"},
        {"listen:\n", ":1: ", "'listen'"}}) {
    const std::string file = folder.Write("bad.yaml", content);
    const Parsed parsed = Parse({"--config", file});
    INFO(content << parsed.err);
    CHECK(parsed.code == 2);
    CHECK(Contains(parsed.err, file + line));
    CHECK(Contains(parsed.err, what));
  }
  const Parsed bad_value = Parse({"--config", folder.Write("v.yaml", "workers: none\n")});
  CHECK(bad_value.code == 2);
  CHECK(Contains(bad_value.err, "workers"));
}

TEST_CASE("A missing configuration file is an error", "[config]") {
  const Parsed parsed = Parse({"--config", "/no/such/file.yaml"});
  CHECK(parsed.code == 2);
  CHECK(Contains(parsed.err, "/no/such/file.yaml"));
}

TEST_CASE("Bad flags end with usage errors", "[config]") {
  CHECK(Parse({"--no-such-flag"}).code == 2);
  for (const char* seconds : {"-1", "nan", "inf", "1e999"}) {
    CHECK(Parse({"--drain-seconds", seconds}).code == 2);
    const Folder folder;
    const std::string file =
        folder.Write("service.yaml", std::string("drain-seconds: ") + seconds + "\n");
    const Parsed configured = Parse({"--config", file});
    CHECK(configured.code == 2);
    CHECK(Contains(configured.err, seconds));
  }
  CHECK(Parse({"--max-connection-age-seconds", "0"}).code == 2);
  const Parsed level = Parse({"--log-level", "loud"});
  CHECK(level.code == 2);
  CHECK(Contains(level.err, "debug, info, warning, error"));
}

TEST_CASE("Version and help exit successfully", "[config]") {
  const Parsed version = Parse({"--version"});
  CHECK(version.code == 0);
  const std::string expected =
      "kernelcast-test " + std::string(Version()) + " (" + std::string(Revision()) + ")\n";
  CHECK(version.out == expected);
  CHECK(Parse({"--version"}, /*name=*/"").out == expected);  // from argv[0]
  const Parsed help = Parse({"--help"});
  CHECK(help.code == 0);
  CHECK(Contains(help.out, "--drain-seconds"));
  CHECK(Contains(help.out, "--max-connection-age-seconds"));
}

TEST_CASE("The ready file lists the bound addresses and appears atomically", "[config]") {
  const Folder folder;
  ServiceFlags flags;
  CHECK(WriteReadyFile(flags, {"127.0.0.1:1", 2, "", ""}).ok());  // nothing requested
  flags.ready_file = folder.Path("ready.json");
  flags.metrics_address = "0.0.0.0:0";
  REQUIRE(WriteReadyFile(flags, {"127.0.0.1:50051", 9090, "127.0.0.1:2", ""}).ok());
  std::ifstream file(flags.ready_file);
  CHECK(nlohmann::json::parse(file) == nlohmann::json({{"grpc", "127.0.0.1:50051"},
                                                       {"metrics", "127.0.0.1:9090"},
                                                       {"health", "127.0.0.1:2"}}));
  flags.metrics_address = "";
  REQUIRE(WriteReadyFile(flags, {"unix:/s", 0, "", "127.0.0.1:80"}).ok());
  std::ifstream with_status(flags.ready_file);
  CHECK(nlohmann::json::parse(with_status) ==
        nlohmann::json({{"grpc", "unix:/s"}, {"status", "127.0.0.1:80"}}));
  REQUIRE(WriteReadyFile(flags, {"unix:/s", 0, "", ""}).ok());
  std::ifstream again(flags.ready_file);
  CHECK(nlohmann::json::parse(again) == nlohmann::json({{"grpc", "unix:/s"}}));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.Path("")), {}) == 1);

  flags.ready_file = "/no/such/folder/ready.json";
  const absl::Status status = WriteReadyFile(flags, {"a", 1, "", ""});
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(Contains(std::string(status.message()), flags.ready_file));
}

}  // namespace kernelcast
