#include "services/forecaster/store/label_store.h"

#include <sqlite3.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace kernelcast::forecaster {
namespace {

class LabelFolder {
 public:
  LabelFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "label-store-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~LabelFolder() {
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

TEST_CASE("Labels are read back in order after reopening", "[forecaster][store]") {
  const LabelFolder folder;
  {
    const auto store = MustOpen(folder.path());
    CHECK(MustAppend(*store, {{"b", "p_1", "cpu", "unknown", "first"},
                              {"a", "p_1", "cpu", "unknown", "second"}}) ==
          std::vector<uint64_t>{1, 2});
    const std::string bytes("\0\xff\n", 3);
    CHECK(MustAppend(*store, {{"c", "p_2", "cuda", "NVIDIA H100", bytes}}) ==
          std::vector<uint64_t>{3});
  }
  const auto store = MustOpen(folder.path());
  const std::vector<StoredLabel> labels = All(*store);
  REQUIRE(labels.size() == 3);
  CHECK(labels[0].record.label_id == "b");
  CHECK(labels[0].record.content == "first");
  CHECK(labels[1].sequence == 2);
  CHECK(labels[2].record.content == std::string("\0\xff\n", 3));
  CHECK(labels[2].record.target == "cuda");
  CHECK(labels[2].record.device_model == "NVIDIA H100");
  CHECK_FALSE(labels[2].prediction.has_value());
}

// A file in layout 1, whose labels have no device model.
void MakeLayout1(const std::string& file) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database, R"(
    CREATE TABLE labels (sequence INTEGER PRIMARY KEY AUTOINCREMENT, label_id TEXT NOT NULL UNIQUE,
                         problem_id TEXT NOT NULL, target TEXT NOT NULL, content BLOB NOT NULL);
    CREATE INDEX labels_by_problem ON labels (problem_id, target);
    CREATE TABLE problems (ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
                           problem_id TEXT NOT NULL UNIQUE, content BLOB NOT NULL);
    CREATE TABLE predictions (label_id TEXT PRIMARY KEY, backend_version TEXT NOT NULL,
                              location REAL NOT NULL, scale REAL NOT NULL,
                              degrees_of_freedom REAL NOT NULL) WITHOUT ROWID;
    INSERT INTO labels (label_id, problem_id, target, content) VALUES ('a', 'p', 'cuda', 'old');
    PRAGMA application_id = 1264797283;
    PRAGMA user_version = 1;
  )",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

TEST_CASE("Labels of layout 1 belong to the unknown device model", "[forecaster][store]") {
  const LabelFolder folder;
  MakeLayout1(folder.file());
  for (int times = 0; times < 2; ++times) {
    const auto store = MustOpen(folder.path());
    if (times == 0) {
      CHECK(MustAppend(*store, {{"b", "p", "cuda", "NVIDIA H200", "new"}}) ==
            std::vector<uint64_t>{2});
    }
    const std::vector<StoredLabel> labels = All(*store);
    REQUIRE(labels.size() == 2);
    CHECK(labels[0].record.device_model == "unknown");
    CHECK(labels[0].record.content == "old");
    CHECK(labels[1].record.device_model == "NVIDIA H200");
  }
}

TEST_CASE("A duplicate label is stored once", "[forecaster][store]") {
  const LabelFolder folder;
  const auto store = MustOpen(folder.path());
  CHECK(MustAppend(*store, {{"a", "p", "cpu", "unknown", "1"},
                            {"a", "p", "cpu", "unknown", "2"}}) == std::vector<uint64_t>{1, 0});
  const std::vector<uint64_t> again =
      MustAppend(*store, {{"a", "p", "cpu", "unknown", "3"}, {"b", "p", "cpu", "unknown", "4"}});
  CHECK(again[0] == 0);
  CHECK(again[1] > 1);
  const std::vector<StoredLabel> labels = All(*store);
  REQUIRE(labels.size() == 2);
  CHECK(labels[0].record.content == "1");
}

TEST_CASE("Problems are stored once and found by id", "[forecaster][store]") {
  const LabelFolder folder;
  const auto store = MustOpen(folder.path());
  REQUIRE(store->PutProblem("p_1", "one").ok());
  REQUIRE(store->PutProblem("p_1", "other").ok());
  CHECK(store->GetProblem("p_1").value() == "one");
  CHECK(absl::IsNotFound(store->GetProblem("p_2").status()));
}

TEST_CASE("Problems without labels are dropped, oldest first", "[forecaster][store]") {
  const LabelFolder folder;
  const auto store = MustOpen(folder.path());
  REQUIRE(store->PutProblem("labelled", "x").ok());
  MustAppend(*store, {{"a", "labelled", "cpu", "unknown", ""}});
  REQUIRE(store->PutProblem("idle", "x").ok());
  for (int i = 0; i < LabelStore::kMaxIdleProblems; ++i) {
    REQUIRE(store->PutProblem("p_" + std::to_string(i), "x").ok());
  }
  CHECK(store->GetProblem("labelled").ok());
  CHECK(store->GetProblem("p_0").ok());
  CHECK(absl::IsNotFound(store->GetProblem("idle").status()));
}

TEST_CASE("Predictions come back with their labels", "[forecaster][store]") {
  const LabelFolder folder;
  {
    const auto store = MustOpen(folder.path());
    MustAppend(*store, {{"a", "p", "cpu", "unknown", ""}, {"b", "p", "cpu", "unknown", ""}});
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
  const LabelFolder folder;
  const auto store = MustOpen(folder.path());
  MustAppend(*store, {{"a", "p", "cpu", "unknown", ""}, {"b", "p", "cpu", "unknown", ""}});
  int read = 0;
  const absl::Status status = store->ForEachLabel([&](StoredLabel) {
    ++read;
    return absl::DataLossError("odd");
  });
  CHECK(absl::IsDataLoss(status));
  CHECK(read == 1);
}

TEST_CASE("A store in use cannot be opened again", "[forecaster][store]") {
  const LabelFolder folder;
  const auto store = MustOpen(folder.path());
  const absl::StatusOr<std::unique_ptr<LabelStore>> second = LabelStore::Open(folder.path());
  REQUIRE(absl::IsUnavailable(second.status()));
  CHECK_THAT(std::string(second.status().message()),
             Catch::Matchers::Contains("in use by another process"));
}

TEST_CASE("A file that is not a store is refused by name", "[forecaster][store]") {
  const LabelFolder folder;
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
        MustAppend(*store, {{std::to_string(i), "p", "cpu", "unknown", std::string(2000, 'x')}});
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
    sqlite::Database database;
    REQUIRE(database.Open(folder.file()).ok());
    REQUIRE(database.Execute("CREATE TABLE t (x)").ok());
  }
  SECTION("another layout") {
    { MustOpen(folder.path()); }
    sqlite::Database database;
    REQUIRE(database.Open(folder.file()).ok());
    REQUIRE(database.Execute("PRAGMA user_version = 99").ok());
  }
  CHECK_FALSE(LabelStore::Open(folder.path()).ok());
}

TEST_CASE("A folder that cannot be created is an error", "[forecaster][store]") {
  CHECK(absl::IsPermissionDenied(LabelStore::Open("/proc/nowhere/state").status()));
}

}  // namespace
}  // namespace kernelcast::forecaster
