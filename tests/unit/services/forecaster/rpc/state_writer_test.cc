#include "services/forecaster/rpc/state_writer.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "common/convert/convert.h"
#include "common/rpc/status_conversion.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

// Records its calls.
class Recorder final : public Backend {
 public:
  std::string_view name() const override { return "recorder"; }
  void Forecast(ForecastInput, const ForecastCall&, Done) override {}
  void Observe(std::vector<ObservedLabel> labels) override {
    for (ObservedLabel& label : labels) observed.push_back(std::move(label));
  }
  BackendDescription Describe() const override { return {}; }

  std::vector<ObservedLabel> observed;
};

class Fixture {
 public:
  explicit Fixture(StateWriter::Options options = {}) {
    std::string pattern = (std::filesystem::temp_directory_path() / "state-writer-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    store = *LabelStore::Open(folder_);
    metrics.emplace(registry, std::vector<std::string>{"recorder"});
    writer.emplace(options, store.get(), &cache, std::vector<Backend*>{&backend}, &*metrics);
  }
  ~Fixture() {
    writer.reset();
    store.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  absl::StatusOr<std::shared_ptr<const ProblemContext>> Put(v1::Problem proto) {
    std::promise<absl::StatusOr<std::shared_ptr<const ProblemContext>>> result;
    const absl::Status submitted = writer->PutProblem(
        std::move(proto), [] { return true; },
        [&](absl::StatusOr<std::shared_ptr<const ProblemContext>> r) { result.set_value(r); });
    if (!submitted.ok()) return submitted;
    return result.get_future().get();
  }
  std::future<absl::StatusOr<v1::ObserveReply>> Observe(const std::vector<Label>& labels,
                                                        bool open = true) {
    std::vector<LabelToKeep> kept;
    for (const Label& label : labels) kept.push_back({label, "content of " + label.label_id});
    auto result = std::make_shared<std::promise<absl::StatusOr<v1::ObserveReply>>>();
    const absl::Status submitted = writer->Observe(
        std::move(kept), [open] { return open; },
        [result](absl::StatusOr<v1::ObserveReply> r) { result->set_value(std::move(r)); });
    if (!submitted.ok()) result->set_value(submitted);
    return result->get_future();
  }

  MetricsRegistry registry;
  std::optional<ServiceMetrics> metrics;
  LruCache<ProblemContext> cache{2, 1 << 20};
  Recorder backend;
  std::unique_ptr<LabelStore> store;
  std::optional<StateWriter> writer;

 private:
  std::string folder_;
};

TEST_CASE("Labels are on disk and in the backend before the reply", "[forecaster][writer]") {
  const PlantedProblem problem;
  Fixture fixture;
  REQUIRE(fixture.Put(ProblemFilesToProto(problem.context()->problem)).ok());
  const auto reply =
      fixture.Observe({problem.MakeLabel(1), problem.MakeLabel(2), problem.MakeLabel(1)}).get();
  INFO(reply.status());
  REQUIRE(reply.ok());
  CHECK(reply->accepted() == 2);
  CHECK(reply->duplicates() == 1);
  REQUIRE(fixture.backend.observed.size() == 2);
  CHECK(fixture.backend.observed[0].label.label_id == problem.MakeLabel(1).label_id);
  CHECK(fixture.backend.observed[0].sequence < fixture.backend.observed[1].sequence);
  CHECK(fixture.backend.observed[0].problem->problem.problem_id ==
        problem.context()->problem.problem_id);
  int stored = 0;
  REQUIRE(fixture.store
              ->ForEachLabel([&](StoredLabel label) {
                ++stored;
                CHECK(label.record.content == "content of " + label.record.label_id);
                return absl::OkStatus();
              })
              .ok());
  CHECK(stored == 2);
}

TEST_CASE("Labels of an unknown problem are all refused", "[forecaster][writer]") {
  const PlantedProblem known("known");
  const PlantedProblem unknown("unknown");
  Fixture fixture;
  REQUIRE(fixture.Put(ProblemFilesToProto(known.context()->problem)).ok());
  const auto reply = fixture.Observe({known.MakeLabel(1), unknown.MakeLabel(1)}).get();
  CHECK(absl::IsNotFound(reply.status()));
  CHECK_THAT(std::string(reply.status().message()),
             Catch::Matchers::StartsWith("labels[1].candidate.problem_id:"));
  CHECK(fixture.backend.observed.empty());
}

TEST_CASE("A problem evicted from the cache is read from disk for its labels",
          "[forecaster][writer]") {
  const PlantedProblem first("first");
  Fixture fixture;
  REQUIRE(fixture.Put(ProblemFilesToProto(first.context()->problem)).ok());
  for (const char* name : {"second", "third", "fourth"}) {
    REQUIRE(fixture.Put(ProblemFilesToProto(PlantedProblem(name).context()->problem)).ok());
  }
  REQUIRE(fixture.cache.Find(first.context()->problem.problem_id) == nullptr);
  CHECK(fixture.Observe({first.MakeLabel(0)}).get().ok());
}

TEST_CASE("An unreadable problem is refused", "[forecaster][writer]") {
  Fixture fixture;
  v1::Problem problem = ProblemFilesToProto(PlantedProblem().context()->problem);
  problem.mutable_files(1)->set_content("schema: 1\nname: 3 words here\n");
  problem.clear_problem_id();
  CHECK(absl::IsInvalidArgument(fixture.Put(problem).status()));
  CHECK(absl::IsInvalidArgument(fixture.Put(v1::Problem()).status()));
}

TEST_CASE("Work for a caller that left is skipped", "[forecaster][writer]") {
  const PlantedProblem problem;
  Fixture fixture;
  REQUIRE(fixture.Put(ProblemFilesToProto(problem.context()->problem)).ok());
  CHECK(absl::IsCancelled(fixture.Observe({problem.MakeLabel(1)}, false).get().status()));
  CHECK(fixture.backend.observed.empty());
}

TEST_CASE("Calls beyond the limit are refused with a retry hint", "[forecaster][writer]") {
  const PlantedProblem problem;
  StateWriter::Options options;
  options.max_calls = 1;
  Fixture fixture(options);
  REQUIRE(fixture.Put(ProblemFilesToProto(problem.context()->problem)).ok());
  // Holds the writer's thread while calls queue up behind it.
  std::promise<void> entered;
  std::promise<void> release;
  REQUIRE(fixture.writer
              ->Observe(
                  {},
                  [&] {
                    entered.set_value();
                    release.get_future().wait();
                    return true;
                  },
                  [](absl::StatusOr<v1::ObserveReply>) {})
              .ok());
  entered.get_future().wait();
  auto waiting = fixture.Observe({problem.MakeLabel(1)});
  const auto refused = fixture.Observe({problem.MakeLabel(2)}).get();
  CHECK(absl::IsResourceExhausted(refused.status()));
  CHECK(RetryAfter(refused.status()).has_value());
  release.set_value();
  CHECK(waiting.get().ok());
}

TEST_CASE("Work submitted before shutdown is done and later work is refused",
          "[forecaster][writer]") {
  const PlantedProblem problem;
  Fixture fixture;
  REQUIRE(fixture.Put(ProblemFilesToProto(problem.context()->problem)).ok());
  std::vector<std::future<absl::StatusOr<v1::ObserveReply>>> replies;
  for (size_t i = 0; i < 20; ++i) replies.push_back(fixture.Observe({problem.MakeLabel(i)}));
  fixture.writer->Stop();
  for (auto& reply : replies) CHECK(reply.get().ok());
  CHECK(absl::IsUnavailable(fixture.Observe({problem.MakeLabel(30)}).get().status()));
}

}  // namespace
}  // namespace kernelcast::forecaster
