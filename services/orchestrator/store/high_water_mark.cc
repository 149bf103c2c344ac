#include "services/orchestrator/store/high_water_mark.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace kernelcast::orchestrator {
namespace {

constexpr uint64_t kMagic = 0x316b'7261'6d67'6f6c;  // "logmark1"
constexpr auto kSyncInterval = std::chrono::seconds(1);

// The file has two slots, written in turn, so that one is always valid.
struct Slot {
  uint64_t magic = kMagic;
  uint64_t sequence = 0;
  uint32_t checksum = 0;
  uint32_t crc = 0;  // over the preceding fields

  uint32_t Crc() const {
    return Crc32c(std::string_view(reinterpret_cast<const char*>(this), offsetof(Slot, crc)));
  }
};
constexpr size_t kSlotBytes = 64;
constexpr size_t kFileBytes = 2 * kSlotBytes;
static_assert(sizeof(Slot) == 24);

absl::Status SyncFolderOf(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("event log: open ", folder.string()));
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  if (result == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat("event log: sync ", folder.string()));
}

}  // namespace

absl::StatusOr<std::optional<HighWaterMark::Value>> HighWaterMark::Read(const std::string& path) {
  const absl::StatusOr<std::string> content = ReadFile(path);
  if (absl::IsNotFound(content.status())) return std::nullopt;
  KC_RETURN_IF_ERROR(content.status());
  std::optional<Value> value;
  for (size_t begin = 0; begin + sizeof(Slot) <= content->size(); begin += kSlotBytes) {
    Slot slot;
    std::memcpy(&slot, content->data() + begin, sizeof slot);
    if (slot.magic != kMagic || slot.crc != slot.Crc()) continue;
    if (!value.has_value() || slot.sequence > value->sequence) {
      value = Value{slot.sequence, slot.checksum};
    }
  }
  if (!value.has_value()) {
    return absl::DataLossError(absl::StrCat("event log: ", path, " is damaged"));
  }
  return value;
}

absl::StatusOr<std::unique_ptr<HighWaterMark>> HighWaterMark::Open(const std::string& path,
                                                                   Value value) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("event log: open ", path));
  const auto fail = [&](const char* doing) {
    absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("event log: ", doing, " ", path));
    close(fd);
    return status;
  };
  if (ftruncate(fd, kFileBytes) != 0) return fail("resize");
  void* const memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return fail("map");
  std::unique_ptr<HighWaterMark> mark(new HighWaterMark(fd, static_cast<std::byte*>(memory)));
  // Writes both slots, so that an earlier mark is never used.
  mark->Set(value);
  mark->Set(value);
  if (fdatasync(fd) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("event log: sync ", path));
  KC_RETURN_IF_ERROR(SyncFolderOf(path));
  mark->syncer_ = std::jthread([fd](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    // Syncing an unchanged file costs nothing.
    while (!wake.wait_for(lock, stop, kSyncInterval, [&] { return stop.stop_requested(); })) {
      fdatasync(fd);
    }
  });
  return mark;
}

HighWaterMark::~HighWaterMark() {
  if (syncer_.joinable()) {
    syncer_.request_stop();
    syncer_.join();
  }
  fdatasync(fd_);
  munmap(file_, kFileBytes);
  close(fd_);
}

void HighWaterMark::Set(Value value) {
  Slot slot;
  slot.sequence = value.sequence;
  slot.checksum = value.checksum;
  slot.crc = slot.Crc();
  std::memcpy(file_ + (++sets_ % 2) * kSlotBytes, &slot, sizeof slot);
}

}  // namespace kernelcast::orchestrator
