#include "services/orchestrator/clients/forecaster_pool.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <map>
#include <memory>
#include <mutex>

#include "tests/support/recorded_problem.h"
#include "tests/unit/services/orchestrator/clients/fake_peers.h"

namespace kernelcast::orchestrator::testing::forecaster_pool_test {
namespace {

ForecasterPoolOptions QuickOptions(std::vector<std::string> addresses) {
  ForecasterPoolOptions options;
  options.discovery.addresses = std::move(addresses);
  options.discovery.least_interval = absl::ZeroDuration();
  options.peers.describe_interval = absl::Milliseconds(50);
  options.peers.describe_timeout = absl::Seconds(5);
  options.labels.pause = absl::Milliseconds(20);
  return options;
}

std::unique_ptr<ForecasterPool> MustCreate(ForecasterPoolOptions options) {
  auto pool = ForecasterPool::Create(std::move(options));
  INFO(pool.status().ToString());
  REQUIRE(pool.ok());
  return *std::move(pool);
}

size_t Ready(const ForecasterPool& pool) {
  const auto views = pool.View();
  return std::ranges::count_if(views, [](const ForecasterView& view) { return view.healthy; });
}

// Forecasters, and a pool that uses them.
struct World {
  explicit World(int count, bool create = true) {
    for (int i = 0; i < count; ++i) {
      forecasters.push_back(std::make_unique<FakeForecaster>(absl::StrCat("f", i)));
      forecasters.back()->Start();
    }
    if (create) Create(Options());
  }
  ForecasterPoolOptions Options() const {
    std::vector<std::string> addresses;
    for (const auto& forecaster : forecasters) addresses.push_back(forecaster->address());
    return QuickOptions(addresses);
  }
  void Create(ForecasterPoolOptions options) {
    pool = MustCreate(std::move(options));
    REQUIRE(Eventually([&] { return Ready(*pool) == forecasters.size(); }));
  }

  // Returns the forecaster that answered, or the error.
  std::string AskForForecast(const std::string& search_id, size_t candidate = 0) {
    ForecastQuery query;
    query.candidate = recorded.candidates[candidate % recorded.candidates.size()];
    query.search_id = search_id;
    auto answer = std::make_shared<std::promise<std::string>>();
    pool->Forecast(problem, query, [answer](const absl::StatusOr<ForecastResult>& result) {
      answer->set_value(result.ok() ? std::get<Abstention>(*result).backend
                                    : std::string(result.status().ToString()));
    });
    return answer->get_future().get();
  }

  // Offers labels with these ids. The counter increases as they complete.
  std::shared_ptr<std::atomic<int>> Offer(int first, int count) {
    std::vector<Label> labels(count);
    for (int i = 0; i < count; ++i) {
      labels[i].label_id = absl::StrCat("label-", first + i);
      labels[i].candidate = recorded.candidates[(first + i) % recorded.candidates.size()];
      labels[i].truth = Ratio{2, 1.9, 2.1, 0.95};
    }
    auto done = std::make_shared<std::atomic<int>>(0);
    pool->Observe(problem, std::move(labels),
                  [done](const absl::Status& status) { *done += status.ok() ? 1 : 100; });
    return done;
  }
  bool AllHave(size_t labels) const {
    return std::ranges::all_of(
        forecasters, [&](const auto& forecaster) { return forecaster->labels().size() == labels; });
  }

  const kernelcast::testing::RecordedProblem recorded =
      kernelcast::testing::MakeRecordedProblem(4, 4);
  const std::shared_ptr<const Problem> problem = std::make_shared<const Problem>(recorded.problem);
  std::vector<std::unique_ptr<FakeForecaster>> forecasters;
  std::unique_ptr<ForecasterPool> pool;
};

TEST_CASE("Keys are spread evenly and a lost peer moves only its own") {
  const std::vector<std::string> peers = {"10.0.0.1:50051", "10.0.0.2:50051", "10.0.0.3:50051"};
  const auto prefers = [](const std::string& key, const std::vector<std::string>& among) {
    return *std::ranges::max_element(
        among, {}, [&](const std::string& peer) { return RendezvousWeight(key, peer); });
  };
  std::map<std::string, int> counts;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = absl::StrCat("search-", i);
    const std::string chosen = prefers(key, peers);
    ++counts[chosen];
    if (chosen != peers[2]) CHECK(prefers(key, {peers[0], peers[1]}) == chosen);
  }
  for (const auto& [peer, count] : counts) {
    INFO(peer);
    CHECK(count > 900);
    CHECK(count < 1100);
  }
}

TEST_CASE("Anchors are sent to peers that use them and the device model to all") {
  World world(1, /*create=*/false);
  const bool asks_models = GENERATE(false, true);
  if (asks_models) world.forecasters[0]->UseAnchors();
  world.Create(world.Options());
  AnchorKernel anchor;
  anchor.candidate = world.recorded.candidates[1];
  anchor.speedup = Ratio{7, 6.9, 7.1, 0.95};
  ForecastQuery query;
  query.candidate = world.recorded.candidates[0];
  query.device_model = "NVIDIA H200";
  query.anchor = std::make_shared<const AnchorKernel>(anchor);
  std::promise<void> answered;
  world.pool->Forecast(world.problem, query, [&](const auto&) { answered.set_value(); });
  answered.get_future().get();
  const v1::ForecastRequest request = world.forecasters[0]->last_request();
  CHECK(request.device().model() == "NVIDIA H200");
  CHECK(request.has_anchor() == asks_models);
  if (asks_models) {
    CHECK(request.anchor().speedup().value() == 7);
    CHECK(request.anchor().candidate().candidate_id() == anchor.candidate.candidate_id);
  }
  CHECK(world.pool->View()[0].model_use.has_value() == asks_models);
}

TEST_CASE("A forecaster gets a candidate whole once, and again if it has forgotten it") {
  World world(1, /*create=*/false);
  FakeForecaster& forecaster = *world.forecasters[0];
  forecaster.UseAnchors();
  world.Create(world.Options());
  CHECK(world.AskForForecast("s", 0) == "f0");
  CHECK(world.AskForForecast("s", 0) == "f0");
  CHECK(forecaster.received() == 1);
  CHECK(forecaster.last_request().candidate().source().empty());
  // The labels of candidates 0 and 1.
  const auto first = world.Offer(0, 2);
  REQUIRE(Eventually([&] { return *first == 1; }));
  CHECK(forecaster.received() == 2);
  const auto second = world.Offer(16, 2);
  REQUIRE(Eventually([&] { return *second == 1; }));
  CHECK(forecaster.received() == 2);

  forecaster.ForgetContent();
  const auto third = world.Offer(32, 2);
  REQUIRE(Eventually([&] { return *third == 1; }));
  CHECK(forecaster.received() == 4);
  CHECK(forecaster.labels().size() == 6);
  forecaster.ForgetContent();
  CHECK(world.AskForForecast("s", 1) == "f0");
  CHECK(forecaster.received() == 5);

  ForecastQuery query;
  query.candidate = world.recorded.candidates[2];
  query.anchor = std::make_shared<const AnchorKernel>(
      AnchorKernel{world.recorded.candidates[1], {}, Ratio{7, 6.9, 7.1, 0.95}, {}});
  std::promise<void> answered;
  world.pool->Forecast(world.problem, query, [&](const auto&) { answered.set_value(); });
  answered.get_future().get();
  CHECK(forecaster.received() == 6);
  CHECK(forecaster.last_request().anchor().candidate().source().empty());
  CHECK(forecaster.last_request().anchor().speedup().value() == 7);
}

TEST_CASE("A search keeps to one forecaster and searches are spread") {
  World world(3);
  std::map<std::string, int> searches_of;
  for (int i = 0; i < 30; ++i) {
    const std::string search = absl::StrCat("s", i);
    const std::string chosen = world.AskForForecast(search, 0);
    for (size_t candidate = 1; candidate < 5; ++candidate) {
      CHECK(world.AskForForecast(search, candidate) == chosen);
    }
    ++searches_of[chosen];
  }
  CHECK(searches_of.size() == 3);
}

TEST_CASE("Requests outside searches are spread by candidate") {
  World world(3);
  std::map<std::string, int> counts;
  for (size_t i = 0; i < 16; ++i) {
    const std::string chosen = world.AskForForecast("", i);
    CHECK(world.AskForForecast("", i) == chosen);
    ++counts[chosen];
  }
  CHECK(counts.size() > 1);
}

TEST_CASE("A search moves while its forecaster is away and moves back when it returns") {
  World world(3);
  const std::string first = world.AskForForecast("s");
  FakeForecaster& preferred = *world.forecasters[first[1] - '0'];
  SECTION("killed") {
    preferred.Stop();
    const std::string second = world.AskForForecast("s");
    CHECK(second != first);
    CHECK(second.size() == 2);
    CHECK(world.AskForForecast("s") == second);
    CHECK(Eventually([&] { return Ready(*world.pool) == 2; }));
    preferred.Start();
  }
  SECTION("draining") {
    preferred.SetDraining(true);
    const std::string second = world.AskForForecast("s");
    CHECK(second != first);
    CHECK(second.size() == 2);
    preferred.SetDraining(false);
  }
  CHECK(Eventually([&] { return world.AskForForecast("s") == first; }));
}

TEST_CASE(
    "A forecaster whose forecasts fail is ejected, keeps its labels, and returns when fixed") {
  World world(2, /*create=*/false);
  ForecasterPoolOptions options = world.Options();
  options.peers.outliers.first_pause = absl::Milliseconds(20);
  options.peers.outliers.longest_pause = absl::Hours(1);
  options.peers.outliers.failures_in_row = 4;
  world.Create(std::move(options));
  const std::string first = world.AskForForecast("s");
  const std::string second = first == "f0" ? "f1" : "f0";
  FakeForecaster& broken = *world.forecasters[first[1] - '0'];
  broken.Fail(absl::InternalError("broken"));
  for (int i = 0; i < 100; ++i) CHECK(world.AskForForecast("s") == second);
  // Four failures and a few probes, at growing intervals.
  CHECK(world.pool->Counts().ejections >= 1);
  CHECK(broken.asked() < 30);
  CHECK(std::ranges::count_if(world.pool->View(), &ForecasterView::ejected) == 1);
  const auto done = world.Offer(0, 10);
  CHECK(Eventually([&] { return *done == 1; }));
  CHECK(world.AllHave(10));
  broken.Fail(absl::OkStatus());
  CHECK(Eventually([&] { return world.AskForForecast("s") == first; }));
}

TEST_CASE("Calls to a silent forecaster are ended and answered by another") {
  World world(2, /*create=*/false);
  ForecasterPoolOptions options = world.Options();
  options.peers.describe_timeout = absl::Milliseconds(100);
  options.peers.silence_limit = absl::Milliseconds(300);
  options.forecast_timeout = absl::Hours(1);
  world.Create(std::move(options));
  const std::string first = world.AskForForecast("s");
  world.forecasters[first[1] - '0']->FallSilent(true);
  const std::string second = world.AskForForecast("s");
  CHECK(second == (first == "f0" ? "f1" : "f0"));
}

TEST_CASE("A forecast is abandoned only after every forecaster was tried") {
  World world(2);
  for (auto& forecaster : world.forecasters) forecaster->Stop();
  CHECK_THAT(world.AskForForecast("s"), Catch::Contains("UNAVAILABLE"));
  world.forecasters[1]->Start();
  CHECK(Eventually([&] { return world.AskForForecast("s") == "f1"; }));
}

TEST_CASE("A forecaster that lost a problem receives it again") {
  World world(1);
  REQUIRE(world.AskForForecast("s") == "f0");
  world.forecasters[0]->ForgetContent();
  CHECK(world.AskForForecast("s") == "f0");
  world.forecasters[0]->ForgetContent();
  const auto done = world.Offer(0, 3);
  CHECK(Eventually([&] { return *done == 1; }));
}

TEST_CASE("Labels are complete when every forecaster has them") {
  World world(3);
  const auto done = world.Offer(0, 600);
  REQUIRE(Eventually([&] { return *done == 1; }));
  CHECK(world.AllHave(600));
}

TEST_CASE("An absent forecaster delays only its own labels") {
  World world(3);
  world.forecasters[1]->Stop();
  REQUIRE(Eventually([&] { return Ready(*world.pool) == 2; }));
  std::vector<std::shared_ptr<std::atomic<int>>> offers;
  for (int i = 0; i < 10; ++i) offers.push_back(world.Offer(10 * i, 10));
  REQUIRE(Eventually([&] {
    return world.forecasters[0]->labels().size() == 100 &&
           world.forecasters[2]->labels().size() == 100;
  }));
  for (const auto& done : offers) CHECK(*done == 0);
  CHECK(world.pool->View()[1].pending_labels == 100);
  world.forecasters[1]->Start();
  CHECK(Eventually(
      [&] { return std::ranges::all_of(offers, [](const auto& done) { return *done == 1; }); }));
  CHECK(world.AllHave(100));
}

TEST_CASE("A label that one forecaster refuses still reaches the others") {
  World world(2);
  world.forecasters[0]->Refuse("label-7");
  const auto done = world.Offer(0, 20);
  REQUIRE(Eventually([&] { return *done == 1; }));
  CHECK(world.forecasters[0]->labels().size() == 19);
  CHECK(world.forecasters[1]->labels().size() == 20);
}

TEST_CASE("A forecaster away too long misses labels and is tried last until it has them") {
  World world(2, /*create=*/false);
  ForecasterPoolOptions options = world.Options();
  options.labels.max_pending = 50;
  world.Create(std::move(options));
  world.forecasters[1]->Stop();
  REQUIRE(Eventually([&] { return Ready(*world.pool) == 1; }));
  const auto done = world.Offer(0, 40);
  // Acknowledged, not only received: labels in transit count.
  REQUIRE(Eventually([&] {
    return world.forecasters[0]->labels().size() == 40 && world.pool->View()[0].pending_labels == 0;
  }));
  const auto more = world.Offer(40, 11);
  CHECK(Eventually([&] { return *done == 1; }));
  CHECK(Eventually([&] { return *more == 0 && world.forecasters[0]->labels().size() == 51; }));
  world.forecasters[1]->Start();
  REQUIRE(Eventually([&] { return *more == 1 && Ready(*world.pool) == 2; }));
  REQUIRE(Eventually([&] { return world.pool->View()[1].behind; }));
  for (int i = 0; i < 20; ++i) CHECK(world.AskForForecast(absl::StrCat("s", i)) == "f0");
  // As if it had been given the other's state.
  const auto again = world.Offer(0, 50);
  REQUIRE(Eventually([&] { return *again == 1; }));
  REQUIRE(Eventually([&] { return world.AllHave(51); }));
  CHECK(Eventually([&] { return !world.pool->View()[1].behind; }));
}

TEST_CASE("A forecaster that returns at another address gets its pending labels") {
  FakeForecaster stays("stays"), leaves("leaves"), comes("comes");
  const int port = StartAtOnePort<FakeForecaster>(
      {{"127.0.0.2", &stays}, {"127.0.0.3", &leaves}, {"127.0.0.4", &comes}});
  REQUIRE(port > 0);
  std::mutex mutex;
  std::vector<std::string> records = {"127.0.0.2", "127.0.0.3"};
  ForecasterPoolOptions options = QuickOptions({absl::StrCat("dns:///forecasters:", port)});
  options.discovery.interval = absl::Milliseconds(20);
  options.discovery.look_up = [&](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
    const std::lock_guard lock(mutex);
    return records;
  };
  World world(0, /*create=*/false);
  world.pool = MustCreate(std::move(options));
  REQUIRE(Eventually([&] { return Ready(*world.pool) == 2; }));
  leaves.Stop();
  REQUIRE(Eventually([&] { return Ready(*world.pool) == 1; }));
  const auto done = world.Offer(0, 10);
  REQUIRE(Eventually([&] { return stays.labels().size() == 10; }));
  const auto set_records = [&](std::vector<std::string> ips) {
    const std::lock_guard lock(mutex);
    records = std::move(ips);
  };
  SECTION("in one DNS change") { set_records({"127.0.0.2", "127.0.0.4"}); }
  SECTION("after the DNS records omitted it for a while") {
    set_records({"127.0.0.2"});
    REQUIRE(Eventually([&] { return world.pool->View().size() == 1; }));
    CHECK(*done == 0);
    set_records({"127.0.0.2", "127.0.0.4"});
  }
  CHECK(Eventually([&] { return *done == 1; }));
  CHECK(comes.labels().size() == 10);
}

TEST_CASE("Labels that arrive before any forecaster is known wait for the first") {
  FakeForecaster forecaster("f0");
  forecaster.Start();
  std::atomic<bool> known = false;
  const std::string port = forecaster.address().substr(forecaster.address().rfind(':'));
  ForecasterPoolOptions options = QuickOptions({"dns:///forecasters" + port});
  options.discovery.interval = absl::Milliseconds(20);
  options.discovery.look_up = [&](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
    if (!known) return absl::NotFoundError("not yet");
    return std::vector<std::string>{"127.0.0.1"};
  };
  World world(0, /*create=*/false);
  world.pool = MustCreate(std::move(options));
  const auto done = world.Offer(0, 5);
  CHECK(*done == 0);
  known = true;
  CHECK(Eventually([&] { return *done == 1; }));
  CHECK(forecaster.labels().size() == 5);
}

TEST_CASE("A forecaster with an incompatible version is not used and the reason is reported") {
  World world(2, /*create=*/false);
  world.forecasters[0]->SetProtocolVersion(kProtocolVersion + 2);
  world.forecasters[1]->SetProtocolVersion(kProtocolVersion + 1);
  world.pool = MustCreate(world.Options());
  REQUIRE(Eventually([&] {
    return Ready(*world.pool) == 1 && world.pool->View()[0].unhealthy_reason != "not asked yet";
  }));
  CHECK_THAT(world.pool->View()[0].unhealthy_reason, Catch::Contains("upgrade this one"));
  for (int i = 0; i < 10; ++i) CHECK(world.AskForForecast(absl::StrCat("s", i)) == "f1");
}

TEST_CASE("Destroying a forecaster pool returns pending calls") {
  World world(2);
  world.forecasters[0]->Stop();
  REQUIRE(Eventually([&] { return Ready(*world.pool) == 1; }));
  const auto done = world.Offer(0, 10);
  REQUIRE(Eventually([&] { return world.forecasters[1]->labels().size() == 10; }));
  world.pool.reset();
  CHECK(*done == 100);
}

}  // namespace
}  // namespace kernelcast::orchestrator::testing::forecaster_pool_test
