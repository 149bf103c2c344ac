#include "services/gateway/store/task_file.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"

namespace kernelcast::gateway {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kPlenty = 1 << 20;

struct Directory {
  Directory() : path((fs::temp_directory_path() / RandomId("tasks-")).string()) {}
  ~Directory() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::unique_ptr<TaskFile> Open(int64_t max_bytes = kPlenty) const {
    auto file = TaskFile::Open(path, max_bytes);
    INFO(file.status().ToString());
    REQUIRE(file.ok());
    return *std::move(file);
  }
  const std::string path;
};

Submission Stored(const std::string& id, const std::string& owner = "me") {
  Submission submission;
  submission.task_id = id;
  submission.dialect = "popcorn";
  submission.owner = owner;
  submission.name = "small";
  submission.candidate.problem_id = "p_1";
  submission.candidate.target = "cuda";
  submission.candidate.kind = CandidateKind::kPython;
  submission.candidate.source = "x = 'ü'\n";
  submission.candidate.name = "a.py";
  submission.device_model = "h200";
  submission.problem_files = {{"reference.py", "class Model: ..."}};
  submission.checks_only = true;
  submission.note = {{"mode", "test"}, {"id", 7}};
  return submission;
}

TEST_CASE("Stored tasks are read back after a restart", "[gateway][store]") {
  const Directory directory;
  REQUIRE(directory.Open()->Put(Stored("a"), 123).ok());
  const auto file = directory.Open();
  const auto found = file->Find("a");
  REQUIRE(found.ok());
  const Submission& submission = found->submission;
  CHECK(found->created_ns == 123);
  CHECK(submission.task_id == "a");
  CHECK(submission.dialect == "popcorn");
  CHECK(submission.owner == "me");
  CHECK(submission.name == "small");
  CHECK(submission.candidate.candidate_id == CandidateId(Stored("a").candidate));
  CHECK(submission.candidate.name == "a.py");
  CHECK(submission.device_model == "h200");
  REQUIRE(submission.problem_files.size() == 1);
  CHECK(submission.problem_files[0].content == "class Model: ...");
  CHECK(submission.checks_only);
  CHECK(submission.note == Stored("a").note);
  CHECK(absl::IsNotFound(file->Find("b").status()));
}

TEST_CASE("A task is stored once, and counted once", "[gateway][store]") {
  const Directory directory;
  const auto file = directory.Open();
  REQUIRE(file->Put(Stored("a"), 1).ok());
  REQUIRE(file->Put(Stored("a"), 2).ok());
  CHECK(file->Find("a")->created_ns == 1);
  CHECK(*file->Count("popcorn", "small") == 1);
  CHECK(*file->Count("gepa", "small") == 0);
}

TEST_CASE("The tasks of an owner are listed, latest first", "[gateway][store]") {
  const Directory directory;
  const auto file = directory.Open();
  for (const char* id : {"a", "b", "c"}) REQUIRE(file->Put(Stored(id), 1).ok());
  REQUIRE(file->Put(Stored("d", "you"), 1).ok());
  using Ids = std::vector<std::string>;
  CHECK(*file->List("popcorn", "me", "", 10, 0) == Ids{"c", "b", "a"});
  CHECK(*file->List("popcorn", "me", "small", 1, 1) == Ids{"b"});
  CHECK(file->List("popcorn", "me", "other", 10, 0)->empty());
}

TEST_CASE("The oldest tasks are dropped, and stay counted", "[gateway][store]") {
  const Directory directory;
  const auto file = directory.Open(2000);
  for (int i = 0; i < 50; ++i) REQUIRE(file->Put(Stored(absl::StrCat("t", i)), i).ok());
  CHECK(absl::IsNotFound(file->Find("t0").status()));
  CHECK(file->Find("t49").ok());
  const size_t left = file->List("popcorn", "me", "", 100, 0)->size();
  CHECK(left > 1);
  CHECK(left < 10);
  CHECK(*file->Count("popcorn", "small") == 50);
}

TEST_CASE("A file is used by one gateway at a time", "[gateway][store]") {
  const Directory directory;
  const auto file = directory.Open();
  CHECK(absl::IsUnavailable(TaskFile::Open(directory.path, kPlenty).status()));
}

TEST_CASE("A file of another layout is refused", "[gateway][store]") {
  const Directory directory;
  { directory.Open(); }
  {
    sqlite::Database database;
    REQUIRE(database.Open(directory.path + "/" + TaskFile::kFileName).ok());
    REQUIRE(database.Execute("PRAGMA user_version = 99").ok());
  }
  CHECK(absl::IsFailedPrecondition(TaskFile::Open(directory.path, kPlenty).status()));
}

}  // namespace
}  // namespace kernelcast::gateway
