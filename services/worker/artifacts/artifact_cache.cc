#include "services/worker/artifacts/artifact_cache.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/id.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "kernelcast artifact 2\n";
// The contents of an entry. 1 was an error, among them those of compilers that did not work; such
// entries are dropped.
constexpr uint64_t kSuccess = 0;
constexpr uint64_t kError = 2;
constexpr size_t kHashBytes = 32;
constexpr const char* kSuffix = ".entry";
constexpr const char* kTemporarySuffix = ".new";
// Temporary files older than this belong to a process that has ended.
constexpr auto kTemporaryAge = std::chrono::hours(1);

std::string Hash(std::string_view payload) { return ContentHasher().Add(payload).Hex128(); }

class Writer {
 public:
  void Number(uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Real(double value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void Text(const std::string& text) {
    Number(text.size());
    bytes_ += text;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint64_t Number() { return Raw<uint64_t>(); }
  double Real() { return Raw<double>(); }
  std::string Text() {
    const uint64_t size = Number();
    if (size > bytes_.size()) {
      ok_ = false;
      return "";
    }
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  bool ok() const { return ok_ && bytes_.empty(); }
  uint64_t left() const { return bytes_.size(); }

 private:
  template <class T>
  T Raw() {
    T value{};
    if (bytes_.size() < sizeof(T)) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace

std::string EncodeCacheEntry(const CompileResult& result) {
  Writer writer;
  writer.Number(static_cast<uint64_t>(result.compile_ns));
  if (const auto* error = std::get_if<CompileError>(&result.result)) {
    writer.Number(kError);
    writer.Number(static_cast<uint64_t>(error->stage));
    writer.Text(error->log);
  } else {
    const auto& success = std::get<CompileSuccess>(result.result);
    writer.Number(kSuccess);
    writer.Text(success.facts.schema);
    writer.Number(success.facts.values.size());
    for (const double value : success.facts.values) {
      writer.Real(value);
    }
    writer.Text(success.artifact.artifact_id);
    writer.Number(static_cast<uint64_t>(success.artifact.format));
    writer.Text(success.artifact.architecture);
    writer.Text(success.artifact.toolchain);
    writer.Text(success.artifact.content);
    writer.Text(success.log);
    writer.Text(success.ptx);
  }
  const std::string payload = writer.Take();
  return absl::StrCat(std::string(kMagic), Hash(payload), payload);
}

std::optional<CompileResult> DecodeCacheEntry(const std::string& file) {
  const std::string_view bytes(file);
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() < kMagic.size() + kHashBytes) {
    return std::nullopt;
  }
  const std::string_view payload = bytes.substr(kMagic.size() + kHashBytes);
  if (Hash(payload) != bytes.substr(kMagic.size(), kHashBytes)) {
    return std::nullopt;
  }
  Reader reader(payload);
  CompileResult result;
  result.compile_ns = static_cast<int64_t>(reader.Number());
  const uint64_t kind = reader.Number();
  if (kind == kError) {
    CompileError error;
    error.stage = static_cast<CompileStage>(reader.Number());
    error.log = reader.Text();
    result.result = std::move(error);
  } else if (kind != kSuccess) {
    return std::nullopt;
  } else {
    CompileSuccess success;
    success.facts.schema = reader.Text();
    const uint64_t count = reader.Number();
    for (uint64_t i = 0; i < count && reader.left() > 0; ++i) {
      success.facts.values.push_back(reader.Real());
    }
    success.artifact.artifact_id = reader.Text();
    success.artifact.format = static_cast<ArtifactFormat>(reader.Number());
    success.artifact.architecture = reader.Text();
    success.artifact.toolchain = reader.Text();
    success.artifact.content = reader.Text();
    success.log = reader.Text();
    success.ptx = reader.Text();
    // The schema may have changed since the entry was written.
    if (!ValidateFacts(success.facts).ok()) {
      return std::nullopt;
    }
    result.result = std::move(success);
  }
  if (!reader.ok()) {
    return std::nullopt;
  }
  return result;
}

absl::StatusOr<std::unique_ptr<ArtifactCache>> ArtifactCache::Open(const std::string& directory,
                                                                   int64_t max_bytes) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error || access(directory.c_str(), W_OK | X_OK) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot use the cache folder ", directory, ": ",
                                               error ? error.message() : std::strerror(errno)));
  }
  std::unique_ptr<ArtifactCache> cache(new ArtifactCache(directory, max_bytes));
  cache->Scan();
  return cache;
}

std::string ArtifactCache::PathOf(const std::string& artifact_id) const {
  return absl::StrCat(directory_, "/", artifact_id, kSuffix);
}

void ArtifactCache::Scan() {
  struct Found {
    std::string name;
    int64_t bytes;
    fs::file_time_type used;
  };
  std::vector<Found> found;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(directory_, error)) {
    const std::string extension = file.path().extension().string();
    std::error_code ignored;
    const fs::file_time_type used = file.last_write_time(ignored);
    if (extension == kSuffix) {
      found.push_back(
          {file.path().filename().string(), static_cast<int64_t>(file.file_size(ignored)), used});
    } else if (extension == kTemporarySuffix &&
               fs::file_time_type::clock::now() - used > kTemporaryAge) {
      fs::remove(file.path(), ignored);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.used < b.used; });
  const std::lock_guard lock(mutex_);
  for (const Found& file : found) {
    entries_[file.name] = {file.bytes, ++clock_};
    bytes_ += file.bytes;
  }
  Evict();
}

std::optional<CompileResult> ArtifactCache::Get(const std::string& artifact_id) {
  const std::string path = PathOf(artifact_id);
  const absl::StatusOr<std::string> content = ReadFile(path);
  if (!content.ok()) return std::nullopt;
  auto result = DecodeCacheEntry(*content);
  const std::string name = absl::StrCat(artifact_id, kSuffix);
  std::error_code ignored;
  if (result) {
    fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  } else {
    fs::remove(path, ignored);
  }
  const std::lock_guard lock(mutex_);
  if (result) {
    const auto entry = entries_.find(name);
    if (entry != entries_.end()) {
      entry->second.last_used = ++clock_;
    }
    result->cached = true;
  } else if (const auto entry = entries_.find(name); entry != entries_.end()) {
    bytes_ -= entry->second.bytes;
    entries_.erase(entry);
  }
  return result;
}

void ArtifactCache::Put(const std::string& artifact_id, const CompileResult& result) {
  const auto* error = std::get_if<CompileError>(&result.result);
  if (error != nullptr && error->stage == CompileStage::kLimit) {
    return;
  }
  const std::string content = EncodeCacheEntry(result);
  const auto size = static_cast<int64_t>(content.size());
  if (size > max_bytes_) {
    return;
  }
  // Unique among the processes that share the folder.
  const std::string temporary = absl::StrCat(directory_, "/", RandomId("t_"), kTemporarySuffix);
  std::error_code failed;
  {
    std::ofstream file(temporary, std::ios::binary);
    file << content;
    file.close();
    if (!file) {
      fs::remove(temporary, failed);
      return;
    }
  }
  fs::rename(temporary, PathOf(artifact_id), failed);
  if (failed) {
    fs::remove(temporary, failed);
    return;
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[absl::StrCat(artifact_id, kSuffix)];
  bytes_ += size - entry.bytes;
  entry = {size, ++clock_};
  Evict();
}

void ArtifactCache::Evict() {
  if (bytes_ <= max_bytes_) {
    return;
  }
  std::vector<std::pair<int64_t, std::string>> by_age;
  for (const auto& [name, entry] : entries_) {
    by_age.emplace_back(entry.last_used, name);
  }
  std::sort(by_age.begin(), by_age.end());
  // Evict more than needed, so that not every compile evicts.
  const int64_t goal = max_bytes_ - max_bytes_ / 10;
  for (const auto& [age, name] : by_age) {
    if (bytes_ <= goal) {
      break;
    }
    std::error_code ignored;
    fs::remove(absl::StrCat(directory_, "/", name), ignored);
    const auto entry = entries_.find(name);
    bytes_ -= entry->second.bytes;
    entries_.erase(entry);
  }
}

int64_t ArtifactCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace kernelcast::worker
