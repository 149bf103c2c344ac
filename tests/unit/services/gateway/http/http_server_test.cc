#include "services/gateway/http/http_server.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/rpc/listener.h"
#include "services/gateway/dialects/dialects.h"
#include "tests/support/eventually.h"
#include "tests/support/http_connection.h"
#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

struct ServerWorld : testing::World {
  explicit ServerWorld(HttpServerOptions options = {})
      : front(context, MakeDialects(context), nullptr, &metrics) {
    options.threads = 32;
    auto started = HttpServer::Start(options, &front);
    REQUIRE(started.ok());
    server = *std::move(started);
  }
  std::string Ask(const std::string& request) const {
    kernelcast::testing::HttpConnection connection(server->address());
    connection.Send(request);
    return connection.ReadAll();
  }
  std::string Post(const std::string& target, const std::string& body,
                   const std::string& headers = "") const {
    return Ask(absl::StrCat("POST ", target, " HTTP/1.1\r\nHost: localhost\r\n", headers,
                            "Content-Length: ", body.size(), "\r\n\r\n", body));
  }
  MetricsRegistry metrics;
  Front front;
  std::unique_ptr<HttpServer> server;
};

TEST_CASE("Replies are JSON with their length", "[gateway][http]") {
  const ServerWorld world;
  const std::string reply = world.Ask("GET /popcorn/gpus/relu HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
  CHECK_THAT(reply, Contains("\r\nContent-Type: application/json\r\n"));
  CHECK_THAT(reply, Contains("\r\nContent-Length: 7\r\n"));
  CHECK_THAT(reply, EndsWith("\r\n\r\n[\"cpu\"]"));
}

TEST_CASE("Paths are decoded once", "[gateway][http]") {
  const ServerWorld world;
  CHECK_THAT(world.Ask("GET /popcorn/gpus/re%6Cu HTTP/1.1\r\nHost: localhost\r\n\r\n"),
             StartsWith("HTTP/1.1 200"));
  CHECK_THAT(world.Ask("GET /flashinfer/tasks/a%252Fb%2Fc HTTP/1.1\r\nHost: localhost\r\n\r\n"),
             EndsWith("{\"detail\":\"Task not found: a%2Fb/c\"}"));
}

TEST_CASE("Bodies are read whole, also in chunks", "[gateway][http]") {
  const ServerWorld world;
  const std::string body = R"({"response": "int x;", "label": "small"})";
  CHECK_THAT(world.Post("/slime", body), StartsWith("HTTP/1.1 503"));
  CHECK_THAT(world.Post("/slime", body), Contains("\r\nRetry-After: 1\r\n"));
  const std::string chunked = absl::StrCat(
      "POST /slime HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
      body.substr(0, 5), "\r\n", absl::Hex(body.size() - 5), "\r\n", body.substr(5),
      "\r\n0\r\n\r\n");
  CHECK_THAT(world.Ask(chunked), StartsWith("HTTP/1.1 503"));
  CHECK(world.evaluator.request_ids.size() == 1);
  CHECK(world.evaluator.submissions[0]->candidate.source == "int x;");
}

TEST_CASE("Bodies above the limit are refused", "[gateway][http]") {
  const ServerWorld world({.max_body_bytes = 1000});
  const std::string reply = world.Post("/slime/small", std::string(1001, 'a'));
  CHECK_THAT(reply, StartsWith("HTTP/1.1 413"));
  CHECK_THAT(reply, Contains("larger than 1000 bytes"));
  const std::string chunked =
      absl::StrCat("POST /slime HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
                   absl::Hex(2000), "\r\n", std::string(2000, 'a'), "\r\n0\r\n\r\n");
  CHECK_THAT(world.Ask(chunked), StartsWith("HTTP/1.1 413"));
  const ServerWorld small({.max_body_bytes = 1000, .max_bodies_bytes = 500});
  CHECK_THAT(small.Post("/slime/small", std::string(600, 'a')), StartsWith("HTTP/1.1 429"));
  CHECK_THAT(small.Post("/slime/small", std::string(400, 'a')), StartsWith("HTTP/1.1 400"));
}

TEST_CASE("Requests of web pages are refused", "[gateway][http]") {
  const ServerWorld world;
  const std::string body = R"({"response": "int x;", "label": "small"})";
  CHECK_THAT(world.Post("/slime", body, "Origin: http://evil.example\r\n"),
             StartsWith("HTTP/1.1 403"));
  CHECK(world.evaluator.request_ids.empty());
}

TEST_CASE("Damaged requests get errors and leave the server alive", "[gateway][http]") {
  const ServerWorld world;
  CHECK_THAT(world.Ask("nonsense\r\n\r\n"), !Contains("200 OK"));
  CHECK_THAT(world.Post("/popcorn/submission/small/h200/test", "--b\r\n",
                        "Content-Type: multipart/form-data; boundary=b\r\n"),
             StartsWith("HTTP/1.1 400"));
  CHECK_THAT(world.Post("/kernelgym/evaluate", std::string(10'000, '[')),
             StartsWith("HTTP/1.1 400"));
  CHECK_THAT(world.Post("/slime/small", "{\"response\": \"\xff\"}"), StartsWith("HTTP/1.1 400"));
  CHECK_THAT(world.Ask("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
             StartsWith("HTTP/1.1 200"));
}

// Connections that are in the middle of a request and send nothing more.
class SlowClients {
 public:
  SlowClients(const std::string& address, int count, const std::string& start) {
    for (int i = 0; i < count; ++i) {
      connections_.push_back(std::make_unique<kernelcast::testing::HttpConnection>(address));
      connections_.back()->Send(start);
    }
  }

 private:
  std::vector<std::unique_ptr<kernelcast::testing::HttpConnection>> connections_;
};

TEST_CASE("Slow clients do not keep others waiting", "[gateway][http]") {
  RaiseDescriptorLimit();
  // More than there are threads.
  const ServerWorld world;
  const std::string target = "POST /slime/softmax HTTP/1.1\r\n";
  const std::string address = world.server->address();
  const SlowClients silent(address, 200, "");
  const SlowClients heads(address, 200, target + "Content-Length: 80");
  const SlowClients bodies(address, 200, target + "Content-Length: 8000000\r\n\r\n");
  const SlowClients parts(address, 200, target + "Content-Length: 8000000\r\n\r\n{\"resp");
  const SlowClients chunks(address, 200, target + "Transfer-Encoding: chunked\r\n\r\nff\r\nx");
  const std::string health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const int64_t start_ns = Clock::Real().MonotonicNs();
  CHECK_THAT(world.Ask(health), StartsWith("HTTP/1.1 200"));
  CHECK_THAT(world.Post("/slime", R"({"response": "int x;", "label": "small"})"),
             StartsWith("HTTP/1.1 503"));
  // A client that holds a thread holds it for 30 s or more.
  CHECK(Clock::Real().MonotonicNs() - start_ns < 10'000'000'000);
}

TEST_CASE("Clients that do not read replies keep nobody waiting", "[gateway][http]") {
  const ServerWorld world;
  const std::string request = "GET /popcorn/leaderboards HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const SlowClients deaf(world.server->address(), 100, request);
  CHECK_THAT(world.Ask(request), StartsWith("HTTP/1.1 200"));
}

TEST_CASE("Connections above the limit are closed", "[gateway][http]") {
  const ServerWorld world({.max_connections = 10});
  {
    // Silent ones: the library notices at once that they close. After part of a head it may wait
    // for 30 s.
    const SlowClients all(world.server->address(), 10, "");
    kernelcast::testing::HttpConnection further(world.server->address());
    CHECK(further.ReadAll().empty());
  }
  CHECK(kernelcast::testing::Eventually([&] {
    return world.Ask("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 200");
  }));
}

TEST_CASE("A server needs an address that is free", "[gateway][http]") {
  ServerWorld world;
  HttpServerOptions options;
  options.address = world.server->address();
  CHECK(absl::IsUnavailable(HttpServer::Start(options, &world.front).status()));
  options.address = "127.0.0.1:0,127.0.0.1:0";
  CHECK(absl::IsInvalidArgument(HttpServer::Start(options, &world.front).status()));
}

}  // namespace
}  // namespace kernelcast::gateway
