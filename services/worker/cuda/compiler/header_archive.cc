#include "services/worker/cuda/compiler/header_archive.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/strings.h"
#include "services/worker/cuda/compiler/standard_headers.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxHeaderBytes = 8 << 20;

// Parts of the toolkit that device code does not need.
bool IsForHosts(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {
      "cccl/",   "cupti",        "Open",       "cudaGL",          "cudaEGL",    "cudaVDPAU",
      "cuda_gl", "cuda_egl",     "cuda_vdpau", "nvperf",          "generated_", "nvrtc.h",
      "nvvm.h",  "cudaProfiler", "nvml.h",     "cuda_occupancy.h"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view prefix) {
    return name.substr(0, prefix.size()) == prefix;
  });
}

// CUB's header of everything without its algorithms that a host launches, which NVRTC refuses.
std::string ForDevices(std::string_view cub) {
  std::string text;
  for (const auto line : absl::StrSplit(AbslView(cub), '\n')) {
    const bool for_hosts = absl::StrContains(line, "<cub/device/") ||
                           absl::StrContains(line, "<cub/util_allocator.cuh>");
    absl::StrAppend(&text, for_hosts ? "" : line, "\n");
  }
  return text;
}

// Whether a header of a package includes a file, which `included` is set to: quoted, in angle
// brackets, or by CUTLASS's macro for headers of CCCL.
bool IncludesFile(std::string_view line, IncludedFile& included) {
  const auto skip_blanks = [&line] {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  };
  const auto skip = [&line, &skip_blanks](std::string_view word) {
    if (!line.starts_with(word)) return false;
    line.remove_prefix(word.size());
    skip_blanks();
    return true;
  };
  skip_blanks();
  if (!skip("#") || !skip("include")) return false;
  const bool is_macro = skip("CUDA_STD_HEADER(");
  const char first = is_macro || line.empty() ? '(' : line.front();
  if (!is_macro) line.remove_prefix(std::min<size_t>(1, line.size()));
  const size_t end = line.find(first == '<' ? '>' : first == '"' ? '"' : ')');
  if (end == std::string_view::npos) return false;
  included = {absl::StrCat(is_macro ? "cuda/std/" : "", std::string(line.substr(0, end))),
              first == '"'};
  return is_macro || first == '<' || first == '"';
}

// Rewrites the includes of a package's header so that each file of the package has one name. NVRTC
// knows headers only by the names in directives. With two names for a file, it would read the file
// twice in spite of #pragma once. For a name without a folder, it could find another package's
// file.
std::string WithFullNames(const std::string& name, std::string_view text,
                          const std::map<std::string, std::string>& package) {
  std::string rewritten;
  for (const auto part : absl::StrSplit(AbslView(text), '\n')) {
    const std::string_view line(part.data(), part.size());
    IncludedFile included;
    if (!IncludesFile(line, included)) {
      absl::StrAppend(&rewritten, part, "\n");
      continue;
    }
    const std::string beside =
        (fs::path(name).parent_path() / included.name).lexically_normal().generic_string();
    const bool is_beside = included.quoted && package.contains(beside);
    absl::StrAppend(&rewritten, "#include <", is_beside ? beside : included.name, ">\n");
  }
  return rewritten;
}

absl::Status Unavailable(const char* what) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " the memory of the CUDA headers: ", std::strerror(errno)));
}

// Adds the files below `root` for which `wanted` is true, by their relative path.
// `wanted_folder` says which of its folders to read.
void Collect(const fs::path& root, const std::function<bool(std::string_view)>& wanted_folder,
             const std::function<bool(std::string_view)>& wanted,
             std::map<std::string, std::string>& texts) {
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(root, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().lexically_relative(root).generic_string();
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      if (entry.depth() == 0 && !wanted_folder(name)) entry.disable_recursion_pending();
      continue;
    }
    if (!entry->is_regular_file(ignored) || texts.contains(name) || !wanted(name) ||
        entry->file_size(ignored) > kMaxHeaderBytes) {
      continue;
    }
    absl::StatusOr<std::string> content = ReadFile(entry->path());
    // A NUL terminates a header in the archive.
    if (content.ok() && content->find('\0') == std::string::npos) {
      texts.emplace(name, *std::move(content));
    }
  }
}

// Adds the toolkit's files below `root`. If the root is a system folder, folders and files of other
// packages are skipped.
void CollectToolkit(const fs::path& root, bool only_known,
                    std::map<std::string, std::string>& texts) {
  static constexpr std::string_view kFolders[] = {
      "crt", "cooperative_groups", "cuda", "cub", "nv", "thrust"};
  static constexpr std::string_view kFiles[] = {
      "cu",      "mma.h",       "vector_",   "device_",
      "driver_", "host_",       "math_",     "sm_",
      "texture", "surface",     "library_",  "builtin_types",
      "channel", "common_func", "fatbinary", "cooperative_groups.h"};
  const auto is_folder = [](std::string_view name) {
    return std::find(std::begin(kFolders), std::end(kFolders), name) != std::end(kFolders);
  };
  const auto is_file = [only_known](std::string_view name) {
    const bool is_known =
        !only_known || name.find('/') != std::string_view::npos ||
        std::any_of(std::begin(kFiles), std::end(kFiles),
                    [&](std::string_view prefix) { return name.starts_with(prefix); });
    return is_known && !IsForHosts(name);
  };
  Collect(root, is_folder, is_file, texts);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HeaderArchive>> HeaderArchive::Read(
    const std::string& include_directory, std::span<const HeaderFolder> packages,
    std::span<const std::string> more_directories) {
  std::map<std::string, std::string> texts;
  const fs::path root(include_directory);
  CollectToolkit(root, true, texts);
  CollectToolkit(root / "cccl", false, texts);
  if (texts.count("cuda_fp16.h") == 0) {
    return absl::NotFoundError(absl::StrCat("no cuda_fp16.h in ", include_directory));
  }
  for (const std::string& folder : more_directories) CollectToolkit(folder, true, texts);
  if (const auto cub = texts.find("cub/cub.cuh"); cub != texts.end()) {
    cub->second = ForDevices(cub->second);
  }
  for (const StandardHeader& header : StandardHeaders()) {
    texts[header.name] = header.text;
  }
  std::map<std::string, std::string> added;
  for (const HeaderFolder& package : packages) {
    const size_t before = added.size();
    Collect(
        package.root, [&](std::string_view name) { return name == package.name; },
        [](std::string_view name) { return name.find('/') != std::string_view::npos; }, added);
    if (added.size() == before) {
      return absl::NotFoundError(absl::StrCat("no headers in ", package.root, "/", package.name));
    }
  }
  for (const auto& [name, text] : added) {
    texts.emplace(name, WithFullNames(name, text, added));
  }

  std::unique_ptr<HeaderArchive> archive(new HeaderArchive());
  ContentHasher hasher;
  std::string memory;
  for (const auto& [name, text] : texts) {
    hasher.Add(name).Add(text);
    archive->by_name_.emplace(name, archive->files_.size());
    archive->files_.push_back({name, memory.size(), text.size()});
    memory.append(text).push_back('\0');
  }
  archive->hash_ = hasher.Hex128();
  archive->memory_bytes_ = memory.size();

  archive->fd_ = memfd_create("kernelcast-cuda-headers", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (archive->fd_ < 0) {
    return Unavailable("make");
  }
  for (size_t written = 0; written < memory.size();) {
    const ssize_t count = write(archive->fd_, memory.data() + written, memory.size() - written);
    if (count < 0 && errno != EINTR) {
      return Unavailable("fill");
    }
    written += count > 0 ? static_cast<size_t>(count) : 0;
  }
  if (fcntl(archive->fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) !=
      0) {
    return Unavailable("seal");
  }
  void* mapped = mmap(nullptr, memory.size(), PROT_READ, MAP_SHARED, archive->fd_, 0);
  if (mapped == MAP_FAILED) {
    return Unavailable("map");
  }
  archive->memory_ = static_cast<const char*>(mapped);
  return archive;
}

HeaderArchive::~HeaderArchive() {
  if (memory_ != nullptr) {
    munmap(const_cast<char*>(memory_), memory_bytes_);
  }
  if (fd_ >= 0) {
    close(fd_);
  }
}

std::optional<std::string_view> HeaderArchive::Text(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    return std::nullopt;
  }
  const File& file = files_[found->second];
  return std::string_view(memory_ + file.offset, file.size);
}

const std::vector<IncludedFile>& HeaderArchive::IncludesOf(size_t file) const {
  const std::lock_guard lock(mutex_);
  const auto found = includes_.find(file);
  if (found != includes_.end()) {
    return found->second;
  }
  const std::string_view text(memory_ + files_[file].offset, files_[file].size);
  return includes_.emplace(file, IncludedFiles(text)).first->second;
}

std::optional<size_t> HeaderArchive::Find(const IncludedFile& included,
                                          const std::string* includer) const {
  const auto beside = [&]() -> std::optional<size_t> {
    if (includer == nullptr) {
      return std::nullopt;
    }
    const std::string path =
        (fs::path(*includer).parent_path() / included.name).lexically_normal().generic_string();
    const auto found = by_name_.find(path);
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  };
  if (included.quoted) {
    if (const auto file = beside()) {
      return file;
    }
  }
  const auto found = by_name_.find(included.name);
  if (found != by_name_.end()) {
    return found->second;
  }
  return included.quoted ? std::nullopt : beside();
}

std::vector<compiler_wire::NamedHeader> HeaderArchive::Reach(
    std::span<const IncludedFile> included) const {
  std::vector<compiler_wire::NamedHeader> headers;
  // The compiler finds headers only by the name in the #include, so a file that is included by two
  // names is passed under both.
  std::set<std::string, std::less<>> names;
  std::set<size_t> seen;
  std::deque<size_t> open;
  const auto reach = [&](const IncludedFile& file, const std::string* includer) {
    const auto found = Find(file, includer);
    if (!found) {
      return;
    }
    if (names.insert(file.name).second) {
      headers.push_back({file.name, files_[*found].offset});
    }
    if (seen.insert(*found).second) {
      open.push_back(*found);
    }
  };
  for (const IncludedFile& file : included) {
    reach(file, nullptr);
  }
  while (!open.empty()) {
    const size_t file = open.front();
    open.pop_front();
    for (const IncludedFile& next : IncludesOf(file)) {
      reach(next, &files_[file].name);
    }
  }
  return headers;
}

}  // namespace kernelcast::worker
