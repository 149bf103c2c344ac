#include "common/base/crash_journal.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "common/base/id.h"

namespace kernelcast {
namespace {

class JournalFile {
 public:
  JournalFile()
      : path_((std::filesystem::temp_directory_path() / RandomId("kernelcast-crash-")).string()) {}
  ~JournalFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

  // Runs `body` in a separate process and returns the signal that ended it.
  int InProcess(const std::function<void(CrashJournal&)>& body) const {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);
      auto journal = CrashJournal::Open(path_);
      if (!journal.ok()) _exit(3);
      body(**journal);
      journal->reset();
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  const std::string path_;
};

TEST_CASE("Only an input active during two crashes is quarantined", "[base]") {
  const JournalFile file;
  const auto crash = [](CrashJournal& journal) {
    { const CrashJournal::Hold before(&journal, "fine"); }
    const CrashJournal::Hold hold(&journal, "poison");
    std::abort();
  };
  CHECK(file.InProcess(crash) == SIGABRT);
  {
    auto journal = CrashJournal::Open(file.path());
    REQUIRE(journal.ok());
    CHECK((*journal)->Crashes("poison") == 1);
    CHECK_FALSE(CrashJournal::SetsAside(journal->get(), "poison"));
    CHECK((*journal)->Crashes("fine") == 0);
  }
  CHECK(file.InProcess(crash) == SIGABRT);
  for (int start = 0; start < 3; ++start) {
    auto journal = CrashJournal::Open(file.path());
    REQUIRE(journal.ok());
    CHECK(CrashJournal::SetsAside(journal->get(), "poison"));
    CHECK_FALSE(CrashJournal::SetsAside(journal->get(), "fine"));
  }
}

TEST_CASE("A bystander of a crash is cleared once it completes", "[base]") {
  const JournalFile file;
  const auto crash = [](CrashJournal& journal) {
    const CrashJournal::Hold bystander(&journal, "bystander");
    const CrashJournal::Hold poison(&journal, "poison");
    std::abort();
  };
  CHECK(file.InProcess(crash) == SIGABRT);
  CHECK(file.InProcess([](CrashJournal& journal) {
    const CrashJournal::Hold hold(&journal, "bystander");
  }) == 0);
  CHECK(file.InProcess(crash) == SIGABRT);
  auto journal = CrashJournal::Open(file.path());
  REQUIRE(journal.ok());
  CHECK((*journal)->Crashes("bystander") == 1);
  CHECK((*journal)->Crashes("poison") == 2);
}

TEST_CASE("Inputs beyond the journal's capacity are still handled", "[base]") {
  const JournalFile file;
  auto journal = CrashJournal::Open(file.path());
  REQUIRE(journal.ok());
  std::vector<std::unique_ptr<CrashJournal::Hold>> holds;
  for (int i = 0; i < 200; ++i) {
    holds.push_back(std::make_unique<CrashJournal::Hold>(journal->get(), std::to_string(i)));
  }
  holds.clear();
  const CrashJournal::Hold without(nullptr, "input");
  CHECK_FALSE(CrashJournal::SetsAside(nullptr, "input"));
  CHECK((*journal)->Crashes("0") == 0);
}

TEST_CASE("One process holds a journal at a time, and a damaged journal counts as empty",
          "[base]") {
  const JournalFile file;
  {
    auto journal = CrashJournal::Open(file.path());
    REQUIRE(journal.ok());
    CHECK(absl::IsFailedPrecondition(CrashJournal::Open(file.path()).status()));
  }
  for (const size_t size : {0, 1, 4096, 100'000}) {
    std::ofstream(file.path(), std::ios::binary | std::ios::trunc) << std::string(size, '\x5a');
    auto journal = CrashJournal::Open(file.path());
    REQUIRE(journal.ok());
    CHECK((*journal)->Crashes("input") == 0);
  }
  CHECK_FALSE(CrashJournal::Open("/no/such/folder/journal").ok());
}

}  // namespace
}  // namespace kernelcast
