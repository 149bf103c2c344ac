#include "common/config/service_flags.h"

#include <yaml-cpp/yaml.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/rpc/accept_guard.h"

namespace kernelcast {
namespace {

constexpr int kBadUsage = 2;

// The program's name without its folder; known once the command line is parsed.
std::string ProgramName(const CLI::App& app) {
  return std::filesystem::path(app.get_name()).filename().string();
}

// Lets a duration be set in seconds.
void AddSecondsOption(CLI::App& app, const std::string& name, absl::Duration& duration,
                      const std::string& help) {
  app.add_option_function<double>(
         name, [&duration](double seconds) { duration = absl::Seconds(seconds); }, help)
      ->check(CLI::Range(1.0, 86400.0))
      ->default_str(absl::StrCat(absl::ToInt64Seconds(duration)));
}

// The flags of a program as a flat YAML mapping: name without dashes to a value or a list of
// values.
class YamlConfig final : public CLI::Config {
 public:
  explicit YamlConfig(const CLI::App* app) : app_(app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    YAML::Node root;
    try {
      root = YAML::Load(input);
    } catch (const YAML::Exception& error) {
      throw Error(error.mark, error.msg);
    }
    std::vector<CLI::ConfigItem> flags;
    if (root.IsNull()) return flags;
    if (!root.IsMap()) throw Error(root.Mark(), "a mapping of flag names to values is wanted");
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const YAML::Mark mark = entry.first.Mark();
      if (!entry.first.IsScalar()) throw Error(mark, "a flag's name is wanted");
      CLI::ConfigItem item;
      item.name = entry.first.Scalar();
      if (item.name == "config" || item.name == "help" || item.name == "version" ||
          app_->get_option_no_throw("--" + item.name) == nullptr) {
        throw Error(mark, absl::StrCat("'", item.name, "' is not a flag; --help lists them"));
      }
      if (!seen.insert(item.name).second) {
        throw Error(mark, absl::StrCat("'", item.name, "' is given twice"));
      }
      if (entry.second.IsScalar()) {
        item.inputs.push_back(entry.second.Scalar());
      } else if (entry.second.IsSequence()) {
        for (const auto& value : entry.second) {
          if (!value.IsScalar()) {
            throw Error(value.Mark(), absl::StrCat("'", item.name, "' wants plain values"));
          }
          item.inputs.push_back(value.Scalar());
        }
      } else {
        throw Error(mark, absl::StrCat("'", item.name, "' wants a value or a list of values"));
      }
      flags.push_back(std::move(item));
    }
    return flags;
  }

 private:
  CLI::ConfigError Error(const YAML::Mark& mark, const std::string& what) const {
    const std::string file = app_->get_config_ptr()->as<std::string>();
    return CLI::ConfigError(absl::StrCat(file, ":", mark.line + 1, ": ", what),
                            CLI::ExitCodes::ConfigError);
  }

  const CLI::App* const app_;
};

}  // namespace

void AddServiceFlags(CLI::App& app, ServiceFlags& flags) {
  app.set_version_flag("--version", [&app] {
    return absl::StrCat(ProgramName(app), " ", std::string(Version()), " (",
                        std::string(Revision()), ")");
  });
  app.config_formatter(std::make_shared<YamlConfig>(&app));
  app.set_config("--config", "", "YAML file of flags, names without dashes; the command line wins");
  app.add_option("--listen", flags.server.listen_address,
                 "Address to serve gRPC on, host:port (port 0: any) or unix:PATH")
      ->capture_default_str();
  app.add_option("--metrics", flags.metrics_address,
                 "Address to serve Prometheus metrics on, host:port; empty: nowhere")
      ->capture_default_str();
  app.add_option("--health-listen", flags.server.health_address,
                 "Address to serve gRPC health alone on, without TLS and tokens, for probes that "
                 "speak neither; host:port or unix:PATH");
  app.add_option("--tls-certificate-file", flags.server.tls.certificate_file,
                 "PEM certificate chain; turns on TLS");
  app.add_option("--tls-key-file", flags.server.tls.key_file, "PEM key of the certificate");
  app.add_option("--tls-client-ca-file", flags.server.tls.ca_file,
                 "PEM authority that clients' certificates are checked against; turns on mTLS");
  app.add_option("--auth-tokens-file", flags.server.token_file,
                 "YAML file of the tokens that callers must hold, as hashes, and of their roles; "
                 "docs/security.md describes it");
  app.add_option("--max-message-bytes", flags.server.max_message_bytes,
                 "Largest gRPC message taken or sent")
      ->capture_default_str()
      ->check(CLI::Range(1 << 20, 1 << 30));
  AddSecondsOption(app, "--max-connection-age-seconds", flags.server.max_connection_age,
                   "Age at which a connection is closed, so that clients find new servers");
  AddSecondsOption(app, "--max-connection-age-grace-seconds", flags.server.max_connection_age_grace,
                   "How long its calls may go on after that; longer than the longest call");
  app.add_option("--otlp-endpoint", flags.tracing.endpoint,
                 "URL of an OpenTelemetry collector that spans are sent to over OTLP/HTTP, such as "
                 "http://HOST:4318; empty: nothing is traced, and what callers trace is passed on");
  app.add_option("--trace-ratio", flags.tracing.ratio,
                 "Share of the calls without a trace that begin one; where a caller traces, its "
                 "word counts")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->check([](const std::string& level) {
        const auto parsed = ParseLogLevel(level);
        return parsed.ok() ? std::string() : std::string(parsed.status().message());
      });
  app.add_option("--drain-seconds", flags.drain_seconds,
                 "How long calls in flight may go on after SIGTERM")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0));
  app.add_option("--ready-file", flags.ready_file,
                 "Written, as JSON, with the bound addresses once the service serves");
}

int ParseServiceFlags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadUsage;
  }
  const auto level = ParseLogLevel(app.get_option("--log-level")->as<std::string>());
  if (level.ok()) SetLogLevel(*level);
  return -1;
}

int RunService(int (*run)(int argc, char** argv), int argc, char** argv) {
  RaiseDescriptorLimit();
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    Log(LogLevel::kError, "internal error", {{"error", std::string(e.what())}});
    return 1;
  }
}

absl::Status WriteReadyFile(const ServiceFlags& flags, const ServedAddresses& served) {
  if (flags.ready_file.empty()) return absl::OkStatus();
  nlohmann::json ready = {{"grpc", served.grpc}};
  if (!served.health.empty()) ready["health"] = served.health;
  if (!flags.metrics_address.empty()) {
    const std::string host = flags.metrics_address.substr(0, flags.metrics_address.rfind(':'));
    ready["metrics"] =
        absl::StrCat(host == "0.0.0.0" ? "127.0.0.1" : host, ":", served.metrics_port);
  }
  if (!served.status.empty()) ready["status"] = served.status;
  const std::string temporary = flags.ready_file + ".part";
  {
    std::ofstream out(temporary);
    out << ready.dump() << "\n";
    if (!out.flush()) {
      return absl::UnavailableError(
          absl::StrCat("--ready-file: ", temporary, " cannot be written"));
    }
  }
  std::error_code error;
  std::filesystem::rename(temporary, flags.ready_file, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("--ready-file: ", flags.ready_file, ": ", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace kernelcast
