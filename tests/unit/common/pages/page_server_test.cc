#include "common/pages/page_server.h"

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>

#include "tests/support/http_connection.h"

namespace kernelcast::page_server_test {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

std::string Get(const PageServer& server, const std::string& target) {
  testing::HttpConnection connection(server.address());
  connection.Send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return connection.ReadAll();
}

PageServerOptions Options() {
  return {.address = "127.0.0.1:0", .what = "test page", .content_policy = "default-src 'none'"};
}

TEST_CASE("A page gets the decoded parameters of its query", "[unit]") {
  const auto server = PageServer::Start(Options(), [](const PageRequest& request) -> PageReply {
    if (request.path != "/a b") return {.status = 404, .body = request.path};
    return {.body = request.Parameter("id") + "|" + request.Parameter("other")};
  });
  REQUIRE(server.ok());
  const std::string page = Get(**server, "/a%20b?id=s%40NVIDIA+H200%26%3C&other=2");
  CHECK_THAT(page, StartsWith("HTTP/1.1 200 OK\r\n"));
  CHECK_THAT(page, Contains("\r\nContent-Security-Policy: default-src 'none'\r\n"));
  CHECK_THAT(page, Catch::EndsWith("\r\n\r\ns@NVIDIA H200&<|2"));
  CHECK_THAT(Get(**server, "/a%20b"), Catch::EndsWith("\r\n\r\n|"));
  CHECK_THAT(Get(**server, "/a%20b?other=" + std::string(7000, 'x')), Contains("|xxx"));
  CHECK_THAT(Get(**server, "/c"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
}

TEST_CASE("A page may need as much stack as in any thread", "[unit]") {
  const auto server = PageServer::Start(Options(), [](const PageRequest&) -> PageReply {
    std::array<char, 4 << 20> large;
    large.fill('x');
    return {.body = std::string(large.begin(), large.begin() + 3)};
  });
  REQUIRE(server.ok());
  CHECK_THAT(Get(**server, "/"), Catch::EndsWith("\r\n\r\nxxx"));
}

TEST_CASE("A page that takes long blocks no other, and is waited for at the end", "[unit]") {
  std::promise<void> asked;
  std::promise<void> go_on;
  const auto server = PageServer::Start(Options(), [&](const PageRequest& request) -> PageReply {
    if (request.path == "/slow") {
      asked.set_value();
      go_on.get_future().wait();
    }
    return {.body = "page"};
  });
  REQUIRE(server.ok());
  auto slow = std::async(std::launch::async, [&] { return Get(**server, "/slow"); });
  asked.get_future().wait();
  CHECK_THAT(Get(**server, "/quick"), Catch::EndsWith("\r\n\r\npage"));
  auto stop = std::async(std::launch::async, [&] { (*server)->Stop(); });
  // Refused as soon as Stop has begun, although a page is being made.
  while (Get(**server, "/quick").find("503 Service Unavailable") == std::string::npos) {
  }
  CHECK(stop.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  go_on.set_value();
  stop.get();
  CHECK_THAT(slow.get(), Catch::EndsWith("\r\n\r\npage"));
}

}  // namespace
}  // namespace kernelcast::page_server_test
