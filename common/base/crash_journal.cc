#include "common/base/crash_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/fnv.h"

namespace kernelcast {
namespace {

constexpr uint64_t kMagic = 0x6b63'6372'6173'6831;  // "kccrash1"
constexpr size_t kSlots = 64;
constexpr size_t kSuspects = 256;

// The same in the next process. Never 0, which marks an empty slot.
uint64_t KeyOf(std::string_view input) { return std::max<uint64_t>(FnvHash(input), 1); }

struct Suspect {
  std::atomic<uint64_t> key;
  std::atomic<uint64_t> crashes;
};

}  // namespace

// Layout of the file. A file of zeros is an empty journal.
struct CrashJournal::File {
  std::atomic<uint64_t> magic;
  std::atomic<uint64_t> next_suspect;
  std::array<std::atomic<uint64_t>, kSlots> in_hand;
  std::array<Suspect, kSuspects> suspects;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

CrashJournal::Hold::Hold(CrashJournal* journal, std::string_view input)
    : journal_(journal), key_(journal == nullptr ? 0 : KeyOf(input)) {
  if (journal_ == nullptr) return;
  const size_t start = std::hash<std::thread::id>()(std::this_thread::get_id());
  for (size_t i = 0; i < kSlots; ++i) {
    const size_t slot = (start + i) % kSlots;
    uint64_t free = 0;
    if (journal_->file_->in_hand[slot].compare_exchange_strong(free, key_)) {
      slot_ = static_cast<int>(slot);
      return;
    }
  }
}

CrashJournal::Hold::~Hold() {
  if (slot_ < 0) return;
  journal_->file_->in_hand[static_cast<size_t>(slot_)].store(0);
  journal_->Forget(key_);
}

absl::StatusOr<std::unique_ptr<CrashJournal>> CrashJournal::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("crash journal: open ", path));
  const auto fail = [fd](absl::Status status) {
    close(fd);
    return status;
  };
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return fail(absl::FailedPreconditionError(
        absl::StrCat("crash journal: ", path, " is in use by another process")));
  }
  struct stat status = {};
  // A file of another size or version is treated as empty.
  if (fstat(fd, &status) != 0 || (status.st_size != sizeof(File) && ftruncate(fd, 0) != 0) ||
      ftruncate(fd, sizeof(File)) != 0) {
    return fail(absl::ErrnoToStatus(errno, absl::StrCat("crash journal: ", path)));
  }
  void* const memory = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return fail(absl::ErrnoToStatus(errno, absl::StrCat("crash journal: map ", path)));
  }
  std::unique_ptr<CrashJournal> journal(new CrashJournal(fd, static_cast<File*>(memory)));
  journal->CountCrashes();
  return journal;
}

CrashJournal::~CrashJournal() {
  munmap(file_, sizeof(File));
  close(fd_);
}

void CrashJournal::CountCrashes() {
  if (file_->magic != kMagic) {
    for (auto& slot : file_->in_hand) slot = 0;
    for (Suspect& suspect : file_->suspects) suspect.key = suspect.crashes = 0;
    file_->next_suspect = 0;
    file_->magic = kMagic;
  }
  for (auto& slot : file_->in_hand) {
    const uint64_t key = slot.load();
    if (key == 0) continue;
    bool known = false;
    for (Suspect& suspect : file_->suspects) {
      if (suspect.key != key) continue;
      ++suspect.crashes;
      known = true;
      break;
    }
    if (!known) {
      Suspect& suspect = file_->suspects[file_->next_suspect++ % kSuspects];
      suspect.key = key;
      suspect.crashes = 1;
    }
    slot = 0;
  }
}

void CrashJournal::Forget(uint64_t key) {
  if (file_->next_suspect.load(std::memory_order_relaxed) == 0) return;
  for (Suspect& suspect : file_->suspects) {
    uint64_t expected = key;
    suspect.key.compare_exchange_strong(expected, 0);
  }
}

int CrashJournal::Crashes(std::string_view input) const {
  if (file_->next_suspect.load(std::memory_order_relaxed) == 0) return 0;
  const uint64_t key = KeyOf(input);
  for (const Suspect& suspect : file_->suspects) {
    if (suspect.key == key) return static_cast<int>(suspect.crashes.load());
  }
  return 0;
}

}  // namespace kernelcast
