#ifndef KERNELCAST_TESTS_SUPPORT_CRASHED_WITH_H_
#define KERNELCAST_TESTS_SUPPORT_CRASHED_WITH_H_

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "common/base/crash_journal.h"

namespace kernelcast::testing {

// Writes the crash journal that `times` processes leave when each dies with this input active.
inline void CrashedWith(const std::string& path, const std::string& input, int times) {
  for (int i = 0; i < times; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto journal = CrashJournal::Open(path);
      if (!journal.ok()) _exit(1);
      const CrashJournal::Hold hold(journal->get(), input);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
  }
}

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_CRASHED_WITH_H_
