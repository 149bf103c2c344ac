#ifndef KERNELCAST_COMMON_BASE_CRASH_JOURNAL_H_
#define KERNELCAST_COMMON_BASE_CRASH_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kernelcast {

// Records in a file which inputs a process was handling when it died, so that an input that crashes
// the process is not retried forever. The caller names inputs, for example "answer:SEARCH/NUMBER".
//
//   if (journal->Crashes(name) >= CrashJournal::kLimit) return SetAside(name);
//   const CrashJournal::Hold hold(journal, name);
//   ... what may crash ...
//
// The file is mapped as shared memory, so a hold needs no system call. It survives a crash of the
// process but not of the machine. If several inputs are held when the process dies, all of them are
// counted. An input that is later handled to its end is forgotten, so that bystanders are not set
// aside.
//
// Thread-safe.
class CrashJournal {
 public:
  // An input that was held at this many crashes is set aside.
  static constexpr int kLimit = 2;

  // Marks an input as being handled while this object lives. A null journal does nothing.
  class Hold {
   public:
    Hold(CrashJournal* journal, std::string_view input);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    CrashJournal* const journal_;
    const uint64_t key_;
    int slot_ = -1;
  };

  // Counts the inputs that the last process held when it died. FAILED_PRECONDITION: another process
  // has the file open.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CrashJournal>> Open(const std::string& path);
  ~CrashJournal();
  CrashJournal(const CrashJournal&) = delete;
  CrashJournal& operator=(const CrashJournal&) = delete;

  // Number of consecutive crashes at which the input was held.
  int Crashes(std::string_view input) const;
  // Returns whether the input must be set aside. False for a null journal.
  static bool SetsAside(const CrashJournal* journal, std::string_view input) {
    return journal != nullptr && journal->Crashes(input) >= kLimit;
  }

 private:
  struct File;
  explicit CrashJournal(int fd, File* file) : fd_(fd), file_(file) {}
  void CountCrashes();
  void Forget(uint64_t key);

  const int fd_;      // locked while the journal is open
  File* const file_;  // mapped
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_CRASH_JOURNAL_H_
