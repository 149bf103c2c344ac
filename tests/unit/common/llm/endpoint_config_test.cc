#include "common/llm/endpoint_config.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

namespace kernelcast::llm {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "llm_config_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::string Mistake(const std::string& yaml) {
  const auto config = ParseLlmConfig(yaml, "f.yaml");
  REQUIRE(config.status().code() == absl::StatusCode::kInvalidArgument);
  const std::string message(config.status().message());
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

std::string WithKey(const std::string& line) {
  return "endpoints:\n  - url: http://h/v1\n    model: m\n    " + line + "\n";
}

}  // namespace

TEST_CASE("A complete configuration is read", "[llm]") {
  const Folder folder;
  folder.Write("key", "  sk-secret\n");
  folder.Write("ca.pem", "pem");
  const std::string file = folder.Write("llm.yaml", R"(
endpoints:
  - name: local
    url: http://127.0.0.1:8000/v1/
    model: gpt-oss-20b
    weight: 2.5
    api_key_file: key
    ca_file: ca.pem
    proxy: none
    headers: {X-Title: kernelcast}
    trace_headers: false
    initial_concurrency: 8
    max_concurrency: 64
    prices: {prompt: 0.5, completion: 2}
    max_tokens_field: max_completion_tokens
    omit: [temperature]
    extra_body: {reasoning_effort: low, chat_template_kwargs: {enable_thinking: false}, top_k: 5, tag: "5"}
  - url: https://api.example.com/v1
    model: m
timeouts: {connect_ms: 100, first_byte_ms: 200, silence_ms: 300, total_ms: 400}
retry: {max_attempts: 5, backoff_base_ms: 10, backoff_cap_ms: 20, budget_ratio: 0.2, budget_reserve: 3}
hedge: {enabled: false, min_delay_ms: 7}
breaker: {consecutive_failures: 2, failure_ratio: 0.9, min_samples: 4, open_ms: 5, open_cap_ms: 6}
limits: {pending_calls: 10, pending_bytes: 1000, answer_bytes: 500}
)");
  const auto config = LoadLlmConfig(file);
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  REQUIRE(config->endpoints.size() == 2);
  const EndpointConfig& local = config->endpoints[0];
  CHECK(local.name == "local");
  CHECK(local.url == "http://127.0.0.1:8000/v1");
  CHECK(local.model == "gpt-oss-20b");
  CHECK(local.weight == 2.5);
  CHECK(local.api_key == "sk-secret");
  CHECK(local.api_key_file == folder / "key");
  CHECK(local.ca_file == folder / "ca.pem");
  CHECK(local.proxy == "none");
  CHECK(local.headers == std::vector<Header>{{"X-Title", "kernelcast"}});
  CHECK(local.initial_concurrency == 8);
  CHECK(local.max_concurrency == 64);
  CHECK(!local.trace_headers);
  CHECK(config->endpoints[1].trace_headers);
  CHECK(local.prices.cached_prompt == 0.5);
  CHECK(local.prices.completion == 2);
  CHECK(local.max_tokens_field == "max_completion_tokens");
  CHECK(local.omit == std::vector<std::string>{"temperature"});
  CHECK(
      local.extra_body ==
      R"({"chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low","tag":"5","top_k":5})");
  CHECK(config->endpoints[1].name == "api.example.com:443");
  CHECK(config->connect_timeout_ns == 100'000'000);
  CHECK(config->first_byte_timeout_ns == 200'000'000);
  CHECK(config->silence_timeout_ns == 300'000'000);
  CHECK(config->total_ns == 400'000'000);
  CHECK(config->max_attempts == 5);
  CHECK(config->backoff_base_ns == 10'000'000);
  CHECK(config->retry_budget_ratio == 0.2);
  CHECK(config->retry_budget_reserve == 3);
  CHECK(!config->hedge);
  CHECK(config->breaker_consecutive_failures == 2);
  CHECK(config->breaker_open_cap_ns == 6'000'000);
  CHECK(config->max_pending_calls == 10);
  CHECK(config->max_answer_bytes == 500);
}

TEST_CASE("Each mistake is one line with file, line and problem", "[llm]") {
  CHECK(Mistake("endpoints: []\n") == "f.yaml: there is no endpoint");
  CHECK(Mistake("") == "f.yaml:1: the file must be a mapping");
  CHECK_THAT(Mistake("endpoint: []\n"), Catch::StartsWith("f.yaml:1: 'endpoint' is not a key of"));
  CHECK_THAT(Mistake(WithKey("modle: x")), Catch::StartsWith("f.yaml:4: 'modle' is not a key of"));
  CHECK(Mistake(WithKey("model: x")) == "f.yaml:4: 'model' is given twice");
  CHECK(Mistake("endpoints:\n  - url: http://h/v1\n") == "f.yaml:2: 'model' is empty");
  CHECK(Mistake("endpoints:\n  - model: m\n    url: h:80/v1\n") ==
        "f.yaml:2: 'h:80/v1' is not a valid endpoint URL: it begins with neither http:// nor "
        "https://");
  CHECK(Mistake(WithKey("weight: heavy")) == "f.yaml:4: 'weight' wants a number, not 'heavy'");
  CHECK(Mistake(WithKey("weight: -1")) ==
        "f.yaml:4: 'weight' is -1; it may be from 0.001 to 1e+06");
  CHECK(Mistake(WithKey("max_concurrency: 1.5")) ==
        "f.yaml:4: 'max_concurrency' wants a whole number, not '1.5'");
  CHECK(Mistake(WithKey("api_key_file: no/such/key")) ==
        "f.yaml:2: api_key_file 'no/such/key': no such file");
  CHECK(Mistake(WithKey("ca_file: no/such/ca")) == "f.yaml:2: ca_file 'no/such/ca' cannot be read");
  CHECK(Mistake(WithKey("omit: [messages]")) ==
        "f.yaml:2: 'omit' may hold temperature, seed and stream_options, not 'messages'");
  for (const char* number : {"1e999", "-1e999", ".inf", "-.INF", ".NaN", "nan", "inf"}) {
    CHECK(Mistake(WithKey(std::string("extra_body: {a: {top_p: ") + number + "}}")) ==
          std::string("f.yaml:4: 'extra_body' at 'a' at 'top_p' holds '") + number +
              "', which is not a finite number; quote a text");
  }
  CHECK(Mistake(WithKey("extra_body: {stream: false}")) ==
        "f.yaml:2: 'extra_body' may not set 'stream'");
  CHECK(Mistake(WithKey("headers: {\"a b\": c}")) == "f.yaml:2: 'a b' is not a header");
  CHECK(Mistake(WithKey("headers: {a: \"x\\r\\ny: z\"}")) == "f.yaml:2: 'a' is not a header");
  CHECK(Mistake(WithKey("proxy: somewhere")) ==
        "f.yaml:2: 'proxy' is neither environment nor none nor a URL");
  CHECK_THAT(Mistake(WithKey("prices: {prompts: 1}")), Catch::StartsWith("f.yaml:4: 'prompts' is"));
  CHECK(Mistake(WithKey("") + "timeouts: {total_ms: 0}\n") ==
        "f.yaml:5: 'total_ms' is 0; it may be from 1 to 8.64e+07");
  CHECK(Mistake(WithKey("") + "hedge: {enabled: maybe}\n") ==
        "f.yaml:5: 'enabled' wants true or false");
  CHECK_THAT(Mistake("endpoints: [\n"), Catch::StartsWith("f.yaml:"));
  CHECK(Mistake(WithKey("") + "  - url: http://h/v1\n    model: n\n") ==
        "f.yaml: two endpoints have the name 'h:80'");
  CHECK(LoadLlmConfig("no/such/file").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("No message quotes the contents of a key file", "[llm]") {
  const Folder folder;
  folder.Write("two", "sk-secret sk-other\n");
  folder.Write("empty", "\n");
  const std::string two = Mistake(WithKey("api_key_file: " + (folder / "two")));
  CHECK_THAT(two, Catch::EndsWith("holds more than one word"));
  CHECK(two.find("sk-") == std::string::npos);
  CHECK_THAT(Mistake(WithKey("api_key_file: " + (folder / "empty"))), Catch::EndsWith("is empty"));
  const auto user = ConfigForUrl("http://me:sk-secret@host/v1", "m");
  CHECK(user.status().message().find("sk-") == absl::string_view::npos);
}

TEST_CASE("URLs are parsed and bad ones are refused", "[llm]") {
  const auto plain = ParseEndpointUrl("http://localhost:8000/v1//");
  REQUIRE(plain.ok());
  CHECK(plain->base == "http://localhost:8000/v1");
  CHECK(plain->port == 8000);
  CHECK(plain->loopback);
  CHECK(!plain->tls);
  const auto six = ParseEndpointUrl("https://[fe80::1]/v1");
  REQUIRE(six.ok());
  CHECK(six->host == "[fe80::1]");
  CHECK(six->port == 443);
  CHECK(!six->loopback);
  for (const char* url :
       {"", "http://", "http:///v1", "ftp://h/v1", "h", "http://h:0/", "http://h:70000/",
        "http://h:x/", "http://h:/", "http://h/v1?a=b", "http://h/v1#f", "http://h /v1",
        "http://u@h/v1", "http://[::1/v1", "http://[]/v1", "http://[::1]x/v1",
        "http://h/v1/chat/completions", "http://h/v1\n"}) {
    INFO(url);
    CHECK(ParseEndpointUrl(url).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("One endpoint can be configured with only its URL and model", "[llm]") {
  const auto config = ConfigForUrl("http://127.0.0.1:1/v1/", "m");
  REQUIRE(config.ok());
  CHECK(config->endpoints[0].name == "127.0.0.1:1");
  CHECK(config->endpoints[0].url == "http://127.0.0.1:1/v1");
  CHECK(!ConfigForUrl("http://127.0.0.1:1/v1", "").ok());
  CHECK(!ConfigForUrl("127.0.0.1:1", "m").ok());
  CHECK(!ConfigForUrl("http://127.0.0.1:1/v1", "m", "no/such/key").ok());
}

}  // namespace kernelcast::llm
