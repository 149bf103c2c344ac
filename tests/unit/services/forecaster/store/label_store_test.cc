#include "services/forecaster/store/label_store.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace kernelcast::forecaster {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "label-store-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }
  std::string file() const { return (path_ / LabelStore::kFileName).string(); }

 private:
  std::filesystem::path path_;
};

std::unique_ptr<LabelStore> MustOpen(const std::string& folder) {
  absl::StatusOr<std::unique_ptr<LabelStore>> store = LabelStore::Open(folder);
  INFO(store.status());
  REQUIRE(store.ok());
  return *std::move(store);
}

std::vector<uint64_t> MustAppend(LabelStore& store, const std::vector<LabelRecord>& records) {
  std::vector<const LabelRecord*> pointers;
  for (const LabelRecord& record : records) pointers.push_back(&record);
  const absl::StatusOr<std::vector<uint64_t>> sequences = store.Append(pointers);
  INFO(sequences.status());
  REQUIRE(sequences.ok());
  return *sequences;
}

std::vector<StoredLabel> All(LabelStore& store) {
  std::vector<StoredLabel> labels;
  REQUIRE(store
              .ForEachLabel([&](StoredLabel label) {
                labels.push_back(std::move(label));
                return absl::OkStatus();
              })
              .ok());
  return labels;
}

TEST_CASE("Labels are read back in order after the store was closed", "[forecaster][store]") {
  const Folder folder;
  {
    const auto store = MustOpen(folder.path());
    CHECK(MustAppend(*store, {{"b", "p_1", "cpu", "first"}, {"a", "p_1", "cpu", "second"}}) ==
          std::vector<uint64_t>{1, 2});
    const std::string bytes("\0\xff\n", 3);
    CHECK(MustAppend(*store, {{"c", "p_2", "h100", bytes}}) == std::vector<uint64_t>{3});
  }
  const auto store = MustOpen(folder.path());
  const std::vector<StoredLabel> labels = All(*store);
  REQUIRE(labels.size() == 3);
  CHECK(labels[0].record.label_id == "b");
  CHECK(labels[0].record.content == "first");
  CHECK(labels[1].sequence == 2);
  CHECK(labels[2].record.content == std::string("\0\xff\n", 3));
  CHECK(labels[2].record.target == "h100");
  CHECK_FALSE(labels[2].prediction.has_value());
}

TEST_CASE("A label is kept once", "[forecaster][store]") {
  const Folder folder;
  const auto store = MustOpen(folder.path());
  CHECK(MustAppend(*store, {{"a", "p", "cpu", "1"}, {"a", "p", "cpu", "2"}}) ==
        std::vector<uint64_t>{1, 0});
  const std::vector<uint64_t> again =
      MustAppend(*store, {{"a", "p", "cpu", "3"}, {"b", "p", "cpu", "4"}});
  CHECK(again[0] == 0);
  CHECK(again[1] > 1);
  const std::vector<StoredLabel> labels = All(*store);
  REQUIRE(labels.size() == 2);
  CHECK(labels[0].record.content == "1");
}

TEST_CASE("Problems are kept once and found by their id", "[forecaster][store]") {
  const Folder folder;
  const auto store = MustOpen(folder.path());
  REQUIRE(store->PutProblem("p_1", "one").ok());
  REQUIRE(store->PutProblem("p_1", "other").ok());
  CHECK(store->GetProblem("p_1").value() == "one");
  CHECK(absl::IsNotFound(store->GetProblem("p_2").status()));
}

TEST_CASE("Problems without labels are dropped, the oldest first", "[forecaster][store]") {
  const Folder folder;
  const auto store = MustOpen(folder.path());
  REQUIRE(store->PutProblem("labelled", "x").ok());
  MustAppend(*store, {{"a", "labelled", "cpu", ""}});
  REQUIRE(store->PutProblem("idle", "x").ok());
  for (int i = 0; i < LabelStore::kMaxIdleProblems; ++i) {
    REQUIRE(store->PutProblem("p_" + std::to_string(i), "x").ok());
  }
  CHECK(store->GetProblem("labelled").ok());
  CHECK(store->GetProblem("p_0").ok());
  CHECK(absl::IsNotFound(store->GetProblem("idle").status()));
}

TEST_CASE("Predictions come back with their labels", "[forecaster][store]") {
  const Folder folder;
  {
    const auto store = MustOpen(folder.path());
    MustAppend(*store, {{"a", "p", "cpu", ""}, {"b", "p", "cpu", ""}});
    REQUIRE(store->KeepPredictions({{"b", "embedded/1", {0.1, 0.7, 5}}}).ok());
    REQUIRE(store->KeepPredictions({{"b", "embedded/2", {0.25, 0.5, 3}}}).ok());
  }
  const auto store = MustOpen(folder.path());
  const std::vector<StoredLabel> labels = All(*store);
  CHECK_FALSE(labels[0].prediction.has_value());
  REQUIRE(labels[1].prediction.has_value());
  CHECK(labels[1].prediction->backend_version == "embedded/2");
  CHECK(labels[1].prediction->log2_speedup.location == 0.25);
  CHECK(labels[1].prediction->log2_speedup.scale == 0.5);
  CHECK(labels[1].prediction->log2_speedup.degrees_of_freedom == 3);
}

TEST_CASE("Reading ends with the reader's error", "[forecaster][store]") {
  const Folder folder;
  const auto store = MustOpen(folder.path());
  MustAppend(*store, {{"a", "p", "cpu", ""}, {"b", "p", "cpu", ""}});
  int read = 0;
  const absl::Status status = store->ForEachLabel([&](StoredLabel) {
    ++read;
    return absl::DataLossError("odd");
  });
  CHECK(absl::IsDataLoss(status));
  CHECK(read == 1);
}

TEST_CASE("A store in use cannot be opened a second time", "[forecaster][store]") {
  const Folder folder;
  const auto store = MustOpen(folder.path());
  const absl::StatusOr<std::unique_ptr<LabelStore>> second = LabelStore::Open(folder.path());
  REQUIRE(absl::IsUnavailable(second.status()));
  CHECK_THAT(std::string(second.status().message()),
             Catch::Matchers::Contains("in use by another process"));
}

TEST_CASE("What is no store is refused by name", "[forecaster][store]") {
  const Folder folder;
  SECTION("not a database") {
    std::ofstream(folder.file()) << std::string(10'000, 'x');
    const absl::Status status = LabelStore::Open(folder.path()).status();
    CHECK(absl::IsDataLoss(status));
    CHECK_THAT(std::string(status.message()), Catch::Matchers::Contains(folder.file()));
  }
  SECTION("damaged in the middle") {
    {
      const auto store = MustOpen(folder.path());
      for (int i = 0; i < 50; ++i) {
        MustAppend(*store, {{std::to_string(i), "p", "cpu", std::string(2000, 'x')}});
      }
    }
    {
      std::fstream file(folder.file(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(4096 * 3);
      file << std::string(4096 * 6, '\x5a');
    }
    CHECK(absl::IsDataLoss(LabelStore::Open(folder.path()).status()));
  }
  SECTION("another program's database") {
    Database database;
    REQUIRE(database.Open(folder.file()).ok());
    REQUIRE(database.Execute("CREATE TABLE t (x)").ok());
  }
  SECTION("another layout") {
    { MustOpen(folder.path()); }
    Database database;
    REQUIRE(database.Open(folder.file()).ok());
    REQUIRE(database.Execute("PRAGMA user_version = 99").ok());
  }
  CHECK_FALSE(LabelStore::Open(folder.path()).ok());
}

TEST_CASE("A folder that cannot be made is an error", "[forecaster][store]") {
  CHECK(absl::IsPermissionDenied(LabelStore::Open("/proc/nowhere/state").status()));
}

TEST_CASE("A transaction that is not committed leaves nothing", "[forecaster][store]") {
  const Folder folder;
  Database database;
  REQUIRE(database.Open(folder.file()).ok());
  REQUIRE(database.Execute("CREATE TABLE t (x)").ok());
  {
    Transaction transaction(database);
    REQUIRE(transaction.Begin().ok());
    REQUIRE(database.Execute("INSERT INTO t VALUES (1)").ok());
  }
  CHECK(database.QueryInteger("SELECT count(*) FROM t").value() == 0);
  CHECK(absl::IsNotFound(database.QueryInteger("SELECT x FROM t").status()));
  CHECK(absl::IsInternal(database.Execute("nonsense")));
}

}  // namespace
}  // namespace kernelcast::forecaster
