#include "common/llm/endpoint_config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/utf8.h"

namespace kernelcast::llm {
namespace {

constexpr size_t kMaxEndpoints = 64;
constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr int64_t kMaxKeyBytes = 16 << 10;
constexpr double kNsPerMillisecond = 1e6;
constexpr int kMaxYamlDepth = 16;

std::string Line(const YAML::Mark& mark) {
  // An empty document has no position.
  return absl::StrCat(std::max(mark.line, 0) + 1);
}

bool HasControlOrBlank(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isspace(static_cast<unsigned char>(c)) ||
           absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

absl::StatusOr<std::string> ReadRegularFile(const std::string& path, int64_t max_bytes) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return absl::NotFoundError("no such file");
  if (!std::filesystem::is_regular_file(path, error)) return absl::NotFoundError("no file");
  absl::StatusOr<std::string> text = ReadTextFile(path, max_bytes);
  if (text.ok()) return text;
  return absl::NotFoundError(absl::IsInvalidArgument(text.status())
                                 ? absl::StrCat("has more than ", max_bytes, " bytes")
                                 : "cannot be read");
}

absl::StatusOr<std::string> ReadKey(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadRegularFile(path, kMaxKeyBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("api_key_file '", path, "': ", text.status().message()));
  }
  std::string key(absl::StripAsciiWhitespace(*text));
  if (key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("api_key_file '", path, "' is empty"));
  }
  // The key is secret and must not be quoted.
  if (HasControlOrBlank(key)) {
    return absl::InvalidArgumentError(
        absl::StrCat("api_key_file '", path, "' holds more than one word"));
  }
  return key;
}

absl::Status CheckRange(std::string_view name, double value, double low, double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(name), "' is ", value, "; it may be from ", low, " to ", high));
}

// Whether an unquoted YAML scalar is a number that is not finite, or too large for a double.
bool IsNonFiniteNumber(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end == '\0') return !std::isfinite(number);
  const bool has_sign = absl::StartsWith(text, "-") || absl::StartsWith(text, "+");
  const std::string word = absl::AsciiStrToLower(text.substr(has_sign ? 1 : 0));
  return word == ".inf" || word == ".nan";
}

// Converts YAML to JSON: unquoted numbers, booleans and null keep their type, everything else
// becomes a string.
absl::StatusOr<nlohmann::json> ToJson(const YAML::Node& node, int depth) {
  if (depth > kMaxYamlDepth) return absl::InvalidArgumentError("is nested too deeply");
  switch (node.Type()) {
    case YAML::NodeType::Scalar: {
      if (node.Tag() == "!") return nlohmann::json(node.Scalar());  // quoted
      nlohmann::json value = ParseBoundedJson(node.Scalar());
      if (!value.is_discarded() && value.is_primitive() && !value.is_string()) return value;
      if (IsNonFiniteNumber(node.Scalar())) {
        return absl::InvalidArgumentError(absl::StrCat(
            "holds '", node.Scalar(), "', which is not a finite number; quote a text"));
      }
      return nlohmann::json(SanitizeUtf8(node.Scalar()));
    }
    case YAML::NodeType::Sequence: {
      nlohmann::json array = nlohmann::json::array();
      for (const YAML::Node& item : node) {
        KC_ASSIGN_OR_RETURN(nlohmann::json value, ToJson(item, depth + 1));
        array.push_back(std::move(value));
      }
      return array;
    }
    case YAML::NodeType::Map: {
      nlohmann::json object = nlohmann::json::object();
      for (const auto& entry : node) {
        if (!entry.first.IsScalar()) return absl::InvalidArgumentError("wants names as keys");
        const std::string key = SanitizeUtf8(entry.first.Scalar());
        absl::StatusOr<nlohmann::json> value = ToJson(entry.second, depth + 1);
        if (!value.ok()) {
          return absl::InvalidArgumentError(
              absl::StrCat("at '", key, "' ", value.status().message()));
        }
        object[key] = *std::move(value);
      }
      return object;
    }
    default: return nlohmann::json(nullptr);
  }
}

// One mapping of the file. Knows its keys and reports where an error is.
class Section {
 public:
  using Setter = std::function<absl::Status(const YAML::Node&)>;

  Section(std::string file, std::string what) : file_(std::move(file)), what_(std::move(what)) {}

  void Key(const std::string& name, Setter setter) { setters_[name] = std::move(setter); }
  void Text(const std::string& name, std::string* value) {
    Key(name, [name, value](const YAML::Node& node) -> absl::Status {
      if (!node.IsScalar()) return absl::InvalidArgumentError(Wants(name, "a text"));
      *value = node.Scalar();
      return absl::OkStatus();
    });
  }
  // Stores `scale` times the value in the file.
  template <class T>
  void Number(const std::string& name, T* value, double low, double high, double scale = 1) {
    Key(name, [name, value, low, high, scale](const YAML::Node& node) -> absl::Status {
      double number = 0;
      if (!node.IsScalar()) return absl::InvalidArgumentError(Wants(name, "a number"));
      const std::string& text = node.Scalar();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
        return absl::InvalidArgumentError(
            absl::StrCat(Wants(name, "a number"), ", not '", text, "'"));
      }
      if (std::is_integral_v<T> && scale == 1 && number != std::floor(number)) {
        return absl::InvalidArgumentError(
            absl::StrCat(Wants(name, "a whole number"), ", not '", text, "'"));
      }
      KC_RETURN_IF_ERROR(CheckRange(name, number, low, high));
      *value = static_cast<T>(number * scale);
      return absl::OkStatus();
    });
  }
  void Bool(const std::string& name, bool* value) {
    Key(name, [name, value](const YAML::Node& node) -> absl::Status {
      const std::string text = node.IsScalar() ? node.Scalar() : "";
      if (text != "true" && text != "false") {
        return absl::InvalidArgumentError(Wants(name, "true or false"));
      }
      *value = text == "true";
      return absl::OkStatus();
    });
  }

  absl::Status Read(const YAML::Node& node) const {
    if (!node.IsMap()) return Error(node.Mark(), absl::StrCat(what_, " must be a mapping"));
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const YAML::Mark mark = entry.first.Mark();
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const auto setter = setters_.find(key);
      if (setter == setters_.end()) {
        std::string known;
        for (const auto& [name, unused] : setters_) {
          absl::StrAppend(&known, known.empty() ? "" : ", ", name);
        }
        return Error(mark, absl::StrCat("'", key, "' is not a key of ", what_, "; it has ", known));
      }
      if (!seen.insert(key).second) {
        return Error(mark, absl::StrCat("'", key, "' is given twice"));
      }
      const absl::Status status = setter->second(entry.second);
      // Nested sections report their own line.
      if (!status.ok()) {
        return absl::StartsWith(status.message(), absl::StrCat(file_, ":"))
                   ? status
                   : Error(mark, std::string(status.message()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Error(const YAML::Mark& mark, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ":", Line(mark), ": ", what));
  }

 private:
  static std::string Wants(const std::string& name, std::string_view what) {
    return absl::StrCat("'", name, "' wants ", std::string(what));
  }

  const std::string file_;
  const std::string what_;
  std::map<std::string, Setter> setters_;
};

// Calls `visit` with the section, key, value, limits and scale of each number of the file outside
// of endpoints. The value is `scale` times the number in the file.
template <class Config, class Visit>
absl::Status ForEachNumber(Config& config, Visit visit) {
  constexpr double kDayMs = 86400e3;
  constexpr double kNs = kNsPerMillisecond;
  KC_RETURN_IF_ERROR(visit("timeouts", "connect_ms", config.connect_timeout_ns, 1, kDayMs, kNs));
  KC_RETURN_IF_ERROR(
      visit("timeouts", "first_byte_ms", config.first_byte_timeout_ns, 1, kDayMs, kNs));
  KC_RETURN_IF_ERROR(visit("timeouts", "silence_ms", config.silence_timeout_ns, 1, kDayMs, kNs));
  KC_RETURN_IF_ERROR(visit("timeouts", "total_ms", config.total_ns, 1, kDayMs, kNs));
  KC_RETURN_IF_ERROR(visit("retry", "max_attempts", config.max_attempts, 1, 100, 1));
  KC_RETURN_IF_ERROR(visit("retry", "backoff_base_ms", config.backoff_base_ns, 1, kDayMs, kNs));
  KC_RETURN_IF_ERROR(visit("retry", "backoff_cap_ms", config.backoff_cap_ns, 1, kDayMs, kNs));
  KC_RETURN_IF_ERROR(visit("retry", "budget_ratio", config.retry_budget_ratio, 0, 1, 1));
  KC_RETURN_IF_ERROR(visit("retry", "budget_reserve", config.retry_budget_reserve, 0, 1e6, 1));
  KC_RETURN_IF_ERROR(visit("hedge", "min_delay_ms", config.hedge_min_delay_ns, 1, kDayMs, kNs));
  KC_RETURN_IF_ERROR(
      visit("breaker", "consecutive_failures", config.breaker_consecutive_failures, 1, 1e6, 1));
  KC_RETURN_IF_ERROR(visit("breaker", "failure_ratio", config.breaker_failure_ratio, 0.01, 1, 1));
  KC_RETURN_IF_ERROR(visit("breaker", "min_samples", config.breaker_min_samples, 1, 1e6, 1));
  KC_RETURN_IF_ERROR(visit("breaker", "open_ms", config.breaker_open_ns, 1, kDayMs, kNs));
  KC_RETURN_IF_ERROR(visit("breaker", "open_cap_ms", config.breaker_open_cap_ns, 1, kDayMs, kNs));
  KC_RETURN_IF_ERROR(visit("limits", "pending_calls", config.max_pending_calls, 1, 1e7, 1));
  KC_RETURN_IF_ERROR(visit("limits", "pending_bytes", config.max_pending_bytes, 1, 1e12, 1));
  return visit("limits", "answer_bytes", config.max_answer_bytes, 1, 1 << 30, 1);
}

absl::Status ReadHeaders(const YAML::Node& node, std::vector<Header>* headers) {
  if (!node.IsMap()) return absl::InvalidArgumentError("'headers' must be a mapping");
  for (const auto& entry : node) {
    if (!entry.first.IsScalar() || !entry.second.IsScalar()) {
      return absl::InvalidArgumentError("'headers' must map names to texts");
    }
    headers->emplace_back(entry.first.Scalar(), entry.second.Scalar());
  }
  return absl::OkStatus();
}

absl::Status ReadPrices(const std::string& file, const YAML::Node& node, Prices* prices) {
  Section section(file, "'prices'");
  double cached_value = -1;
  section.Number("prompt", &prices->prompt, 0, 1e9);
  section.Number("cached_prompt", &cached_value, 0, 1e9);
  section.Number("completion", &prices->completion, 0, 1e9);
  KC_RETURN_IF_ERROR(section.Read(node));
  prices->cached_prompt = cached_value < 0 ? prices->prompt : cached_value;
  return absl::OkStatus();
}

absl::Status ReadExtraBody(const YAML::Node& node, std::string* extra_body) {
  if (!node.IsMap()) return absl::InvalidArgumentError("'extra_body' must be a mapping");
  const absl::StatusOr<nlohmann::json> json = ToJson(node, 0);
  if (!json.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("'extra_body' ", json.status().message()));
  }
  *extra_body = json->empty() ? "" : json->dump();
  return absl::OkStatus();
}

absl::StatusOr<EndpointConfig> ReadEndpoint(const std::string& file,
                                            const std::filesystem::path& folder,
                                            const YAML::Node& node) {
  EndpointConfig endpoint;
  Section section(file, "an endpoint");
  section.Text("name", &endpoint.name);
  section.Text("url", &endpoint.url);
  section.Text("model", &endpoint.model);
  section.Number("weight", &endpoint.weight, 1e-3, 1e6);
  section.Text("api_key_file", &endpoint.api_key_file);
  section.Text("ca_file", &endpoint.ca_file);
  section.Text("proxy", &endpoint.proxy);
  section.Key("headers", [&endpoint](const YAML::Node& value) {
    return ReadHeaders(value, &endpoint.headers);
  });
  section.Bool("trace_headers", &endpoint.trace_headers);
  section.Number("initial_concurrency", &endpoint.initial_concurrency, 1, 1e5);
  section.Number("max_concurrency", &endpoint.max_concurrency, 1, 1e5);
  section.Key("prices", [&file, &endpoint](const YAML::Node& value) {
    return ReadPrices(file, value, &endpoint.prices);
  });
  section.Text("max_tokens_field", &endpoint.max_tokens_field);
  section.Key("omit", [&endpoint](const YAML::Node& value) -> absl::Status {
    if (!value.IsSequence()) return absl::InvalidArgumentError("'omit' must be a list");
    for (const YAML::Node& field : value) {
      if (!field.IsScalar()) return absl::InvalidArgumentError("'omit' wants names");
      endpoint.omit.push_back(field.Scalar());
    }
    return absl::OkStatus();
  });
  section.Key("extra_body", [&endpoint](const YAML::Node& value) {
    return ReadExtraBody(value, &endpoint.extra_body);
  });
  KC_RETURN_IF_ERROR(section.Read(node));
  if (endpoint.initial_concurrency > endpoint.max_concurrency) {
    endpoint.initial_concurrency = endpoint.max_concurrency;
  }
  for (std::string* path : {&endpoint.api_key_file, &endpoint.ca_file}) {
    if (!path->empty()) *path = (folder / *path).string();
  }
  if (!endpoint.api_key_file.empty()) {
    absl::StatusOr<std::string> key = ReadKey(endpoint.api_key_file);
    if (!key.ok()) return section.Error(node.Mark(), std::string(key.status().message()));
    endpoint.api_key = *std::move(key);
  }
  return endpoint;
}

// Fills in defaults that depend on other fields.
absl::Status Complete(EndpointConfig* endpoint) {
  KC_ASSIGN_OR_RETURN(const EndpointUrl url, ParseEndpointUrl(endpoint->url));
  endpoint->url = url.base;
  if (endpoint->name.empty()) endpoint->name = absl::StrCat(url.host, ":", url.port);
  return absl::OkStatus();
}

absl::Status ValidateEndpoint(const EndpointConfig& endpoint) {
  KC_RETURN_IF_ERROR(ParseEndpointUrl(endpoint.url).status());
  const auto invalid = [](const std::string& message) {
    return absl::InvalidArgumentError(message);
  };
  if (endpoint.model.empty()) return invalid("'model' is empty");
  if (HasControl(endpoint.model)) return invalid("'model' holds control characters");
  if (endpoint.name.empty() || HasControlOrBlank(endpoint.name) || !IsValidUtf8(endpoint.name)) {
    return invalid("'name' is empty or holds blanks");
  }
  KC_RETURN_IF_ERROR(CheckRange("weight", endpoint.weight, 1e-3, 1e6));
  KC_RETURN_IF_ERROR(CheckRange("max_concurrency", endpoint.max_concurrency, 1, 1e5));
  KC_RETURN_IF_ERROR(
      CheckRange("initial_concurrency", endpoint.initial_concurrency, 1, endpoint.max_concurrency));
  if (HasControlOrBlank(endpoint.api_key)) return invalid("the API key holds blanks");
  for (const auto& [name, value] : endpoint.headers) {
    const bool token = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    });
    if (!token || HasControl(value)) return invalid(absl::StrCat("'", name, "' is not a header"));
  }
  if (endpoint.max_tokens_field != "max_tokens" &&
      endpoint.max_tokens_field != "max_completion_tokens") {
    return invalid("'max_tokens_field' is neither max_tokens nor max_completion_tokens");
  }
  for (const std::string& field : endpoint.omit) {
    if (field != "temperature" && field != "seed" && field != "stream_options") {
      return invalid(
          absl::StrCat("'omit' may hold temperature, seed and stream_options, not '", field, "'"));
    }
  }
  if (endpoint.proxy.empty() || HasControlOrBlank(endpoint.proxy) ||
      (endpoint.proxy != "environment" && endpoint.proxy != "none" &&
       endpoint.proxy.find("://") == std::string::npos)) {
    return invalid("'proxy' is neither environment nor none nor a URL");
  }
  if (!endpoint.ca_file.empty() && !std::ifstream(endpoint.ca_file).good()) {
    return invalid(absl::StrCat("ca_file '", endpoint.ca_file, "' cannot be read"));
  }
  if (!endpoint.extra_body.empty()) {
    const nlohmann::json extra = ParseBoundedJson(endpoint.extra_body);
    if (!extra.is_object()) return invalid("'extra_body' is no object");
    for (const char* taken : {"messages", "model", "stream", "stream_options", "n", "tools",
                              "tool_choice", "response_format"}) {
      if (extra.contains(taken)) {
        return invalid(absl::StrCat("'extra_body' may not set '", taken, "'"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EndpointUrl> ParseEndpointUrl(std::string_view url) {
  const auto bad = [url](std::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", std::string(url), "' is not a valid endpoint URL: ", std::string(why)));
  };
  EndpointUrl parsed;
  if (HasControlOrBlank(url)) {
    return absl::InvalidArgumentError("the URL of an endpoint holds blanks");
  }
  // The URL may contain a key, so it is not quoted.
  if (url.find('@') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        "the URL of an endpoint must not contain a user; use api_key_file");
  }
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    parsed.tls = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return bad("it begins with neither http:// nor https://");
  }
  if (rest.find_first_of("?#") != std::string_view::npos) return bad("it has a query or fragment");
  std::string_view authority = rest.substr(0, rest.find('/'));
  std::string_view port;
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return bad("a bracket is not closed");
    parsed.host = authority.substr(0, end + 1);
    port = authority.substr(end + 1);
    if (!port.empty() && port.front() != ':') return bad("something follows the address");
  } else {
    parsed.host = authority.substr(0, authority.find(':'));
    port = authority.substr(parsed.host.size());
  }
  if (parsed.host.empty() || parsed.host == "[]") return bad("it has no host");
  parsed.port = parsed.tls ? 443 : 80;
  if (!port.empty()) {
    port.remove_prefix(1);
    const auto [end, error] =
        std::from_chars(port.data(), port.data() + port.size(), parsed.port, 10);
    if (error != std::errc() || end != port.data() + port.size() || parsed.port < 1 ||
        parsed.port > 65535) {
      return bad("its port is not a number from 1 to 65535");
    }
  }
  parsed.base = url;
  while (parsed.base.ends_with('/')) parsed.base.pop_back();
  if (parsed.base.ends_with("/chat/completions")) {
    return bad("it ends before /chat/completions, as in http://127.0.0.1:8000/v1");
  }
  parsed.loopback =
      parsed.host == "localhost" || parsed.host == "[::1]" || absl::StartsWith(parsed.host, "127.");
  return parsed;
}

absl::Status ValidateLlmConfig(const LlmConfig& config) {
  if (config.endpoints.empty()) return absl::InvalidArgumentError("there is no endpoint");
  if (config.endpoints.size() > kMaxEndpoints) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are more than ", kMaxEndpoints, " endpoints"));
  }
  std::set<std::string> names;
  for (const EndpointConfig& endpoint : config.endpoints) {
    const absl::Status status = ValidateEndpoint(endpoint);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("endpoint '", endpoint.name, "': ", status.message()));
    }
    if (!names.insert(endpoint.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two endpoints have the name '", endpoint.name, "'"));
    }
  }
  return ForEachNumber(config, [](std::string_view, std::string_view key, const auto& value,
                                  double low, double high, double scale) {
    // Programs may set less than a millisecond.
    return CheckRange(key, static_cast<double>(value), scale == 1 ? low : 1, high * scale);
  });
}

absl::StatusOr<LlmConfig> ParseLlmConfig(std::string_view yaml, const std::string& file) {
  LlmConfig config;
  YAML::Node root;
  try {
    root = YAML::Load(std::string(yaml));
    Section section(file, "the file");
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    section.Key("endpoints", [&](const YAML::Node& list) -> absl::Status {
      if (!list.IsSequence()) return absl::InvalidArgumentError("'endpoints' must be a list");
      for (const YAML::Node& node : list) {
        KC_ASSIGN_OR_RETURN(EndpointConfig endpoint, ReadEndpoint(file, folder, node));
        absl::Status status = Complete(&endpoint);
        if (status.ok()) status = ValidateEndpoint(endpoint);
        if (!status.ok()) return section.Error(node.Mark(), std::string(status.message()));
        config.endpoints.push_back(std::move(endpoint));
      }
      return absl::OkStatus();
    });
    for (const char* name : {"timeouts", "retry", "hedge", "breaker", "limits"}) {
      section.Key(name, [&, name](const YAML::Node& node) {
        Section numbers(file, absl::StrCat("'", name, "'"));
        if (name == std::string_view("hedge")) numbers.Bool("enabled", &config.hedge);
        const auto add = [&](std::string_view of, const char* key, auto& value, double low,
                             double high, double scale) {
          if (of == name) numbers.Number(key, &value, low, high, scale);
          return absl::OkStatus();
        };
        KC_RETURN_IF_ERROR(ForEachNumber(config, add));
        return numbers.Read(node);
      });
    }
    KC_RETURN_IF_ERROR(section.Read(root));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(file, ":", Line(error.mark), ": ", error.msg));
  }
  const absl::Status status = ValidateLlmConfig(config);
  if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat(file, ": ", status.message()));
  return config;
}

absl::StatusOr<LlmConfig> LoadLlmConfig(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadRegularFile(path, kMaxFileBytes);
  if (!text.ok()) return absl::NotFoundError(absl::StrCat(path, ": ", text.status().message()));
  return ParseLlmConfig(*text, path);
}

absl::StatusOr<LlmConfig> ConfigForUrl(std::string_view url, std::string_view model,
                                       const std::string& api_key_file) {
  EndpointConfig endpoint;
  endpoint.url = url;
  endpoint.model = model;
  endpoint.api_key_file = api_key_file;
  KC_RETURN_IF_ERROR(Complete(&endpoint));
  if (!api_key_file.empty()) {
    KC_ASSIGN_OR_RETURN(endpoint.api_key, ReadKey(api_key_file));
  }
  LlmConfig config;
  config.endpoints.push_back(std::move(endpoint));
  KC_RETURN_IF_ERROR(ValidateLlmConfig(config));
  return config;
}

}  // namespace kernelcast::llm
