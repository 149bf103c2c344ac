#include "services/orchestrator/clients/label_delivery.h"

#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast::orchestrator::label_delivery_test {
namespace {

// A receiver whose calls end when the test says so.
struct FakeReceiver final : LabelReceiver {
  explicit FakeReceiver(std::string name) : address(std::move(name)) {}
  const std::string& receiver_address() const override { return address; }

  const std::string address;
  bool ready = true;
  std::deque<std::pair<LabelDelivery::Labels, std::function<void(const absl::Status&)>>> calls;
  std::vector<std::string> labels;  // acknowledged ones

  // Ends the oldest call. Returns how many labels it had.
  int End(const absl::Status& status = absl::OkStatus()) {
    REQUIRE(!calls.empty());
    const auto [sent, done] = std::move(calls.front());
    calls.pop_front();
    if (status.ok()) {
      for (const auto& label : sent) labels.push_back(label->label_id);
    }
    done(status);
    return static_cast<int>(sent.size());
  }
};

struct World {
  explicit World(const std::vector<std::string>& names) {
    options.clock = &clock;
    options.max_pending = 300;
    for (const std::string& name : names) {
      receivers.push_back(std::make_shared<FakeReceiver>(name));
    }
    delivery = std::make_unique<LabelDelivery>(
        options,
        [](const LabelReceiver& receiver) {
          return static_cast<const FakeReceiver&>(receiver).ready;
        },
        [](const std::shared_ptr<LabelReceiver>& receiver, const auto&,
           LabelDelivery::Labels labels, auto done) {
          auto& fake = static_cast<FakeReceiver&>(*receiver);
          if (!fake.ready) return false;
          fake.calls.emplace_back(std::move(labels), std::move(done));
          return true;
        });
    delivery->Change({receivers.begin(), receivers.end()}, {});
  }
  ~World() {
    delivery->Stop();
    // Calls that the test did not end hold their receivers.
    for (const auto& receiver : receivers) receiver->calls.clear();
  }

  FakeReceiver& operator[](size_t i) { return *receivers[i]; }
  // Offers labels. `*done` becomes 1 when they are acknowledged, -1 when they are not.
  std::shared_ptr<int> Offer(int count) {
    std::vector<Label> labels(count);
    for (Label& label : labels) {
      label.label_id = absl::StrCat("label-", offered++);
      label.truth = Ratio{2, 1.9, 2.1, 0.95};
    }
    auto done = std::make_shared<int>(0);
    delivery->Offer(problem, labels,
                    [done](const absl::Status& status) { *done = status.ok() ? 1 : -1; });
    return done;
  }
  void Advance(absl::Duration duration) {
    clock.Advance(absl::ToInt64Nanoseconds(duration));
    delivery->Poll();
  }

  FakeClock clock;
  LabelDeliveryOptions options;
  std::shared_ptr<const Problem> problem = std::make_shared<const Problem>();
  std::vector<std::shared_ptr<FakeReceiver>> receivers;
  std::unique_ptr<LabelDelivery> delivery;
  int offered = 0;
};

TEST_CASE("Labels go to every receiver, one call at a time", "[label_delivery]") {
  World world({"a", "b"});
  const auto first = world.Offer(3);
  const auto second = world.Offer(2);
  CHECK(world[0].calls.size() == 1);
  CHECK(world[0].End() == 3);
  CHECK(world[0].End() == 2);
  CHECK(world.delivery->Pending(world[0]) == 0);
  CHECK(world.delivery->Pending(world[1]) == 5);
  CHECK(*first == 0);
  CHECK(world[1].End() == 3);
  CHECK(*first == 1);
  CHECK(*second == 0);
  world[1].End();
  CHECK(*second == 1);
}

TEST_CASE("Labels that a receiver did not accept are sent again after a pause",
          "[label_delivery]") {
  World world({"a"});
  const auto done = world.Offer(2);
  absl::Duration pause = world.options.pause;
  SECTION("after its own pause") { world[0].End(absl::UnavailableError("away")); }
  SECTION("after the pause that the receiver asks for") {
    pause = absl::Seconds(7);
    world[0].End(OverloadedError("full", pause));
  }
  world.Advance(pause - absl::Milliseconds(1));
  CHECK(world[0].calls.empty());
  world.Advance(absl::Milliseconds(1));
  CHECK(world[0].End() == 2);
  CHECK(*done == 1);
}

TEST_CASE("Labels wait for a receiver that is not ready", "[label_delivery]") {
  World world({"a"});
  world[0].ready = false;
  const auto done = world.Offer(1);
  world.Advance(absl::Seconds(1));
  CHECK(world[0].calls.empty());
  world[0].ready = true;
  world.delivery->Resume(world.receivers[0], /*up_to_date=*/true);
  world[0].End();
  CHECK(*done == 1);
}

TEST_CASE("An invalid label is found by sending each alone, and skipped", "[label_delivery]") {
  World world({"a"});
  const auto done = world.Offer(3);
  CHECK(world[0].End(absl::InvalidArgumentError("label")) == 3);
  CHECK(world[0].End() == 1);
  CHECK(world[0].End(absl::InvalidArgumentError("label")) == 1);
  CHECK(world[0].End() == 1);
  CHECK(*done == 1);
  CHECK(world[0].labels == std::vector<std::string>{"label-0", "label-2"});
}

TEST_CASE("A receiver that is away too long misses labels until it has caught up",
          "[label_delivery]") {
  World world({"a", "b"});
  world[1].ready = false;
  const auto missed = world.Offer(300);
  world[0].End();
  world[0].End();
  CHECK(*missed == 0);
  const auto kept = world.Offer(1);
  CHECK(*missed == 1);
  CHECK(world[1].missed_labels());
  CHECK_FALSE(world[0].missed_labels());
  CHECK(world.delivery->Pending(world[1]) == 1);
  world[0].End();
  world[1].ready = true;
  world.delivery->Resume(world.receivers[1], /*up_to_date=*/false);
  world[1].End();
  CHECK(*kept == 1);
  CHECK(world[1].missed_labels());
  world.delivery->Resume(world.receivers[1], /*up_to_date=*/true);
  CHECK_FALSE(world[1].missed_labels());
}

TEST_CASE("Labels of a receiver that left go to the next one that comes", "[label_delivery]") {
  World world({"a", "b"});
  const auto done = world.Offer(2);
  world[0].End();
  const auto next = std::make_shared<FakeReceiver>("c");
  SECTION("at once") { world.delivery->Change({next}, {world.receivers[1]}); }
  SECTION("later") {
    world.delivery->Change({}, {world.receivers[1]});
    world.Advance(world.options.orphan_patience - absl::Seconds(1));
    CHECK(*done == 0);
    world.delivery->Change({next}, {});
  }
  // The call to the one that left changes nothing.
  world[1].End(absl::CancelledError());
  CHECK(next->End() == 2);
  CHECK(*done == 1);
}

TEST_CASE("Labels of a receiver that stays away are given up after a while", "[label_delivery]") {
  World world({"a", "b"});
  const auto done = world.Offer(2);
  world[0].End();
  world.delivery->Change({}, {world.receivers[1]});
  world.Advance(world.options.orphan_patience);
  CHECK(*done == 1);
}

TEST_CASE("Labels that arrive before any receiver wait for the first", "[label_delivery]") {
  World world({});
  const auto done = world.Offer(2);
  world.Advance(2 * world.options.orphan_patience);
  CHECK(*done == 0);
  const auto first = std::make_shared<FakeReceiver>("a");
  world.delivery->Change({first}, {});
  first->End();
  CHECK(*done == 1);
}

TEST_CASE("Stopping ends every offer once", "[label_delivery]") {
  World world({"a"});
  const auto done = world.Offer(2);
  world.delivery->Stop();
  CHECK(*done == -1);
  *done = 0;
  world[0].End();
  CHECK(*done == 0);
  CHECK(*world.Offer(1) == -1);
}

}  // namespace
}  // namespace kernelcast::orchestrator::label_delivery_test
