#include "common/config/service_flags.h"

#include <yaml-cpp/yaml.h>

#include <exception>
#include <filesystem>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/config/number_flags.h"
#include "common/rpc/listener.h"

namespace kernelcast {
namespace {

constexpr int kBadUsage = 2;

// The program's name without its folder. Set once the command line is parsed.
std::string ProgramName(const CLI::App& app) {
  return std::filesystem::path(app.get_name()).filename().string();
}

// Adds a duration flag in seconds.
void AddSecondsOption(CLI::App& app, const std::string& name, absl::Duration& duration,
                      const std::string& help) {
  app.add_option_function<double>(
         name, [&duration](double seconds) { duration = absl::Seconds(seconds); }, help)
      ->check(NumberFrom(1, 86400))
      ->default_str(absl::StrCat(absl::ToInt64Seconds(duration)));
}

// The flags of a program as a flat YAML mapping: flag name without dashes to a value or a list of
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

// --version and --config.
void AddConfigFlags(CLI::App& app) {
  app.set_version_flag("--version", [&app] {
    return absl::StrCat(ProgramName(app), " ", std::string(Version()), " (",
                        std::string(Revision()), ")");
  });
  app.config_formatter(std::make_shared<YamlConfig>(&app));
  app.set_config("--config", "",
                 "YAML file of flags, names without dashes; flags on the command line override it");
}

void AddMetricsFlag(CLI::App& app, ServiceFlags& flags) {
  app.add_option("--metrics", flags.metrics_address,
                 "Address to serve Prometheus metrics on, host:port; empty: disabled")
      ->capture_default_str();
}

void AddTokensFlag(CLI::App& app, ServiceFlags& flags) {
  app.add_option("--auth-tokens-file", flags.server.token_file,
                 "YAML file with hashes of the tokens that callers must send, and their roles; see "
                 "docs/reference/security.md");
}

void AddTlsFlags(CLI::App& app, ServiceFlags& flags) {
  app.add_option("--tls-certificate-file", flags.server.tls.certificate_file,
                 "PEM certificate chain; enables TLS");
  app.add_option("--tls-key-file", flags.server.tls.key_file, "PEM key of the certificate");
  app.add_option("--tls-client-ca-file", flags.server.tls.ca_file,
                 "PEM file of the CA that verifies client certificates; enables mTLS");
}

// Flags about the process, whatever it serves.
void AddProcessFlags(CLI::App& app, ServiceFlags& flags) {
  app.add_option(
      "--otlp-endpoint", flags.tracing.endpoint,
      "URL of an OpenTelemetry collector for spans over OTLP/HTTP, such as http://HOST:4318; "
      "empty: no tracing, but trace contexts of callers are passed on");
  app.add_option("--trace-ratio", flags.tracing.ratio,
                 "Share of calls that start a trace, among calls without one; otherwise the "
                 "caller's sampling decision applies")
      ->capture_default_str()
      ->check(NumberFrom(0, 1));
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->check([](const std::string& level) {
        const auto parsed = ParseLogLevel(level);
        return parsed.ok() ? std::string() : std::string(parsed.status().message());
      });
  app.add_option("--drain-seconds", flags.drain_seconds,
                 "How long calls in flight may continue after SIGTERM")
      ->capture_default_str()
      ->check(NumberFrom(0, 86400));
  app.add_option("--ready-file", flags.ready_file,
                 "File to which the bound addresses are written as JSON once the service is ready");
}

}  // namespace

void AddServiceFlags(CLI::App& app, ServiceFlags& flags) {
  AddConfigFlags(app);
  app.add_option("--listen", flags.server.listen_address,
                 "Address to serve gRPC on, host:port (port 0: any) or unix:PATH")
      ->capture_default_str();
  AddMetricsFlag(app, flags);
  app.add_option("--health-listen", flags.server.health_address,
                 "Address that serves only gRPC health, without TLS and tokens, for probes that "
                 "support neither; host:port or unix:PATH");
  AddTlsFlags(app, flags);
  AddTokensFlag(app, flags);
  app.add_option("--max-message-bytes", flags.server.max_message_bytes,
                 "Maximum size of a gRPC message")
      ->capture_default_str()
      ->check(WholeNumberFrom(1 << 20, 1 << 30));
  AddSecondsOption(app, "--max-connection-age-seconds", flags.server.max_connection_age,
                   "Age at which a connection is closed, so that clients find new servers");
  AddSecondsOption(
      app, "--max-connection-age-grace-seconds", flags.server.max_connection_age_grace,
      "How long calls on a closed connection may continue; set it above the longest call");
  AddProcessFlags(app, flags);
}

void AddHttpServiceFlags(CLI::App& app, ServiceFlags& flags) {
  AddConfigFlags(app);
  app.add_option("--listen", flags.server.listen_address,
                 "Address to serve HTTP on, host:port; port 0: any")
      ->capture_default_str();
  AddMetricsFlag(app, flags);
  app.add_option(
      "--health-listen", flags.server.health_address,
      "Address that serves only /health, without TLS, for probes that do not support it; "
      "host:port");
  AddTlsFlags(app, flags);
  AddTokensFlag(app, flags);
  AddProcessFlags(app, flags);
}

void AddClientFlags(CLI::App& app, ChannelOptions& channel, const std::string& servers,
                    const std::string& certificates, const std::string& token_use) {
  app.add_option("--client-ca-file", channel.tls.ca_file,
                 absl::StrCat("CA that verifies ", certificates, "; enables TLS"));
  app.add_option("--client-certificate-file", channel.tls.certificate_file,
                 absl::StrCat("Client certificate for ", servers));
  app.add_option("--client-key-file", channel.tls.key_file, "Key of the client certificate");
  app.add_option("--client-token-file", channel.token_file,
                 absl::StrCat("File with the token for ", token_use));
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

int RunService(std::string_view name, absl::StatusOr<int> (*run)(int argc, char** argv), int argc,
               char** argv) {
  SetLogService(name);
  if (const int64_t limit = RaiseDescriptorLimit(); limit < kFewestDescriptors) {
    Log(LogLevel::kError, "the limit of open files is too low",
        {{"limit", limit}, {"needed", kFewestDescriptors}, {"raise_with", "ulimit -n"}});
    return 1;
  }
  try {
    const absl::StatusOr<int> code = run(argc, argv);
    if (code.ok()) return *code;
    Log(LogLevel::kError, "fatal error, exiting", {{"error", code.status().ToString()}});
  } catch (const std::exception& e) {
    Log(LogLevel::kError, "internal error", {{"error", std::string(e.what())}});
  }
  return 1;
}

absl::Status WriteReadyFile(const ServiceFlags& flags, const ServedAddresses& served) {
  if (flags.ready_file.empty()) return absl::OkStatus();
  nlohmann::json ready = nlohmann::json::object();
  if (!served.grpc.empty()) ready["grpc"] = served.grpc;
  if (!served.http.empty()) ready["http"] = served.http;
  if (!served.health.empty()) ready["health"] = served.health;
  if (!flags.metrics_address.empty()) {
    const std::string host = flags.metrics_address.substr(0, flags.metrics_address.rfind(':'));
    ready["metrics"] =
        absl::StrCat(host == "0.0.0.0" ? "127.0.0.1" : host, ":", served.metrics_port);
  }
  if (!served.status.empty()) ready["status"] = served.status;
  const absl::Status status = ReplaceFile(flags.ready_file, ready.dump() + "\n");
  if (status.ok()) return status;
  return absl::UnavailableError(absl::StrCat("--ready-file: ", status.message()));
}

}  // namespace kernelcast
