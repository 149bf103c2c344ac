#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_ELF_FILE_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_ELF_FILE_H_

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::worker {

// Reads an ELF file. Offsets in the file are not trusted. Refers to `bytes`.
class ElfFile {
 public:
  explicit ElfFile(std::string_view bytes) : bytes_(bytes) {}

  uint64_t size() const { return bytes_.size(); }

  template <class T>
  bool Read(uint64_t offset, T& value) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
      return false;
    }
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return true;
  }

  // Returns the zero-terminated string at an offset of a string table.
  std::optional<std::string_view> String(uint64_t table, uint64_t table_bytes,
                                         uint64_t offset) const {
    if (table > bytes_.size() || table_bytes > bytes_.size() - table || offset >= table_bytes) {
      return std::nullopt;
    }
    const std::string_view strings = bytes_.substr(table, table_bytes);
    const size_t end = strings.find('\0', offset);
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    return strings.substr(offset, end - offset);
  }

  // INVALID_ARGUMENT: not of this type (ET_REL, ET_DYN), or not for x86-64.
  [[nodiscard]] absl::StatusOr<Elf64_Ehdr> Header(uint16_t type) const;

  struct Section {
    Elf64_Shdr header{};
    std::string_view name;
  };
  // INVALID_ARGUMENT: damaged, or a section that compilers and linkers do not make: an unknown
  // name, unexpectedly executable, or both executable and writable.
  [[nodiscard]] absl::StatusOr<std::vector<Section>> KnownSections(const Elf64_Ehdr& header) const;

 private:
  std::string_view bytes_;
};

// Whether compilers, assemblers and linkers make sections of this name for code without debugging
// information and link-time optimisation.
bool IsKnownSection(std::string_view name);

absl::Status DamagedObject();

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_ELF_FILE_H_
