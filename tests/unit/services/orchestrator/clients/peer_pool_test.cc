// The contract of PeerPool, with peers and a clock that the test controls.

#include "services/orchestrator/clients/peer_pool.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast::orchestrator::peer_pool_test {
namespace {

// A peer without a network. Its calls end when the test says so.
class ScriptedPeer final : public Peer {
 public:
  struct Call {
    std::stop_token stop;
    Done done;
  };

  explicit ScriptedPeer(const std::string& peer_address)
      : Peer(peer_address), reported({peer_address, kProtocolVersion, false}) {}

  void Describe(absl::Duration, std::stop_token, Done done) override {
    ++descriptions;
    if (silent) {
      held_descriptions.push_back(std::move(done));
    } else {
      done(description_status);
    }
  }
  void PutProblem(const Problem& problem, absl::Duration, std::stop_token, Done done) override {
    problems.push_back(problem.problem_id);
    if (holds_puts) {
      held_puts.push_back(std::move(done));
    } else {
      done(absl::OkStatus());
    }
  }
  void CancelStreams() override { ++stream_cancellations; }
  void StopStreams() override {
    for (Done& done : std::exchange(held_descriptions, {})) done(absl::CancelledError());
    for (Done& done : std::exchange(held_puts, {})) done(absl::CancelledError());
    End(absl::CancelledError());
  }

  // Ends all calls in progress, or the `count` oldest.
  void End(const absl::Status& status, size_t count = SIZE_MAX) {
    for (size_t left = std::min(count, calls.size()); left > 0; --left) {
      const Call call = std::move(calls.front());
      calls.pop_front();
      call.done(status);
    }
  }
  void EndCancelled() {
    for (const Call& call : std::exchange(calls, {})) {
      if (call.stop.stop_requested()) {
        call.done(absl::CancelledError());
      } else {
        calls.push_back(call);
      }
    }
  }

  // The peer's answer.
  PeerKind::Report reported;
  absl::Status description_status;
  bool silent = false;
  bool holds_puts = false;
  int credits = 4;

  std::deque<Call> calls;
  std::vector<Done> held_descriptions;
  std::vector<Done> held_puts;
  std::vector<std::string> problems;
  int descriptions = 0;
  int stream_cancellations = 0;
};

struct ScriptedJob final : PeerJob {
  void Send(Peer& peer, std::stop_token stop, Peer::Done done) override {
    static_cast<ScriptedPeer&>(peer).calls.push_back({std::move(stop), std::move(done)});
  }
  void Finish(const absl::Status& status) override { ends->push_back(status); }
  bool WaitsLike(const PeerJob&) const override { return true; }

  std::vector<absl::Status>* ends = nullptr;
};

class ScriptedKind final : public PeerKind {
 public:
  std::string_view noun() const override { return "peer"; }
  bool asks_unavailable() const override { return last_resort; }
  absl::StatusOr<std::shared_ptr<Peer>> Connect(const PeerAddress& address) override {
    auto peer = std::make_shared<ScriptedPeer>(address.address);
    known[address.address] = peer;
    return peer;
  }
  Report ReportOf(const Peer& peer) const override {
    return static_cast<const ScriptedPeer&>(peer).reported;
  }
  std::string Objection(const Peer&, const Peers&) const override { return ""; }
  bool Keep(Peer&, bool) override { return false; }
  std::optional<Fit> FitFor(const Peer& peer, const PeerJob&, const Peers&) const override {
    const int credits = static_cast<const ScriptedPeer&>(peer).credits;
    const int64_t free = credits - static_cast<int64_t>(peer.in_flight[0]);
    return Fit{free, peer.record.in() ? 0 : 1, static_cast<double>(free) / credits};
  }
  void Prepare(const Peer&, PeerJob&) const override {}
  std::optional<absl::Duration> RetryIn(Peer&, PeerJob& job, CallEnd end,
                                        std::optional<absl::Duration> hint, const Peers&) override {
    ends.insert(end);
    if (job.attempts >= 4 || job.losses >= 10) return std::nullopt;
    return hint.value_or(absl::ZeroDuration());
  }
  void OnPeersChanged(const Peers& added, const Peers& removed) override {
    changes.emplace_back(added.size(), removed.size());
  }
  void OnDescribed(const std::shared_ptr<Peer>&) override {}
  void OnCapacityChanged() override { ++capacity_changes; }
  void OnPoll() override {}

  bool last_resort = false;
  std::map<std::string, std::shared_ptr<ScriptedPeer>> known;  // the latest at each address
  std::vector<std::pair<size_t, size_t>> changes;
  std::set<CallEnd> ends;
  int capacity_changes = 0;
};

struct World {
  World() {
    auto made = std::make_shared<Problem>();
    made->problem_id = "p";
    problem = made;
    PeerPoolOptions options;
    options.clock = &clock;
    pool = std::make_unique<PeerPool>(options, &kind);
  }

  // Sets the DNS records and lets the peers describe themselves.
  void Find(const std::vector<std::string>& addresses) {
    std::vector<PeerAddress> peers;
    for (const std::string& address : addresses) peers.push_back({address, ""});
    pool->SetPeers(peers);
    pool->Poll();
  }
  void Advance(absl::Duration duration) {
    clock.Advance(absl::ToInt64Nanoseconds(duration));
    pool->Poll();
  }
  std::shared_ptr<ScriptedJob> MakeJob() {
    auto job = std::make_shared<ScriptedJob>();
    job->request_id = absl::StrCat("r", ++submitted);
    job->problem = problem;
    job->ends = &ends;
    return job;
  }
  void Submit(int count = 1) {
    for (int i = 0; i < count; ++i) pool->Submit(MakeJob());
  }
  // Calls in progress at the peer.
  size_t At(const std::string& address) const { return Of(address).calls.size(); }
  ScriptedPeer& Of(const std::string& address) const { return *kind.known.at(address); }
  bool IsHealthy(const std::string& address) const {
    return pool->WithPeers([&](const PeerKind::Peers&) { return Of(address).healthy; });
  }
  bool IsEjected(const std::string& address) const {
    return pool->WithPeers([&](const PeerKind::Peers&) { return !Of(address).record.in(); });
  }
  size_t Succeeded() const {
    return std::ranges::count_if(ends, [](const absl::Status& status) { return status.ok(); });
  }
  // Makes calls until the bad peer is ejected. Others succeed.
  void EjectByFailures(const std::string& bad, const absl::Status& error) {
    for (int i = 0; i < 20 && !IsEjected(bad); ++i) {
      Submit();
      Of(bad).End(error);
      for (auto& [address, peer] : kind.known) {
        if (address != bad) peer->End(absl::OkStatus());
      }
    }
    REQUIRE(IsEjected(bad));
  }

  FakeClock clock;
  ScriptedKind kind;
  std::vector<absl::Status> ends;
  std::shared_ptr<const Problem> problem;
  int submitted = 0;
  std::unique_ptr<PeerPool> pool;
};

const absl::Status kBroken = absl::InternalError("broken");

TEST_CASE("A peer is used once it has described itself", "[peer_pool]") {
  World world;
  world.Find({"a"});
  world.Of("a").silent = true;
  CHECK(world.IsHealthy("a"));
  world.pool->SetPeers({{"a", ""}, {"b", ""}});
  CHECK_FALSE(world.IsHealthy("b"));
  world.Submit(8);
  CHECK(world.At("a") == 4);
  CHECK(world.At("b") == 0);
  world.pool->Poll();
  CHECK(world.IsHealthy("b"));
  CHECK(world.At("b") == 4);
  CHECK(world.kind.changes == std::vector<std::pair<size_t, size_t>>{{1, 0}, {1, 0}});
}

TEST_CASE("A peer removed from DNS finishes its work, gets no more, and is used when it is back",
          "[peer_pool]") {
  World world;
  world.Find({"a", "b"});
  world.Submit(8);
  REQUIRE(world.At("a") == 4);
  const std::shared_ptr<ScriptedPeer> before = world.kind.known["a"];
  world.Find({"b"});
  world.Submit(1);
  CHECK(before->calls.size() == 4);
  CHECK(world.pool->QueueDepth() == 1);
  before->End(absl::OkStatus(), 1);
  CHECK(before->calls.size() == 3);
  CHECK(world.pool->QueueDepth() == 1);
  world.Find({"a", "b"});
  CHECK(world.kind.known["a"] != before);
  CHECK(world.At("a") == 1);
  // The calls of the one that left still count.
  before->End(absl::OkStatus());
  world.Of("a").End(absl::OkStatus());
  world.Of("b").End(absl::OkStatus());
  CHECK(world.Succeeded() == 9);
}

TEST_CASE("A removed peer that falls silent loses its calls to others", "[peer_pool]") {
  World world;
  world.Find({"a", "b"});
  world.Submit(2);
  const std::shared_ptr<ScriptedPeer> left = world.kind.known["a"];
  REQUIRE(left->calls.size() == 1);
  world.Find({"b"});
  left->description_status = absl::DeadlineExceededError("silent");
  world.Advance(absl::Seconds(2));
  world.Advance(absl::Seconds(16));
  left->EndCancelled();
  CHECK(left->calls.empty());
  CHECK(world.At("b") == 2);
}

TEST_CASE("A peer whose description fails is away until one succeeds", "[peer_pool]") {
  World world;
  world.Find({"a"});
  world.Of("a").description_status = absl::UnavailableError("not serving");
  world.Advance(absl::Seconds(2));
  CHECK_FALSE(world.IsHealthy("a"));
  CHECK(world.Of("a").unhealthy_reason == "not serving");
  world.Submit();
  CHECK(world.At("a") == 0);
  const int capacity_changes = world.kind.capacity_changes;
  world.Of("a").description_status = absl::OkStatus();
  world.Advance(absl::Milliseconds(499));
  CHECK_FALSE(world.IsHealthy("a"));
  world.Advance(absl::Milliseconds(1));
  CHECK(world.IsHealthy("a"));
  CHECK(world.At("a") == 1);
  CHECK(world.kind.capacity_changes == capacity_changes + 1);
}

TEST_CASE("Peers that are away are asked only where their kind allows it", "[peer_pool]") {
  World world;
  world.kind.last_resort = GENERATE(false, true);
  world.Find({"a", "b"});
  world.Of("a").description_status = absl::UnavailableError("away");
  world.Advance(absl::Seconds(2));
  world.Submit(2);
  CHECK(world.At("a") == 0);
  CHECK(world.At("b") == 2);
  world.Of("b").description_status = absl::UnavailableError("away");
  world.Advance(absl::Seconds(2));
  world.Submit();
  CHECK(world.At("a") + world.At("b") == (world.kind.last_resort ? 3 : 2));
}

TEST_CASE("A peer of an incompatible version is not used", "[peer_pool]") {
  World world;
  world.pool->SetPeers({{"a", ""}});
  world.Of("a").reported.protocol_version = kProtocolVersion + 2;
  world.pool->Poll();
  CHECK_FALSE(world.IsHealthy("a"));
  CHECK_THAT(world.Of("a").unhealthy_reason, Catch::Contains("upgrade"));
}

TEST_CASE("A slow peer keeps its calls while it describes itself and loses them when it is silent",
          "[peer_pool]") {
  World world;
  world.Find({"slow", "b"});
  world.Submit(4);
  REQUIRE(world.At("slow") == 2);
  for (int i = 0; i < 60; ++i) world.Advance(absl::Seconds(1));
  world.Of("slow").EndCancelled();
  CHECK(world.At("slow") == 2);
  world.Of("slow").description_status = absl::DeadlineExceededError("silent");
  world.Advance(absl::Seconds(2));
  CHECK_FALSE(world.IsHealthy("slow"));
  world.Advance(absl::Seconds(12));
  world.Of("slow").EndCancelled();
  CHECK(world.At("slow") == 2);
  world.Advance(absl::Seconds(2));
  world.Advance(absl::Seconds(2));
  CHECK(world.Of("slow").stream_cancellations == 1);
  world.Of("slow").EndCancelled();
  CHECK(world.At("slow") == 0);
  CHECK(world.At("b") == 4);
  CHECK(world.pool->Counts().repeated_lost == 2);
}

TEST_CASE("A peer that has not described itself yet has as long as any other", "[peer_pool]") {
  World world;
  world.kind.last_resort = true;
  world.pool->SetPeers({{"a", ""}});
  world.Of("a").silent = true;
  world.Submit();
  world.Advance(absl::Seconds(15));
  CHECK(world.Of("a").stream_cancellations == 0);
  CHECK_FALSE(world.Of("a").calls.front().stop.stop_requested());
  world.Advance(absl::Seconds(1));
  CHECK(world.Of("a").stream_cancellations == 1);
  CHECK(world.Of("a").calls.front().stop.stop_requested());
}

TEST_CASE("Requests go to the peer with the most room and wait in order", "[peer_pool]") {
  World world;
  world.Find({"a", "b"});
  world.Of("b").credits = 8;
  world.Submit(12);
  CHECK(world.At("a") == 4);
  CHECK(world.At("b") == 8);
  world.Submit(3);
  CHECK(world.pool->QueueDepth() == 3);
  world.Of("a").End(absl::OkStatus(), 2);
  CHECK(world.At("a") == 4);
  CHECK(world.pool->QueueDepth() == 1);
}

TEST_CASE("Equal peers take turns", "[peer_pool]") {
  World world;
  world.Find({"a", "b", "c"});
  std::map<std::string, int> chosen;
  for (int i = 0; i < 9; ++i) {
    world.Submit();
    for (const std::string address : {"a", "b", "c"}) {
      chosen[address] += static_cast<int>(world.At(address));
      world.Of(address).End(absl::OkStatus());
    }
  }
  CHECK(chosen == std::map<std::string, int>{{"a", 3}, {"b", 3}, {"c", 3}});
}

TEST_CASE("A failing peer is ejected, probed by one call after a growing pause, and readmitted",
          "[peer_pool]") {
  World world;
  world.Find({"bad", "good"});
  world.EjectByFailures("bad", kBroken);
  CHECK(world.pool->Counts().ejections == 1);
  const auto work = [&](int count) {
    world.Submit(count);
    const size_t at_bad = world.At("bad");
    world.Of("good").End(absl::OkStatus());
    return at_bad;
  };
  CHECK(work(4) == 0);
  world.Advance(absl::Milliseconds(999));
  CHECK(work(4) == 0);
  // The pause of the first ejection is 1 s, of the second 2 s.
  world.Advance(absl::Milliseconds(1));
  CHECK(work(4) == 1);
  world.Of("bad").End(kBroken);
  world.Of("good").End(absl::OkStatus());
  CHECK(world.pool->Counts().ejections == 2);
  world.Advance(absl::Milliseconds(1999));
  CHECK(work(4) == 0);
  world.Advance(absl::Milliseconds(1));
  CHECK(work(4) == 1);
  const int capacity_changes = world.kind.capacity_changes;
  world.Of("bad").End(absl::OkStatus());
  CHECK_FALSE(world.IsEjected("bad"));
  CHECK(world.kind.capacity_changes == capacity_changes + 1);
  CHECK(work(4) == 2);
  world.Of("bad").End(absl::OkStatus());
  CHECK(world.Succeeded() == world.ends.size());
}

TEST_CASE("At most half of the peers are ejected, and those are used where there is no other",
          "[peer_pool]") {
  World world;
  world.Find({"a", "b"});
  world.EjectByFailures("a", kBroken);
  for (int i = 0; i < 30; ++i) {
    world.Submit();
    for (int call = 0; call < 4; ++call) {
      world.Of("b").End(kBroken);
      world.Of("a").End(kBroken);
    }
  }
  CHECK_FALSE(world.IsEjected("b"));
  CHECK(world.pool->Counts().ejections == 1);
  world.Of("b").description_status = absl::UnavailableError("away");
  world.Advance(absl::Seconds(2));
  // It is ejected again, because its probe failed.
  world.Submit();
  world.Of("a").End(kBroken);
  REQUIRE(world.IsEjected("a"));
  CHECK(world.At("a") == 1);
}

TEST_CASE("Peers that fail equally are not blamed", "[peer_pool]") {
  World world;
  world.Find({"a", "b", "c", "d"});
  for (int i = 0; i < 64; ++i) {
    world.Submit(4);
    for (auto& [address, peer] : world.kind.known) peer->End(kBroken);
  }
  CHECK(world.ends.size() > 40);
  CHECK(world.pool->Counts().ejections == 0);
}

TEST_CASE("A lost connection counts as one failure, no matter how many calls it ends",
          "[peer_pool]") {
  World world;
  world.Find({"a", "b"});
  world.Submit(8);
  REQUIRE(world.At("a") == 4);
  const int described = world.Of("a").descriptions;
  world.Of("a").End(absl::UnavailableError("connection reset"));
  CHECK_FALSE(world.IsHealthy("a"));
  CHECK_FALSE(world.IsEjected("a"));
  CHECK(world.pool->Counts().repeated_lost == 4);
  // It is asked soon whether it is back.
  world.Advance(absl::Milliseconds(100));
  CHECK(world.Of("a").descriptions == described + 1);
  CHECK(world.IsHealthy("a"));
}

TEST_CASE("A restarted peer begins with a clean record and without problems", "[peer_pool]") {
  World world;
  world.Find({"bad", "good"});
  world.EjectByFailures("bad", kBroken);
  REQUIRE(world.Of("bad").problems.size() == 1);
  world.Of("bad").reported.process_id = "another";
  world.Advance(absl::Seconds(2));
  CHECK_FALSE(world.IsEjected("bad"));
  world.Submit(2);
  CHECK(world.At("bad") == 1);
  CHECK(world.Of("bad").problems.size() == 2);
}

TEST_CASE("A draining peer gets no work, and what it hands back costs no attempt", "[peer_pool]") {
  World world;
  world.Find({"a", "b"});
  world.Submit(4);
  REQUIRE(world.At("a") == 2);
  SECTION("it hands work back before it says that it drains") {
    world.Of("a").End(NotStartedError("draining"));
    CHECK(world.At("a") == 0);
    CHECK(world.At("b") == 4);
    CHECK(world.pool->Counts().repeated_handed_back == 2);
    CHECK(world.pool->Counts().ejections == 0);
  }
  SECTION("it says so and finishes its work") {
    world.Of("a").reported.draining = true;
    world.Advance(absl::Seconds(2));
    world.Of("a").End(absl::OkStatus());
    world.Submit(2);
    CHECK(world.At("a") == 0);
    CHECK(world.At("b") == 4);
  }
  CHECK(world.IsHealthy("a"));
  world.Of("a").reported.draining = false;
  world.Of("b").End(absl::OkStatus());
  world.Advance(absl::Seconds(2));
  world.Submit(2);
  CHECK(world.At("a") == 1);
}

TEST_CASE("A refused request waits as long as the peer asks, a minute at most", "[peer_pool]") {
  World world;
  world.Find({"a"});
  const absl::Duration hint = GENERATE(absl::Seconds(3), absl::Hours(115 * 24));
  world.Submit();
  world.Of("a").End(OverloadedError("full", hint));
  const absl::Duration wait = std::min(hint, kLongestRetryAfter);
  world.Advance(wait - absl::Milliseconds(1));
  CHECK(world.At("a") == 0);
  world.Advance(absl::Milliseconds(1));
  CHECK(world.At("a") == 1);
  CHECK(world.pool->Counts().repeated_refused == 1);
  CHECK(world.pool->Counts().ejections == 0);
}

TEST_CASE("A failed request goes to a peer that has not failed it, and waits for a busy one",
          "[peer_pool]") {
  World world;
  world.Find({"a", "b"});
  world.Of("a").credits = 1;
  world.Of("b").credits = 1;
  world.Submit(2);
  REQUIRE(world.At("a") == 1);
  world.Of("a").End(kBroken);
  CHECK(world.At("a") == 0);
  CHECK(world.pool->QueueDepth() == 1);
  world.Of("b").End(absl::OkStatus());
  CHECK(world.At("a") == 0);
  CHECK(world.At("b") == 1);
}

TEST_CASE("An error of the request itself is final and says nothing about the peer",
          "[peer_pool]") {
  World world;
  world.Find({"a", "b"});
  for (int i = 0; i < 20; ++i) {
    world.Submit(2);
    world.Of("a").End(absl::InvalidArgumentError("malformed"));
    world.Of("b").End(absl::OkStatus());
  }
  CHECK(world.ends.size() == 40);
  CHECK(world.Succeeded() == 20);
  CHECK(world.pool->Counts().ejections == 0);
  CHECK(world.kind.ends.empty());
}

TEST_CASE("Requests made at once have their problem put once", "[peer_pool]") {
  World world;
  world.Find({"a"});
  ScriptedPeer& peer = world.Of("a");
  peer.holds_puts = true;
  world.Submit(3);
  REQUIRE(peer.held_puts.size() == 1);
  CHECK(world.At("a") == 0);
  const auto end_put = [&](const absl::Status& status) {
    std::exchange(peer.held_puts, {}).at(0)(status);
  };

  SECTION("and go on when it is there") {
    end_put(absl::OkStatus());
    CHECK(world.At("a") == 3);
    CHECK(peer.problems.size() == 1);
  }
  SECTION("and fail with it") {
    end_put(absl::InvalidArgumentError("no problem"));
    CHECK(world.ends.size() == 3);
    CHECK(peer.held_puts.empty());
    CHECK(world.IsHealthy("a"));
  }
  SECTION("and another one puts it if the first is cancelled") {
    world.pool->Cancel({"r1"});
    end_put(absl::CancelledError());
    CHECK(world.ends.size() == 1);
    world.pool->Poll();
    REQUIRE(peer.held_puts.size() == 1);
    CHECK(world.At("a") == 0);
    end_put(absl::OkStatus());
    CHECK(world.At("a") == 2);
    CHECK(world.IsHealthy("a"));
  }
}

TEST_CASE("A problem is put once, and again when the peer has forgotten it", "[peer_pool]") {
  World world;
  world.Find({"a"});
  world.Submit(1);
  world.Submit(1);
  CHECK(world.Of("a").problems == std::vector<std::string>{"p"});
  world.Of("a").End(absl::NotFoundError("problem"));
  CHECK(world.At("a") == 2);
  CHECK(world.Of("a").problems.size() >= 2);
  CHECK(world.ends.empty());
  CHECK(world.pool->Counts().ejections == 0);
}

TEST_CASE("A cancelled request is dropped or ended, and does not count against the peer",
          "[peer_pool]") {
  World world;
  world.Find({"a", "b"});
  world.Of("a").credits = world.Of("b").credits = 1;
  world.Submit(3);
  world.pool->Cancel({"r1", "r3", "unknown"});
  REQUIRE(world.ends.size() == 1);
  CHECK(world.ends[0].code() == absl::StatusCode::kCancelled);
  CHECK(world.pool->QueueDepth() == 0);
  world.Of("a").EndCancelled();
  CHECK(world.ends.size() == 2);
  CHECK(world.IsHealthy("a"));
  CHECK(world.pool->Counts().repeated_lost == 0);
}

TEST_CASE("A request for one peer is not moved to another and does not eject", "[peer_pool]") {
  World world;
  world.Find({"a", "b"});
  const auto send = [&] { return world.pool->SendTo(world.kind.known["a"], world.MakeJob()); };
  for (int i = 0; i < 10; ++i) {
    REQUIRE(send());
    world.Of("a").End(kBroken);
  }
  CHECK(world.ends.size() == 10);
  CHECK(world.pool->Counts().ejections == 0);
  CHECK(world.At("b") == 0);
  // It still tells that the peer is lost.
  REQUIRE(send());
  world.Of("a").End(absl::UnavailableError("connection reset"));
  CHECK_FALSE(world.IsHealthy("a"));
  CHECK_FALSE(send());
  CHECK(world.ends.size() == 11);
}

TEST_CASE("Destroying a pool cancels waiting and running requests and silent descriptions",
          "[peer_pool]") {
  World world;
  world.Find({"a"});
  world.Submit(6);
  world.Of("a").silent = true;
  world.Advance(absl::Seconds(2));
  REQUIRE(world.Of("a").held_descriptions.size() == 1);
  world.pool.reset();
  CHECK(world.ends.size() == 6);
  CHECK(std::ranges::all_of(world.ends, absl::IsCancelled));
}

}  // namespace
}  // namespace kernelcast::orchestrator::peer_pool_test
