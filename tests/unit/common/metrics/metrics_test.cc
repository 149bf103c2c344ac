#include "common/metrics/metrics.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "common/base/version.h"

namespace kernelcast::metrics_test {
namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// The response of an HTTP server on this machine.
std::string Get(int port, const std::string& path) {
  const int fd = Connect(port);
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  REQUIRE(write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t got; (got = read(fd, buffer, sizeof buffer)) > 0;) {
    answer.append(buffer, static_cast<size_t>(got));
  }
  close(fd);
  return answer;
}

}  // namespace

TEST_CASE("The build's version is a metric", "[metrics]") {
  const MetricsRegistry metrics;
  CHECK(Contains(metrics.Text(), "kernelcast_build_info{revision=\"" + std::string(Revision()) +
                                     "\",version=\"" + std::string(Version()) + "\"} 1\n"));
}

TEST_CASE("The same name and labels give the same instrument", "[metrics]") {
  MetricsRegistry metrics;
  auto& first = metrics.Counter("kernelcast_x_total", "X.", {{"kind", "a"}});
  auto& again = metrics.Counter("kernelcast_x_total", "X.", {{"kind", "a"}});
  auto& other = metrics.Counter("kernelcast_x_total", "X.", {{"kind", "b"}});
  CHECK(&first == &again);
  CHECK(&first != &other);
  CHECK(&metrics.Gauge("kernelcast_y", "Y.") == &metrics.Gauge("kernelcast_y", "Y."));
  CHECK(&metrics.Histogram("kernelcast_z_seconds", "Z.", {1, 2}) ==
        &metrics.Histogram("kernelcast_z_seconds", "Z.", {1, 2}));
}

TEST_CASE("A removed gauge is no longer exposed", "[metrics]") {
  MetricsRegistry metrics;
  auto& stays = metrics.Gauge("kernelcast_y", "Y.", {{"kind", "a"}});
  auto& goes = metrics.Gauge("kernelcast_y", "Y.", {{"kind", "b"}});
  stays.Set(3);
  metrics.RemoveGauge("kernelcast_y", goes);
  CHECK(Contains(metrics.Text(), "kernelcast_y{kind=\"a\"} 3\n"));
  CHECK(!Contains(metrics.Text(), "kind=\"b\""));
  CHECK(Contains(metrics.Text(), "# HELP kernelcast_y Y.\n"));
  CHECK(&metrics.Gauge("kernelcast_y", "Y.", {{"kind", "a"}}) == &stays);
}

TEST_CASE("A registered combination is exposed as zero before its first count", "[metrics]") {
  MetricsRegistry metrics;
  metrics.Counter("kernelcast_x_total", "Help text.", {{"kind", "a"}});
  CHECK(Contains(metrics.Text(), "# HELP kernelcast_x_total Help text.\n"));
  CHECK(Contains(metrics.Text(), "# TYPE kernelcast_x_total counter\n"));
  CHECK(Contains(metrics.Text(), "kernelcast_x_total{kind=\"a\"} 0\n"));
}

TEST_CASE("Histograms count into their buckets", "[metrics]") {
  MetricsRegistry metrics;
  auto& histogram =
      metrics.Histogram("kernelcast_z_seconds", "Z.", MetricsRegistry::DurationBounds());
  histogram.Observe(0.003);
  CHECK(Contains(metrics.Text(), "kernelcast_z_seconds_bucket{le=\"0.002\"} 0\n"));
  CHECK(Contains(metrics.Text(), "kernelcast_z_seconds_bucket{le=\"0.005\"} 1\n"));
  CHECK(Contains(metrics.Text(), "kernelcast_z_seconds_count 1\n"));
}

TEST_CASE("A label that is not UTF-8 is sanitised", "[metrics]") {
  MetricsRegistry metrics;
  metrics.Counter("kernelcast_x_total", "X.", {{"kind", "a\xFF"}});
  CHECK(Contains(metrics.Text(), "kernelcast_x_total{kind=\"a\xEF\xBF\xBD\"} 0\n"));
}

TEST_CASE("Metrics are served over HTTP on an ephemeral port", "[metrics]") {
  MetricsRegistry metrics;
  metrics.Counter("kernelcast_x_total", "X.").Increment(3);
  CHECK(metrics.port() == 0);
  REQUIRE(metrics.Serve("127.0.0.1:0").ok());
  CHECK(metrics.port() > 0);
  const std::string answer = Get(metrics.port(), "/metrics");
  CHECK(Contains(answer, "200 OK"));
  CHECK(Contains(answer, "kernelcast_x_total 3\n"));
  CHECK(Contains(Get(metrics.port(), "/"), "404"));
  CHECK(metrics.Serve("127.0.0.1:0").code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("Slow readers do not block other readers of the metrics", "[metrics]") {
  MetricsRegistry metrics;
  // More than a connection's buffers hold.
  for (int i = 0; i < 40'000; ++i) {
    metrics.Counter("kernelcast_x_total", std::string(64, 'x'), {{"kind", std::to_string(i)}});
  }
  REQUIRE(metrics.Serve("127.0.0.1:0").ok());
  std::vector<int> slow;
  for (int i = 0; i < 8; ++i) {
    slow.push_back(Connect(metrics.port()));
    // Half a request, or a whole one whose response is not read.
    const std::string request =
        i % 2 == 0 ? "GET /metrics HT" : "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    REQUIRE(send(slow.back(), request.data(), request.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(request.size()));
  }
  const auto start = std::chrono::steady_clock::now();
  CHECK(Contains(Get(metrics.port(), "/metrics"), "200 OK"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(15));
  for (const int fd : slow) close(fd);
}

TEST_CASE("An address that cannot be bound is UNAVAILABLE and is named", "[metrics]") {
  MetricsRegistry first;
  REQUIRE(first.Serve("127.0.0.1:0").ok());
  const std::string taken = "127.0.0.1:" + std::to_string(first.port());
  for (const std::string& address : {taken, std::string("nonsense"), std::string("")}) {
    MetricsRegistry second;
    const absl::Status status = second.Serve(address);
    CHECK(status.code() == absl::StatusCode::kUnavailable);
    CHECK(Contains(std::string(status.message()), "'" + address + "'"));
    CHECK(second.port() == 0);
  }
}

TEST_CASE("Instruments and the registry are thread-safe", "[metrics]") {
  MetricsRegistry metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1'000; ++i) {
        metrics.Counter("kernelcast_x_total", "X.", {{"kind", std::to_string(i % 8)}}).Increment();
        if (i % 100 == 0) {
          static_cast<void>(metrics.Text());
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(metrics.Counter("kernelcast_x_total", "X.", {{"kind", "0"}}).Value() == 500);
}

}  // namespace kernelcast::metrics_test
