#include "services/worker/native/shared_object.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/status.h"
#include "services/worker/native/elf_file.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kEntry = "kernelcast_run";

struct NamedSymbol {
  Elf64_Sym symbol{};
  std::string_view name;
};

absl::StatusOr<std::vector<NamedSymbol>> ReadSymbols(const ElfFile& file,
                                                     const std::vector<ElfFile::Section>& sections,
                                                     const Elf64_Shdr& table) {
  if (table.sh_link >= sections.size()) {
    return DamagedObject();
  }
  const Elf64_Shdr& strings = sections[table.sh_link].header;
  std::vector<NamedSymbol> symbols;
  for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
    NamedSymbol symbol;
    if (!file.Read(table.sh_offset + at, symbol.symbol)) {
      return DamagedObject();
    }
    const auto name = file.String(strings.sh_offset, strings.sh_size, symbol.symbol.st_name);
    if (!name) {
      return DamagedObject();
    }
    symbol.name = *name;
    symbols.push_back(symbol);
  }
  return symbols;
}

// Finds the entry and rejects code that would run while the object is loaded.
absl::Status CheckSections(const ElfFile& file, const Elf64_Ehdr& header, int64_t& text_bytes) {
  KC_ASSIGN_OR_RETURN(const std::vector<ElfFile::Section> sections, file.KnownSections(header));
  bool has_entry = false;
  for (const auto& [section, section_name] : sections) {
    if (section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_EXECINSTR) != 0) {
      if (section.sh_size > file.size()) return DamagedObject();
      text_bytes += static_cast<int64_t>(section.sh_size);
    }
    if (section.sh_type == SHT_RELA) {
      for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= section.sh_size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela relocation;
        if (!file.Read(section.sh_offset + at, relocation)) {
          return DamagedObject();
        }
        if (ELF64_R_TYPE(relocation.r_info) == R_X86_64_IRELATIVE) {
          return absl::InvalidArgumentError("indirect functions are not allowed");
        }
      }
    }
    if (section.sh_type != SHT_DYNSYM) {
      continue;
    }
    KC_ASSIGN_OR_RETURN(const auto symbols, ReadSymbols(file, sections, section));
    for (const auto& [symbol, name] : symbols) {
      const bool defined = symbol.st_shndx != SHN_UNDEF;
      if (defined && ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC) {
        return absl::InvalidArgumentError("indirect functions are not allowed");
      }
      has_entry |= defined && name == kEntry && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
    }
  }
  if (!has_entry) {
    return absl::InvalidArgumentError(
        "the entry kernelcast_run is not defined; it is declared in kernelcast/candidate.h");
  }
  return absl::OkStatus();
}

// Memory that is both writable and executable could hold code that no compiler made.
absl::Status CheckSegment(const Elf64_Phdr& program, LoadableObject& object) {
  const bool executable = (program.p_flags & PF_X) != 0;
  if (program.p_type == PT_GNU_STACK && executable) {
    return absl::InvalidArgumentError("the object wants an executable stack");
  }
  if (program.p_type == PT_LOAD) {
    if (executable && (program.p_flags & PF_W) != 0) {
      return absl::InvalidArgumentError("the object wants writable and executable memory");
    }
    constexpr uint64_t kMost = uint64_t{1} << 62;
    object.memory_bytes = std::min(kMost, object.memory_bytes + std::min(kMost, program.p_memsz));
  }
  return absl::OkStatus();
}

// Records the constructors and replaces their entries by ones that the loader ignores.
absl::Status TakeConstructors(const ElfFile& file, const Elf64_Phdr& dynamic,
                              LoadableObject& object) {
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    const uint64_t offset = dynamic.p_offset + at;
    if (!file.Read(offset, entry)) {
      return DamagedObject();
    }
    switch (entry.d_tag) {
      case DT_NULL: return absl::OkStatus();
      case DT_INIT: object.init_function = entry.d_un.d_ptr; break;
      case DT_INIT_ARRAY: object.init_array = entry.d_un.d_ptr; break;
      case DT_INIT_ARRAYSZ: object.init_array_entries = entry.d_un.d_val / sizeof(uint64_t); break;
      case DT_TEXTREL:
        return absl::InvalidArgumentError("the object wants its code to be changed when loaded");
      case DT_RPATH:
      case DT_RUNPATH:
      case DT_AUXILIARY:
      case DT_FILTER:
      case DT_AUDIT:
      case DT_DEPAUDIT:
        return absl::InvalidArgumentError("the object names places or objects to load from");
      default: continue;
    }
    entry.d_tag = DT_DEBUG;
    std::memcpy(object.content.data() + offset, &entry, sizeof(entry));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RelocatableObject> ReadRelocatable(std::string_view elf) {
  const ElfFile file(elf);
  KC_ASSIGN_OR_RETURN(const Elf64_Ehdr header, file.Header(ET_REL));
  KC_ASSIGN_OR_RETURN(const std::vector<ElfFile::Section> sections, file.KnownSections(header));
  RelocatableObject object;
  for (const ElfFile::Section& section : sections) {
    if (section.header.sh_type != SHT_SYMTAB) continue;
    KC_ASSIGN_OR_RETURN(const auto symbols, ReadSymbols(file, sections, section.header));
    for (const NamedSymbol& symbol : symbols) {
      const bool cxx = symbol.name.substr(0, 2) == "_Z" || symbol.name.substr(0, 5) == "__cxa" ||
                       symbol.name.substr(0, 5) == "__gxx";
      object.needs_cxx_library |= cxx && symbol.symbol.st_shndx == SHN_UNDEF;
    }
  }
  return object;
}

absl::StatusOr<LoadableObject> PrepareObject(std::string_view elf) {
  const ElfFile file(elf);
  KC_ASSIGN_OR_RETURN(const Elf64_Ehdr header, file.Header(ET_DYN));
  LoadableObject object;
  object.content = std::string(elf);
  KC_RETURN_IF_ERROR(CheckSections(file, header, object.text_bytes));
  bool data_only_stack = false;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr program;
    if (!file.Read(header.e_phoff + static_cast<uint64_t>(i) * sizeof(Elf64_Phdr), program)) {
      return DamagedObject();
    }
    KC_RETURN_IF_ERROR(CheckSegment(program, object));
    data_only_stack |= program.p_type == PT_GNU_STACK;
    if (program.p_type == PT_DYNAMIC) {
      KC_RETURN_IF_ERROR(TakeConstructors(file, program, object));
    }
  }
  if (!data_only_stack) {
    return absl::InvalidArgumentError(
        "the object has no PT_GNU_STACK header, so its stack could be executable");
  }
  return object;
}

}  // namespace kernelcast::worker
