#include "services/forecaster/store/forecast_cache_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"

namespace kernelcast::forecaster {
namespace {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / RandomId("kernelcast-answers-")) {}
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }
  std::filesystem::path file() const { return path_ / ForecastCacheFile::kFileName; }

 private:
  std::filesystem::path path_;
};

std::unique_ptr<ForecastCacheFile> Open(const Folder& folder, int64_t max_bytes = 1 << 20) {
  absl::StatusOr<std::unique_ptr<ForecastCacheFile>> cache =
      ForecastCacheFile::Open(folder.path(), max_bytes);
  INFO(cache.status().ToString());
  REQUIRE(cache.ok());
  return *std::move(cache);
}

Forecast MakeForecast(const std::string& rationale) {
  Forecast forecast;
  forecast.candidate_id = "k";
  forecast.bin_probabilities = {0, 0, 0, 0.25, 0.75, 0, 0, 0};
  forecast.predicted_bin = 5;
  forecast.failure_probability = 0.125;
  forecast.raw_probability_sum = 0.98;
  forecast.backend = "llm:m";
  forecast.prompt_version = "p/1@0";
  forecast.rationale = rationale;
  forecast.token_usage = {100, 60, 20, 0.5};
  return forecast;
}

TEST_CASE("A forecast is cached unchanged, also on disk", "[forecaster][cache]") {
  const Folder folder;
  {
    const auto cache = Open(folder);
    CHECK_FALSE(cache->Find("a").has_value());
    cache->Put("a", MakeForecast("because"));
    cache->Put("b", Abstention{Abstention::Cause::kModelDeferred, "llm", "atomics"});
  }
  const auto cache = Open(folder);
  const std::optional<ForecastResult> result = cache->Find("a");
  REQUIRE(result.has_value());
  const auto& forecast = std::get<Forecast>(*result);
  CHECK(forecast.bin_probabilities == std::vector<double>{0, 0, 0, 0.25, 0.75, 0, 0, 0});
  CHECK(forecast.predicted_bin == 5);
  CHECK(forecast.failure_probability == 0.125);
  CHECK(forecast.raw_probability_sum == 0.98);
  CHECK(forecast.rationale == "because");
  CHECK(forecast.token_usage.cached_input_tokens == 60);
  const std::optional<ForecastResult> deferral = cache->Find("b");
  REQUIRE(deferral.has_value());
  CHECK(std::get<Abstention>(*deferral).reason == "atomics");
  CHECK_FALSE(cache->Find("c").has_value());
}

TEST_CASE("Failures are not cached", "[forecaster][cache]") {
  const Folder folder;
  const auto cache = Open(folder);
  for (const Abstention::Cause cause :
       {Abstention::Cause::kUnparsable, Abstention::Cause::kEndpointUnavailable,
        Abstention::Cause::kBudget, Abstention::Cause::kNotCovered}) {
    cache->Put("a", Abstention{cause, "llm", "no"});
    CHECK_FALSE(cache->Find("a").has_value());
  }
  CHECK(cache->bytes() == 0);
}

TEST_CASE("The first answer is kept", "[forecaster][cache]") {
  const Folder folder;
  const auto cache = Open(folder);
  cache->Put("a", MakeForecast("first"));
  const int64_t bytes = cache->bytes();
  cache->Put("a", MakeForecast("second"));
  CHECK(std::get<Forecast>(*cache->Find("a")).rationale == "first");
  CHECK(cache->bytes() == bytes);
}

TEST_CASE("The file stays within its bound and keeps the newest entries", "[forecaster][cache]") {
  const Folder folder;
  constexpr int64_t kBound = 1 << 20;
  constexpr int kEntries = 5000;
  {
    const auto cache = Open(folder, kBound);
    for (int i = 0; i < kEntries; ++i) {
      cache->Put(absl::StrCat("key", i), MakeForecast(std::string(1000, 'x')));
      REQUIRE(cache->bytes() <= kBound);
    }
    CHECK(cache->bytes() > kBound / 2);
    CHECK_FALSE(cache->Find("key0").has_value());
    CHECK(cache->Find(absl::StrCat("key", kEntries - 1)).has_value());
    // Larger than the whole bound.
    cache->Put("huge", MakeForecast(std::string(2 * kBound, 'x')));
    CHECK_FALSE(cache->Find("huge").has_value());
  }
  CHECK(std::filesystem::file_size(folder.file()) < 2 * kBound);
  // A smaller bound applies from the start.
  CHECK(Open(folder, kBound / 8)->bytes() <= kBound / 8);
}

TEST_CASE("Only one process may open the file", "[forecaster][cache]") {
  const Folder folder;
  const auto cache = Open(folder);
  const absl::Status second = ForecastCacheFile::Open(folder.path(), 1 << 20).status();
  CHECK(absl::IsUnavailable(second));
  CHECK_THAT(std::string(second.message()), Catch::Contains("in use by another process"));
}

TEST_CASE("A damaged file is recreated", "[forecaster][cache]") {
  const Folder folder;
  { Open(folder)->Put("a", MakeForecast("x")); }
  std::ofstream(folder.file(), std::ios::trunc) << std::string(10'000, 'z');
  const auto cache = Open(folder);
  CHECK_FALSE(cache->Find("a").has_value());
  cache->Put("a", MakeForecast("y"));
  CHECK(cache->Find("a").has_value());
}

TEST_CASE("A file of another layout is recreated", "[forecaster][cache]") {
  const Folder folder;
  { Open(folder)->Put("a", MakeForecast("x")); }
  {
    sqlite::Database database;
    REQUIRE(database.Open(folder.file()).ok());
    REQUIRE(database.Execute("PRAGMA user_version = 99").ok());
  }
  CHECK_FALSE(Open(folder)->Find("a").has_value());
}

}  // namespace
}  // namespace kernelcast::forecaster
