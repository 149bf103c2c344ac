#include "services/worker/native/elf_file.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

using namespace std::string_view_literals;

constexpr std::array kNames = {
    // Written by compilers, each also with a suffix after a dot.
    ".text"sv, ".data"sv, ".bss"sv, ".rodata"sv, ".tdata"sv, ".tbss"sv, ".init_array"sv,
    ".fini_array"sv, ".gcc_except_table"sv, ".eh_frame"sv, ".group"sv, ".comment"sv,
    // Written by nvcc and its runtime.
    ".nv_fatbin"sv, ".nvFatBinSegment"sv, "__nv_module_id"sv, ".nv_module_id"sv};

constexpr std::array kExactNames = {
    // Written by assemblers.
    ""sv, ".symtab"sv, ".symtab_shndx"sv, ".strtab"sv, ".shstrtab"sv, ".note.GNU-stack"sv,
    ".note.gnu.property"sv, ".llvm_addrsig"sv,
    // Written by linkers, or part of the C library's start files.
    ".dynsym"sv, ".dynstr"sv, ".dynamic"sv, ".hash"sv, ".gnu.hash"sv, ".gnu.version"sv,
    ".gnu.version_r"sv, ".gnu.version_d"sv, ".got"sv, ".got.plt"sv, ".plt"sv, ".plt.got"sv,
    ".plt.sec"sv, ".init"sv, ".fini"sv, ".eh_frame_hdr"sv, ".tm_clone_table"sv,
    ".note.gnu.build-id"sv, ".note.ABI-tag"sv, ".rela.dyn"sv, ".relro_padding"sv};

constexpr std::string_view kRelocations = ".rela";

bool IsOrBegins(std::string_view name, std::string_view known) {
  return name.substr(0, known.size()) == known &&
         (name.size() == known.size() || name[known.size()] == '.');
}

bool MayExecute(std::string_view name) {
  return IsOrBegins(name, ".text") || IsOrBegins(name, ".plt") || name == ".init" ||
         name == ".fini";
}

absl::Status Check(const ElfFile::Section& section) {
  const std::string name(section.name.substr(0, 200));
  if (!IsKnownSection(section.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("section '", name, "' is none that compilers make"));
  }
  const bool executable = (section.header.sh_flags & SHF_EXECINSTR) != 0;
  if (executable && (section.header.sh_flags & SHF_WRITE) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("section '", name, "' is writable and executable"));
  }
  if (executable && !MayExecute(section.name)) {
    return absl::InvalidArgumentError(absl::StrCat("section '", name, "' is executable"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DamagedObject() { return absl::InvalidArgumentError("damaged object"); }

bool IsKnownSection(std::string_view name) {
  if (std::find(kExactNames.begin(), kExactNames.end(), name) != kExactNames.end()) return true;
  if (name.size() > kRelocations.size() && name.substr(0, kRelocations.size()) == kRelocations) {
    return IsKnownSection(name.substr(kRelocations.size()));
  }
  return std::any_of(kNames.begin(), kNames.end(),
                     [name](std::string_view known) { return IsOrBegins(name, known); });
}

absl::StatusOr<Elf64_Ehdr> ElfFile::Header(uint16_t type) const {
  Elf64_Ehdr header;
  if (!Read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
      header.e_type != type) {
    return absl::InvalidArgumentError(
        absl::StrCat("not ", type == ET_DYN ? "a shared" : "an", " object for x86-64"));
  }
  if ((header.e_phnum > 0 && header.e_phentsize != sizeof(Elf64_Phdr)) ||
      header.e_shentsize != sizeof(Elf64_Shdr)) {
    return DamagedObject();
  }
  return header;
}

absl::StatusOr<std::vector<ElfFile::Section>> ElfFile::KnownSections(
    const Elf64_Ehdr& header) const {
  std::vector<Section> sections(header.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i) {
    if (!Read(header.e_shoff + i * sizeof(Elf64_Shdr), sections[i].header)) {
      return DamagedObject();
    }
  }
  if (header.e_shstrndx >= sections.size()) {
    return DamagedObject();
  }
  const Elf64_Shdr& names = sections[header.e_shstrndx].header;
  for (Section& section : sections) {
    const auto name = String(names.sh_offset, names.sh_size, section.header.sh_name);
    if (!name) {
      return DamagedObject();
    }
    section.name = *name;
    KC_RETURN_IF_ERROR(Check(section));
  }
  return sections;
}

}  // namespace kernelcast::worker
