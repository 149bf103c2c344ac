#include "services/worker/native/shared_object.h"

#include <elf.h>

#include <cstring>
#include <optional>
#include <vector>

#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kEntry = "kernelcast_run";

absl::Status Damaged() { return absl::InvalidArgumentError("damaged shared object"); }

// Reads structures at offsets that the file itself gives.
class ElfFile {
 public:
  explicit ElfFile(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  bool Read(uint64_t offset, T& value) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
      return false;
    }
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return true;
  }

  // The zero-terminated string at an offset of a table.
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

 private:
  std::string_view bytes_;
};

absl::Status CheckHeader(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != EM_X86_64 || header.e_type != ET_DYN) {
    return absl::InvalidArgumentError("not a shared object for x86-64");
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_shentsize != sizeof(Elf64_Shdr)) {
    return Damaged();
  }
  return absl::OkStatus();
}

// Looks for the entry and for what would run while the object is loaded.
absl::Status CheckSections(const ElfFile& file, const Elf64_Ehdr& header, int64_t& text_bytes) {
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i) {
    if (!file.Read(header.e_shoff + i * sizeof(Elf64_Shdr), sections[i])) {
      return Damaged();
    }
  }
  bool has_entry = false;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_EXECINSTR) != 0) {
      text_bytes += static_cast<int64_t>(section.sh_size);
    }
    if (section.sh_type == SHT_RELA) {
      for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= section.sh_size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela relocation;
        if (!file.Read(section.sh_offset + at, relocation)) {
          return Damaged();
        }
        if (ELF64_R_TYPE(relocation.r_info) == R_X86_64_IRELATIVE) {
          return absl::InvalidArgumentError("indirect functions are not allowed");
        }
      }
    }
    if (section.sh_type != SHT_DYNSYM) {
      continue;
    }
    if (section.sh_link >= sections.size()) {
      return Damaged();
    }
    const Elf64_Shdr& strings = sections[section.sh_link];
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!file.Read(section.sh_offset + at, symbol)) {
        return Damaged();
      }
      const auto name = file.String(strings.sh_offset, strings.sh_size, symbol.st_name);
      if (!name) {
        return Damaged();
      }
      const bool defined = symbol.st_shndx != SHN_UNDEF;
      if (defined && ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC) {
        return absl::InvalidArgumentError("indirect functions are not allowed");
      }
      has_entry |= defined && *name == kEntry && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
    }
  }
  if (!has_entry) {
    return absl::InvalidArgumentError(
        "the entry kernelcast_run is not defined; it is declared in kernelcast/candidate.h");
  }
  return absl::OkStatus();
}

// Notes the constructors and renames their entries to one that loading ignores.
absl::Status TakeConstructors(const ElfFile& file, const Elf64_Phdr& dynamic,
                              LoadableObject& object) {
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    const uint64_t offset = dynamic.p_offset + at;
    if (!file.Read(offset, entry)) {
      return Damaged();
    }
    switch (entry.d_tag) {
      case DT_NULL: return absl::OkStatus();
      case DT_INIT: object.init_function = entry.d_un.d_ptr; break;
      case DT_INIT_ARRAY: object.init_array = entry.d_un.d_ptr; break;
      case DT_INIT_ARRAYSZ: object.init_array_entries = entry.d_un.d_val / sizeof(uint64_t); break;
      default: continue;
    }
    entry.d_tag = DT_DEBUG;
    std::memcpy(object.content.data() + offset, &entry, sizeof(entry));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadableObject> PrepareObject(std::string_view elf) {
  const ElfFile file(elf);
  Elf64_Ehdr header;
  if (!file.Read(0, header)) {
    return absl::InvalidArgumentError("not a shared object for x86-64");
  }
  KC_RETURN_IF_ERROR(CheckHeader(header));
  LoadableObject object;
  object.content = std::string(elf);
  KC_RETURN_IF_ERROR(CheckSections(file, header, object.text_bytes));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr program;
    if (!file.Read(header.e_phoff + static_cast<uint64_t>(i) * sizeof(Elf64_Phdr), program)) {
      return Damaged();
    }
    if (program.p_type == PT_DYNAMIC) {
      KC_RETURN_IF_ERROR(TakeConstructors(file, program, object));
    }
  }
  return object;
}

}  // namespace kernelcast::worker
