#include "services/orchestrator/clients/address_watch.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <map>
#include <mutex>

namespace kernelcast::orchestrator::address_watch_test {
namespace {

// A fake name service.
struct Names {
  absl::StatusOr<std::vector<std::string>> LookUp(const std::string& host) {
    std::unique_lock lock(mutex);
    ++look_ups[host];
    changed.notify_all();
    changed.wait(lock, [&] { return !stuck; });
    const auto found = records.find(host);
    if (found == records.end()) return absl::UnavailableError("no answer");
    return found->second;
  }
  void Set(const std::string& host, std::vector<std::string> addresses) {
    const std::lock_guard lock(mutex);
    records[host] = std::move(addresses);
  }
  bool WaitForLookUps(const std::string& host, int times) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(30),
                            [&] { return look_ups[host] >= times; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::vector<std::string>> records;
  std::map<std::string, int> look_ups;
  bool stuck = false;
};

struct Reports {
  void Add(const std::vector<PeerAddress>& peers) {
    const std::lock_guard lock(mutex);
    latest = peers;
    ++times;
    changed.notify_all();
  }
  bool WaitFor(const std::vector<PeerAddress>& expected) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(30), [&] { return latest == expected; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<PeerAddress> latest;
  int times = 0;
};

// Looks names up only on request: the interval is one hour.
AddressWatchOptions Options(Names& names, std::vector<std::string> addresses) {
  AddressWatchOptions options;
  options.addresses = std::move(addresses);
  options.interval = absl::Hours(1);
  options.least_interval = absl::ZeroDuration();
  options.look_up = [&names](const std::string& host) { return names.LookUp(host); };
  return options;
}

std::unique_ptr<AddressWatch> MustStart(AddressWatchOptions options, Reports& reports) {
  auto watch =
      AddressWatch::Start(std::move(options), [&](const auto& peers) { reports.Add(peers); });
  INFO(watch.status().ToString());
  REQUIRE(watch.ok());
  return *std::move(watch);
}

TEST_CASE("Addresses identify themselves and are reported before Start returns") {
  Names names;
  Reports reports;
  const auto watch =
      MustStart(Options(names, {"b:1", "unix:/tmp/socket", "a:2", "b:1", "[::1]:3"}), reports);
  CHECK(reports.times == 1);
  CHECK(reports.latest == std::vector<PeerAddress>{
                              {"b:1", ""}, {"unix:/tmp/socket", ""}, {"a:2", ""}, {"[::1]:3", ""}});
  CHECK(names.look_ups.empty());
}

TEST_CASE("A name yields a peer for each of its addresses, and each peer keeps the name") {
  Names names;
  names.Set("workers", {"10.0.0.2", "fd00::1", "10.0.0.1"});
  Reports reports;
  const auto watch =
      MustStart(Options(names, {"a:2", "dns:///workers:80", "10.0.0.1:80"}), reports);
  CHECK(reports.WaitFor({{"a:2", ""},
                         {"10.0.0.1:80", ""},
                         {"10.0.0.2:80", "workers:80"},
                         {"[fd00::1]:80", "workers:80"}}));
}

TEST_CASE("Changed DNS records are seen at the next lookup") {
  Names names;
  names.Set("workers", {"10.0.0.1", "10.0.0.2"});
  Reports reports;
  const auto watch = MustStart(Options(names, {"dns:workers:80"}), reports);
  REQUIRE(reports.WaitFor({{"10.0.0.1:80", "workers:80"}, {"10.0.0.2:80", "workers:80"}}));
  names.Set("workers", {"10.0.0.3", "10.0.0.2"});
  watch->LookAgain();
  CHECK(reports.WaitFor({{"10.0.0.2:80", "workers:80"}, {"10.0.0.3:80", "workers:80"}}));
}

TEST_CASE("Names are looked up periodically") {
  Names names;
  names.Set("workers", {"10.0.0.1"});
  Reports reports;
  AddressWatchOptions options = Options(names, {"dns:///workers:80"});
  options.interval = absl::Milliseconds(5);
  const auto watch = MustStart(std::move(options), reports);
  CHECK(names.WaitForLookUps("workers", 5));
  CHECK(reports.WaitFor({{"10.0.0.1:80", "workers:80"}}));
  // Once for the fixed addresses and once when the name resolved, not for each lookup.
  CHECK(reports.times == 2);
}

TEST_CASE("A failed or empty lookup changes nothing") {
  Names names;
  names.Set("workers", {"10.0.0.1"});
  Reports reports;
  const auto watch = MustStart(Options(names, {"dns:///workers:80"}), reports);
  REQUIRE(reports.WaitFor({{"10.0.0.1:80", "workers:80"}}));
  {
    const std::lock_guard lock(names.mutex);
    names.records.clear();
  }
  watch->LookAgain();
  REQUIRE(names.WaitForLookUps("workers", 2));
  names.Set("workers", {});
  watch->LookAgain();
  REQUIRE(names.WaitForLookUps("workers", 3));
  // The third lookup has ended when the fourth begins.
  watch->LookAgain();
  REQUIRE(names.WaitForLookUps("workers", 4));
  CHECK(reports.times == 2);
}

TEST_CASE("A name that does not resolve delays neither other names nor shutdown") {
  Names names;
  names.Set("workers", {"10.0.0.1"});
  auto stuck = std::make_shared<Names>();
  stuck->stuck = true;
  Reports reports;
  AddressWatchOptions options = Options(names, {"dns:///stuck:80", "dns:///workers:80"});
  options.look_up = [&names, stuck](const std::string& host) {
    return host == "stuck" ? stuck->LookUp(host) : names.LookUp(host);
  };
  {
    const auto watch = MustStart(std::move(options), reports);
    CHECK(reports.WaitFor({{"10.0.0.1:80", "workers:80"}}));
  }
  const std::lock_guard lock(stuck->mutex);
  stuck->stuck = false;  // lets the abandoned thread end
  stuck->changed.notify_all();
}

TEST_CASE("Unusable addresses are refused with their text") {
  for (const char* const bad : {"dns:///workers", "dns:///:80", "dns:///workers:http",
                                "dns://8.8.8.8/workers:80", "dns:///workers:70000"}) {
    const auto watch = AddressWatch::Start({.addresses = {bad}}, [](const auto&) {});
    CHECK(absl::IsInvalidArgument(watch.status()));
    CHECK_THAT(std::string(watch.status().message()), Catch::Contains(bad));
  }
}

TEST_CASE("The system resolver finds this machine and reports unknown names") {
  const auto local = LookUpHost("127.0.0.1");
  REQUIRE(local.ok());
  CHECK(*local == std::vector<std::string>{"127.0.0.1"});
  const auto named = LookUpHost("localhost");
  REQUIRE(named.ok());
  CHECK_FALSE(named->empty());
  CHECK_FALSE(LookUpHost("no-such-host.invalid").ok());
}

}  // namespace
}  // namespace kernelcast::orchestrator::address_watch_test
