// Runs against a real server started by the test.

#include "services/orchestrator/store/postgresql_event_store.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "services/orchestrator/store/postgresql_leases.h"
#include "tests/support/postgresql.h"
#include "tests/unit/services/orchestrator/store/event_store_suite.h"

namespace kernelcast::orchestrator {
namespace {

using kernelcast::testing::PostgresqlServer;
using testing::AppendOne;
using testing::Finishing;

constexpr absl::Duration kLease = absl::Seconds(30);

PostgresqlServer& Server() {
  static PostgresqlServer server;
  static const bool started = [] {
    const absl::Status status = server.Start();
    INFO(status.ToString());
    REQUIRE(status.ok());
    return true;
  }();
  (void)started;
  return server;
}

std::unique_ptr<PostgresqlLeases> Leases(const PostgresqlOptions& options,
                                         const std::string& holder, int shards = 1) {
  auto leases = PostgresqlLeases::Open(options, holder, shards, nullptr);
  INFO(leases.status().ToString());
  REQUIRE(leases.ok());
  return *std::move(leases);
}

std::unique_ptr<PostgresqlEventStore> Store(const PostgresqlOptions& options,
                                            const std::string& writer, int shard = 0) {
  auto store = PostgresqlEventStore::Open(options, shard, writer);
  INFO(store.status().ToString());
  REQUIRE(store.ok());
  return *std::move(store);
}

std::string Take(PostgresqlLeases& leases, int shard = 0, absl::Duration duration = kLease) {
  auto writer = leases.Acquire(shard, "here:1", duration);
  INFO(writer.status().ToString());
  REQUIRE(writer.ok());
  REQUIRE(writer->has_value());
  return **writer;
}

std::vector<int64_t> Times(const EventStore& store) {
  std::vector<int64_t> times;
  uint64_t next = 1;
  const absl::Status status = store.Replay(1, [&](const StoredEvent& stored) {
    CHECK(stored.sequence == next++);
    times.push_back(stored.event.time_ns);
    return absl::OkStatus();
  });
  INFO(status.ToString());
  CHECK(status.ok());
  return times;
}

// A proxy between client and server socket that can drop data in either direction.
class LossyProxy {
 public:
  enum class Lose { kNothing, kRequest, kReply };

  LossyProxy(const PostgresqlServer& server, const kernelcast::testing::TemporaryFolder& folder)
      : folder_(folder.path().string()) {
    const std::string uri = server.Uri();
    server_socket_ = uri.substr(uri.find("host=") + 5) + "/.s.PGSQL.5432";
    listener_ = Socket();
    const sockaddr_un address = Address(folder_ + "/.s.PGSQL.5432");
    REQUIRE(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(listener_, 8) == 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~LossyProxy() {
    stop_ = true;
    thread_.join();
    close(listener_);
  }

  PostgresqlOptions Options(PostgresqlOptions options, const std::string& database) const {
    options.uri = absl::StrCat("postgresql://kernelcast@/", database, "?host=", folder_);
    return options;
  }
  // The next bytes in this direction close their connection instead of arriving.
  void LoseNext(Lose what) { lose_ = what; }
  int lost() const { return lost_; }

 private:
  static int Socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  static sockaddr_un Address(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    // Also called on the proxy's thread, where Catch's assertions are not allowed.
    if (path.size() >= sizeof address.sun_path) throw std::length_error(path);
    path.copy(address.sun_path, path.size());
    return address;
  }

  void Run() {
    std::vector<std::pair<int, int>> pairs;  // client, server
    while (!stop_) {
      std::vector<pollfd> watched = {{listener_, POLLIN, 0}};
      for (const auto& [client, server] : pairs) {
        watched.push_back({client, POLLIN, 0});
        watched.push_back({server, POLLIN, 0});
      }
      if (poll(watched.data(), watched.size(), 20) <= 0) continue;
      std::vector<std::pair<int, int>> kept;
      for (size_t i = 0; i < pairs.size(); ++i) {
        const auto [client, server] = pairs[i];
        if (Pass(watched[1 + 2 * i], server, Lose::kRequest) &&
            Pass(watched[2 + 2 * i], client, Lose::kReply)) {
          kept.push_back(pairs[i]);
        } else {
          close(client);
          close(server);
        }
      }
      pairs = std::move(kept);
      if ((watched[0].revents & POLLIN) != 0) {
        const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        const int server = Socket();
        const sockaddr_un address = Address(server_socket_);
        if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
          close(client);
          close(server);
        } else {
          pairs.emplace_back(client, server);
        }
      }
    }
    for (const auto& [client, server] : pairs) {
      close(client);
      close(server);
    }
  }

  bool Pass(const pollfd& from, int to, Lose lost_here) {
    if (from.revents == 0) return true;
    char bytes[65536];
    const ssize_t got = read(from.fd, bytes, sizeof bytes);
    if (got <= 0) return false;
    Lose expected = lost_here;
    if (lose_.compare_exchange_strong(expected, Lose::kNothing)) {
      ++lost_;
      return false;
    }
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t now = write(to, bytes + sent, static_cast<size_t>(got - sent));
      if (now <= 0) return false;
      sent += now;
    }
    return true;
  }

  const std::string folder_;
  std::string server_socket_;
  int listener_ = -1;
  std::atomic<Lose> lose_ = Lose::kNothing;
  std::atomic<int> lost_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST_CASE("The PostgreSQL store meets the requirements of every store") {
  if (PostgresqlServer::Missing()) return;
  const PostgresqlOptions options = Server().Options(Server().NewDatabase());
  auto leases = Leases(options, "me", 3);
  testing::CheckEventStore([&] {
    const std::string writer = Take(*leases, 1);
    testing::StoreUnderTest log;
    log.name = "postgresql";
    log.open = [&options, writer]() -> absl::StatusOr<std::unique_ptr<EventStore>> {
      return PostgresqlEventStore::Open(options, 1, writer);
    };
    log.open_accepting_loss = [&options, writer]() -> absl::StatusOr<std::unique_ptr<EventStore>> {
      PostgresqlOptions accepting = options;
      accepting.accept_loss = true;
      return PostgresqlEventStore::Open(accepting, 1, writer);
    };
    log.execute = [&options](const std::string& sql) {
      auto connection = PostgresqlConnection::Open(options, nullptr);
      REQUIRE(connection.ok());
      const absl::Status done =
          (*connection)->Script(absl::StrReplaceAll(sql, {{"EVENTS", "kernelcast_events"}}));
      INFO(done.ToString());
      REQUIRE(done.ok());
    };
    log.damage = [execute = log.execute](uint64_t sequence) {
      execute(absl::StrCat("UPDATE EVENTS SET payload = '\\xffffffffffff' WHERE sequence = ",
                           sequence));
    };
    return log;
  });
}

TEST_CASE("Shards are separate logs") {
  if (PostgresqlServer::Missing()) return;
  const PostgresqlOptions options = Server().Options(Server().NewDatabase());
  auto leases = Leases(options, "me", 2);
  auto first = Store(options, Take(*leases, 0), 0);
  auto second = Store(options, Take(*leases, 1), 1);
  CHECK(AppendOne(*first, Finishing("s", 10), "r", "s").value() == 1);
  CHECK(AppendOne(*second, Finishing("s", 20), "r", "s").value() == 1);
  CHECK(AppendOne(*second, Finishing("s", 21), "r", "s").value() == 2);
  CHECK(Times(*first) == std::vector<int64_t>{10});
  CHECK(Times(*second) == std::vector<int64_t>{20, 21});
  CHECK(first->ReadEvaluation("r")->size() == 1);
  CHECK(second->ReadSearch("s", 1, 10)->size() == 2);
}

TEST_CASE("A replica that lost a shard can never write to it or disturb its new owner") {
  if (PostgresqlServer::Missing()) return;
  const PostgresqlOptions options = Server().Options(Server().NewDatabase());
  auto one = Leases(options, "one");
  auto two = Leases(options, "two");
  auto stale = Store(options, Take(*one, 0, absl::Milliseconds(1)));
  REQUIRE(AppendOne(*stale, Finishing("s", 1), "", "s").ok());

  // The lease has expired by now.
  std::optional<std::string> writer;
  for (int tries = 0; tries < 1000 && !writer; ++tries) {
    writer = two->Acquire(0, "there:2", kLease).value();
  }
  REQUIRE(writer);
  auto fresh = Store(options, *writer);
  const auto refused = AppendOne(*stale, Finishing("s", 99), "", "s");
  CHECK(refused.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(AppendOne(*fresh, Finishing("s", 2), "", "s").value() == 2);
  CHECK(AppendOne(*stale, Finishing("s", 99), "", "s").status().code() ==
        absl::StatusCode::kFailedPrecondition);
  CHECK(Times(*fresh) == std::vector<int64_t>{1, 2});
  // It may still read.
  CHECK(Times(*stale) == std::vector<int64_t>{1, 2});
  // Renewing does not restore it, and it cannot release what it does not own.
  REQUIRE(one->Renew("here:1", kLease, false).ok());
  REQUIRE(one->Release(0).ok());
  CHECK(AppendOne(*fresh, Finishing("s", 3), "", "s").value() == 3);
  CHECK(PostgresqlEventStore::Open(options, 0, "w_made_up").status().code() ==
        absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("An append overtaken by a takeover is refused") {
  if (PostgresqlServer::Missing()) return;
  const std::string database = Server().NewDatabase();
  const PostgresqlOptions options = Server().Options(database);
  auto one = Leases(options, "one");
  auto stale = Store(options, Take(*one));
  REQUIRE(AppendOne(*stale, Finishing("s", 1), "", "s").ok());
  // Another transaction holds the row during the append and then gives the shard away.
  auto other = PostgresqlConnection::Open(options, nullptr).value();
  REQUIRE(other->Script("BEGIN; UPDATE kernelcast_shards SET writer = 'w_other'").ok());
  absl::StatusOr<uint64_t> appended;
  std::thread appending([&] { appended = AppendOne(*stale, Finishing("s", 2), "", "s"); });
  // Waits until the append blocks on the row lock.
  int64_t waiting = 0;
  for (int tries = 0; tries < 5000 && waiting == 0; ++tries) {
    waiting = Server()
                  .Number("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
                          database)
                  .value();
  }
  CHECK(waiting == 1);
  REQUIRE(other->Script("COMMIT").ok());
  appending.join();
  CHECK(appended.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(Times(*stale) == std::vector<int64_t>{1});
}

TEST_CASE("An append whose request or reply is lost is stored once") {
  if (PostgresqlServer::Missing()) return;
  const std::string database = Server().NewDatabase();
  kernelcast::testing::TemporaryFolder folder("proxy");
  LossyProxy proxy(Server(), folder);
  auto leases = Leases(Server().Options(database), "me");
  auto store = Store(proxy.Options(Server().Options(database), database), Take(*leases));
  std::vector<int64_t> expected;
  int64_t time = 0;
  for (const LossyProxy::Lose lose :
       {LossyProxy::Lose::kReply, LossyProxy::Lose::kRequest, LossyProxy::Lose::kRequest,
        LossyProxy::Lose::kReply, LossyProxy::Lose::kReply}) {
    // The first append prepares the statement, so that the next exchange is the append itself.
    for (const LossyProxy::Lose now : {LossyProxy::Lose::kNothing, lose}) {
      proxy.LoseNext(now);
      expected.push_back(++time);
      const auto appended = AppendOne(*store, Finishing("s", time), "", "s");
      INFO(appended.status().ToString());
      REQUIRE(appended.ok());
      CHECK(*appended == static_cast<uint64_t>(time));
    }
  }
  CHECK(proxy.lost() == 5);
  CHECK(Times(*store) == expected);
  // The lease is unchanged.
  const auto view = leases->Renew("here:1", kLease, false);
  REQUIRE(view.ok());
  CHECK(view->shards.at(0).holder == "me");
  CHECK(view->shards.at(0).epoch == 1);
}

TEST_CASE("An append in doubt fails if another replica took the shard meanwhile") {
  if (PostgresqlServer::Missing()) return;
  const std::string database = Server().NewDatabase();
  kernelcast::testing::TemporaryFolder folder("proxy");
  LossyProxy proxy(Server(), folder);
  auto one = Leases(Server().Options(database), "one");
  auto stale = Store(proxy.Options(Server().Options(database), database), Take(*one));
  REQUIRE(AppendOne(*stale, Finishing("s", 1), "", "s").ok());
  REQUIRE(one->Release(0).ok());
  auto two = Leases(Server().Options(database), "two");
  auto fresh = Store(Server().Options(database), Take(*two));
  // As many events as the append in doubt would have added: the number alone must not decide.
  REQUIRE(AppendOne(*fresh, Finishing("s", 2), "", "s").ok());
  proxy.LoseNext(LossyProxy::Lose::kRequest);
  CHECK(AppendOne(*stale, Finishing("s", 99), "", "s").status().code() ==
        absl::StatusCode::kFailedPrecondition);
  CHECK(Times(*fresh) == std::vector<int64_t>{1, 2});
}

TEST_CASE("A server that crashes repeatedly neither loses nor duplicates an append") {
  if (PostgresqlServer::Missing()) return;
  const auto seed =
      static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  PostgresqlServer server;
  REQUIRE(server.Start().ok());
  auto leases = Leases(server.Options(), "me");
  auto store = Store(server.Options(), Take(*leases));

  constexpr int kCrashes = 8;
  std::mutex mutex;
  std::condition_variable grown;
  int64_t appended = 0;
  bool enough = false;
  absl::Status failure;
  std::thread writer([&] {
    std::unique_lock lock(mutex);
    while (!enough && failure.ok()) {
      const int64_t batch = appended;
      lock.unlock();
      std::vector<Event> events(1 + static_cast<size_t>(batch % 7), Finishing("s", batch));
      std::vector<AppendEntry> entries;
      entries.reserve(events.size());
      for (const Event& event : events) entries.push_back({&event, "", "s"});
      const auto first = store->Append(entries);
      lock.lock();
      if (!first.ok()) failure = first.status();
      ++appended;
      grown.notify_all();
    }
  });
  for (int crash = 0; crash < kCrashes; ++crash) {
    {
      std::unique_lock lock(mutex);
      const int64_t until = appended + std::uniform_int_distribution<int64_t>(1, 200)(random);
      REQUIRE(grown.wait_for(lock, std::chrono::seconds(60),
                             [&] { return appended >= until || !failure.ok(); }));
    }
    if (crash % 2 == 0) {
      server.Crash();
    } else {
      server.Stop();
    }
    const absl::Status again = server.Start();
    INFO(again.ToString());
    REQUIRE(again.ok());
  }
  {
    const std::lock_guard lock(mutex);
    enough = true;
  }
  writer.join();
  INFO(failure.ToString());
  CHECK(failure.ok());
  std::vector<int64_t> expected;
  for (int64_t batch = 0; batch < appended; ++batch) {
    for (int64_t i = 0; i < 1 + batch % 7; ++i) expected.push_back(batch);
  }
  CHECK(Times(*store) == expected);
  WARN(kCrashes << " ends of the server, " << appended << " appends");
}

TEST_CASE("A server that stays away fails the append and a stop ends the wait") {
  if (PostgresqlServer::Missing()) return;
  PostgresqlServer server;
  REQUIRE(server.Start().ok());
  PostgresqlOptions options = server.Options();
  options.reconnect_timeout = absl::Milliseconds(300);
  auto leases = Leases(options, "me", 2);
  auto impatient = Store(options, Take(*leases, 0), 0);
  options.reconnect_timeout = absl::Hours(1);
  auto patient = Store(options, Take(*leases, 1), 1);
  server.Crash();
  CHECK(AppendOne(*impatient, Finishing("s", 1), "", "s").status().code() ==
        absl::StatusCode::kUnavailable);
  CHECK(leases->Renew("here:1", kLease, false).status().code() == absl::StatusCode::kUnavailable);

  absl::Status stopped;
  std::thread waiting([&] { stopped = AppendOne(*patient, Finishing("s", 1), "", "s").status(); });
  patient->Stop();
  waiting.join();
  CHECK(stopped.code() == absl::StatusCode::kCancelled);

  REQUIRE(server.Start().ok());
  // A failed store does not know where the log ends and keeps reporting that.
  CHECK(AppendOne(*impatient, Finishing("s", 1), "", "s").status().code() ==
        absl::StatusCode::kUnavailable);
  CHECK(Times(*impatient).empty());
  CHECK(leases->Renew("here:1", kLease, false).ok());
}

TEST_CASE("A log whose end is missing is refused") {
  if (PostgresqlServer::Missing()) return;
  const std::string database = Server().NewDatabase();
  const PostgresqlOptions options = Server().Options(database);
  auto leases = Leases(options, "me");
  const std::string writer = Take(*leases);
  {
    auto store = Store(options, writer);
    for (int i = 1; i <= 3; ++i) REQUIRE(AppendOne(*store, Finishing("s", i), "", "s").ok());
  }
  REQUIRE(Server().Run("DELETE FROM kernelcast_events WHERE sequence = 3", database).ok());
  const auto store = PostgresqlEventStore::Open(options, 0, writer);
  CHECK(store.status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("A log of a newer version is refused and an existing one keeps its shards") {
  if (PostgresqlServer::Missing()) return;
  const std::string database = Server().NewDatabase();
  const PostgresqlOptions options = Server().Options(database);
  CHECK(Leases(options, "me", 5)->shards() == 5);
  CHECK(Leases(options, "me", 9)->shards() == 5);
  REQUIRE(Server().Run("UPDATE kernelcast_log SET version = 99", database).ok());
  const auto leases = PostgresqlLeases::Open(options, "me", 1, nullptr);
  CHECK(leases.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(leases.status().message()), Catch::Contains("99"));
}

TEST_CASE("Replicas that start together on an empty database agree") {
  if (PostgresqlServer::Missing()) return;
  const PostgresqlOptions options = Server().Options(Server().NewDatabase());
  std::vector<std::thread> threads;
  std::vector<absl::Status> opened(8);
  threads.reserve(opened.size());
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      opened[static_cast<size_t>(i)] =
          PostgresqlLeases::Open(options, absl::StrCat("r", i), i + 1, nullptr).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : opened) {
    INFO(status.ToString());
    CHECK(status.ok());
  }
  auto leases = Leases(options, "me");
  CHECK(leases->Renew("here:1", kLease, false)->shards.size() ==
        static_cast<size_t>(leases->shards()));
}

TEST_CASE("A lease has one owner, is kept by renewal and lost by silence") {
  if (PostgresqlServer::Missing()) return;
  const std::string database = Server().NewDatabase();
  const PostgresqlOptions options = Server().Options(database);
  auto one = Leases(options, "one", 2);
  auto two = Leases(options, "two", 2);
  REQUIRE(one->Renew("here:1", kLease, false).ok());
  Take(*one, 0);
  CHECK(!two->Acquire(0, "there:2", kLease)->has_value());
  CHECK(!one->Acquire(0, "here:1", kLease)->has_value());
  auto view = two->Renew("there:2", kLease, false).value();
  CHECK(view.replicas == 2);
  CHECK(view.others == 1);
  REQUIRE(view.shards.size() == 2);
  CHECK(view.shards[0].holder == "one");
  CHECK(view.shards[0].address == "here:1");
  CHECK(view.shards[0].valid);
  CHECK(view.shards[1].holder.empty());
  CHECK(!view.shards[1].valid);

  // Uses the database clock, which the test sets back instead of waiting.
  REQUIRE(Server()
              .Run("UPDATE kernelcast_shards SET expires_at = now() - interval '1 s';"
                   "UPDATE kernelcast_replicas SET expires_at = now() - interval '1 s'"
                   " WHERE holder = 'one'",
                   database)
              .ok());
  view = two->Renew("there:2", kLease, false).value();
  CHECK(view.replicas == 1);
  CHECK(!view.shards[0].valid);
  // Late, but no other replica has taken it meanwhile.
  CHECK(one->Renew("here:1", kLease, false)->shards[0].valid);
  CHECK(!two->Acquire(0, "there:2", kLease)->has_value());
  REQUIRE(one->Release(0).ok());
  CHECK(two->Acquire(0, "there:2", kLease)->has_value());
  view = one->Renew("here:1", kLease, true).value();
  CHECK(view.shards[0].holder == "two");
  CHECK(view.shards[0].epoch == 2);
  CHECK(view.replicas == 1);  // the leaving one does not count
  REQUIRE(one->Withdraw().ok());
  CHECK(Server().Number("SELECT count(*) FROM kernelcast_replicas", database).value() == 1);
}

TEST_CASE("Problems are stored for every shard") {
  if (PostgresqlServer::Missing()) return;
  const PostgresqlOptions options = Server().Options(Server().NewDatabase());
  auto leases = Leases(options, "me");
  CHECK(!leases->GetProblem("p1")->has_value());
  const std::vector<ProblemFile> files = {{"problem.yaml", std::string("a\0\xff", 3)}, {"b", ""}};
  REQUIRE(leases->PutProblem("p1", files).ok());
  REQUIRE(leases->PutProblem("p1", files).ok());
  const auto problem = leases->GetProblem("p1");
  REQUIRE(problem.ok());
  REQUIRE(problem->has_value());
  REQUIRE((*problem)->size() == 2);
  CHECK((**problem)[0].content == files[0].content);
  CHECK((**problem)[1].path == "b");
}

TEST_CASE("A password must be in a file and is never repeated") {
  for (const std::string uri :
       {"postgresql://user:hunter2@host/db", "postgresql://host/db?password=hunter2",
        "postgresql://host/db?sslpassword=hunter2", "postgresql://user:hunter2@[bad/db",
        "host=x password=hunter2", "sqlite://hunter2"}) {
    CAPTURE(uri);
    const absl::Status status = CheckPostgresqlUri(uri);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), !Catch::Contains("hunter2"));
  }
  CHECK(CheckPostgresqlUri("postgresql://user@a,b:5433/db?sslmode=verify-full&sslrootcert=/ca.crt"
                           "&target_session_attrs=read-write&passfile=/p")
            .ok());
}

TEST_CASE("The password file is read again for each connection") {
  if (PostgresqlServer::Missing()) return;
  PostgresqlServer server;
  REQUIRE(server.Start().ok());
  REQUIRE(server
              .Run("SET password_encryption = 'scram-sha-256';"
                   "CREATE ROLE service LOGIN PASSWORD 'first';"
                   "GRANT ALL ON SCHEMA public TO service;")
              .ok());
  const std::string uri = server.Uri();
  const std::string folder = uri.substr(uri.find("host=") + 5);
  {
    std::ofstream rules(folder + "/data/pg_hba.conf", std::ios::trunc);
    rules << "local all service scram-sha-256\nlocal all all trust\n";
  }
  REQUIRE(server.Run("SELECT pg_reload_conf()").ok());
  kernelcast::testing::TemporaryFolder secrets("secrets");
  PostgresqlOptions options;
  options.uri = absl::StrCat("postgresql://service@/postgres?host=", folder);
  options.password_file = secrets.File("password");
  CHECK(PostgresqlConnection::Open(options, nullptr).status().code() ==
        absl::StatusCode::kInvalidArgument);
  std::ofstream(options.password_file) << "wrong\n";
  // Reloaded rules take effect a moment later.
  absl::Status refused;
  for (int tries = 0; tries < 500 && refused.ok(); ++tries) {
    refused = PostgresqlConnection::Open(options, nullptr).status();
  }
  CHECK(refused.code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(refused.message()), Catch::Contains("password authentication failed"));
  std::ofstream(options.password_file, std::ios::trunc) << "first\nnot this\n";
  CHECK(PostgresqlLeases::Open(options, "me", 1, nullptr).ok());
  REQUIRE(server.Run("ALTER ROLE service PASSWORD 'second'").ok());
  std::ofstream(options.password_file, std::ios::trunc) << "second";
  CHECK(PostgresqlConnection::Open(options, nullptr).ok());
}

// Runs only on request: the cost of taking over a long log.
TEST_CASE("A million events are replayed", "[.bench]") {
  if (PostgresqlServer::Missing()) return;
  constexpr int kEvents = 1'000'000;
  const std::string database = Server().NewDatabase();
  const PostgresqlOptions options = Server().Options(database);
  auto leases = Leases(options, "me");
  auto store = Store(options, Take(*leases));
  const std::vector<Event> events(1000,
                                  Finishing("a-search-of-some-name", 1'700'000'000'000'000'000));
  std::vector<AppendEntry> entries;
  entries.reserve(events.size());
  for (const Event& event : events) entries.push_back({&event, "r", "s"});
  for (int i = 0; i < kEvents; i += 1000) REQUIRE(store->Append(entries).ok());
  const auto start = std::chrono::steady_clock::now();
  int replayed = 0;
  REQUIRE(store
              ->Replay(1,
                       [&](const StoredEvent&) {
                         ++replayed;
                         return absl::OkStatus();
                       })
              .ok());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK(replayed == kEvents);
  const auto appending = std::chrono::steady_clock::now();
  constexpr int kAppends = 2000;
  for (int i = 0; i < kAppends; ++i) REQUIRE(AppendOne(*store, Finishing("s", i), "r", "s").ok());
  const double each_us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - appending)
          .count() /
      kAppends;
  WARN(kEvents << " events replayed in " << seconds << " s; an append of one takes " << each_us
               << " us (without waiting for the disk)");
}

}  // namespace
}  // namespace kernelcast::orchestrator
