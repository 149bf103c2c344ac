#include "services/worker/artifacts/compile_cache.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "common/base/id.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

class Fixture {
 public:
  Fixture() : path_(fs::temp_directory_path() / RandomId("kernelcast-compile-cache-")) {
    auto artifacts = ArtifactCache::Open(path_.string(), 1 << 20);
    REQUIRE(artifacts.ok());
    cache_.emplace(*std::move(artifacts));
  }
  ~Fixture() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  CompileCache& cache() { return *cache_; }

 private:
  const fs::path path_;
  std::optional<CompileCache> cache_;
};

CompileResult CompiledAs(const std::string& id) {
  const FactSchema& schema = AllFactSchemas()[0];
  CompileSuccess success;
  success.facts.schema = std::string(schema.id);
  success.facts.values.assign(schema.names.size(), 0.5);
  success.artifact.artifact_id = id;
  success.artifact.content = "object";
  CompileResult result;
  result.result = std::move(success);
  return result;
}

TEST_CASE("Concurrent requests for one artefact compile it once") {
  Fixture fixture;
  std::atomic<int> compiled = 0;
  std::atomic<int> cached = 0;
  constexpr int kThreads = 8;
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      const auto result = fixture.cache().GetOrCompile("a_1", CancelToken(), [&] {
        ++compiled;
        return CompiledAs("a_1");
      });
      cached += result.ok() && result->cached ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(compiled == 1);
  CHECK(cached == kThreads - 1);
  const auto found = fixture.cache().Find("a_1");
  REQUIRE(found.has_value());
  CHECK(found->content == "object");
}

TEST_CASE("A status is returned but not cached, a compile error is cached") {
  Fixture fixture;
  int calls = 0;
  const auto ask = [&](const absl::StatusOr<CompileResult>& answer) {
    return fixture.cache().GetOrCompile("a_1", CancelToken(), [&] {
      ++calls;
      return answer;
    });
  };
  CHECK(absl::IsUnavailable(ask(absl::UnavailableError("no process")).status()));
  CHECK_FALSE(fixture.cache().Find("a_1").has_value());
  CompileResult refused;
  refused.result = CompileError{CompileStage::kCompiler, "error"};
  CHECK_FALSE(ask(refused)->cached);
  CHECK(ask(refused)->cached);
  CHECK(calls == 2);
  CHECK_FALSE(fixture.cache().Find("a_1").has_value());
}

TEST_CASE("A caller that waits for another thread's compile stops when it is cancelled") {
  Fixture fixture;
  std::latch compiling(1);
  std::latch finish(1);
  bool compiled = false;
  std::thread other([&] {
    const auto result = fixture.cache().GetOrCompile("a_1", CancelToken(), [&] {
      compiling.count_down();
      finish.wait();
      return CompiledAs("a_1");
    });
    compiled = result.ok();
  });
  compiling.wait();
  CancelToken cancelled;
  cancelled.Cancel();
  const auto result =
      fixture.cache().GetOrCompile("a_1", cancelled, [] { return CompiledAs("a_1"); });
  CHECK(absl::IsCancelled(result.status()));
  finish.count_down();
  other.join();
  CHECK(compiled);
}

}  // namespace
}  // namespace kernelcast::worker
