#include "services/worker/cuda/compiler/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

constexpr int kMachineCuda = 190;
constexpr unsigned char kKernelSymbol = 0x10;  // in st_other
constexpr size_t kMaxSections = 1 << 16;

// Attributes of .nv.info whose value is {symbol, number}.
constexpr uint8_t kFormatSized = 0x04;
constexpr uint8_t kAttributeFrameSize = 0x11;
constexpr uint8_t kAttributeRegisterCount = 0x2f;

class File {
 public:
  explicit File(std::string_view content) : content_(content) {}

  template <class T>
  std::optional<T> Read(uint64_t offset) const {
    if (offset > content_.size() || content_.size() - offset < sizeof(T)) {
      return std::nullopt;
    }
    T value;
    std::memcpy(&value, content_.data() + offset, sizeof(T));
    return value;
  }
  std::optional<std::string_view> Bytes(uint64_t offset, uint64_t size) const {
    if (offset > content_.size() || content_.size() - offset < size) {
      return std::nullopt;
    }
    return content_.substr(offset, size);
  }

 private:
  const std::string_view content_;
};

absl::Status Damaged(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("not a usable cubin: ", what));
}

std::string_view NameAt(std::string_view table, uint64_t offset) {
  if (offset >= table.size()) {
    return {};
  }
  const std::string_view rest = table.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

// Returns the {symbol, number} pairs of one attribute in the content of .nv.info.
std::map<uint32_t, uint32_t> Attributes(std::string_view info, uint8_t attribute) {
  std::map<uint32_t, uint32_t> values;
  const File file(info);
  uint64_t at = 0;
  while (const auto head = file.Read<uint32_t>(at)) {
    const auto format = static_cast<uint8_t>(*head & 0xff);
    const auto name = static_cast<uint8_t>(*head >> 8 & 0xff);
    const uint32_t value = *head >> 16;
    at += 4;
    if (format != kFormatSized) {
      continue;  // the value is in the header
    }
    const auto symbol = file.Read<uint32_t>(at);
    const auto number = file.Read<uint32_t>(at + 4);
    if (name == attribute && value >= 8 && symbol && number) {
      values[*symbol] = *number;
    }
    at += (uint64_t{value} + 3) / 4 * 4;
  }
  return values;
}

}  // namespace

absl::StatusOr<Cubin> ReadCubin(std::string_view content) {
  const File file(content);
  const auto header = file.Read<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != kMachineCuda) {
    return Damaged("no ELF header of a GPU");
  }
  if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum > kMaxSections) {
    return Damaged("invalid section headers");
  }
  std::vector<Elf64_Shdr> sections;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = file.Read<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) {
      return Damaged("section headers beyond its end");
    }
    sections.push_back(*section);
  }
  const auto bytes_of = [&](const Elf64_Shdr& section) {
    return section.sh_type == SHT_NOBITS ? std::optional(std::string_view())
                                         : file.Bytes(section.sh_offset, section.sh_size);
  };
  if (header->e_shstrndx >= sections.size()) {
    return Damaged("no names of sections");
  }
  const auto section_names = bytes_of(sections[header->e_shstrndx]);
  if (!section_names) {
    return Damaged("names of sections beyond its end");
  }

  Cubin cubin;
  std::map<std::string_view, uint64_t> size_by_name;
  std::string_view info;
  for (const Elf64_Shdr& section : sections) {
    const auto bytes = bytes_of(section);
    if (!bytes) {
      return Damaged("a section beyond its end");
    }
    const std::string_view name = NameAt(*section_names, section.sh_name);
    size_by_name[name] = section.sh_size;
    if (name.starts_with(".text.")) {
      cubin.code_bytes += static_cast<int64_t>(bytes->size());
    } else if (name.starts_with(".nv.constant")) {
      cubin.constant_bytes += static_cast<int64_t>(bytes->size());
    } else if (name == ".nv.info") {
      info = *bytes;
    }
  }
  const std::map<uint32_t, uint32_t> registers = Attributes(info, kAttributeRegisterCount);
  const std::map<uint32_t, uint32_t> frames = Attributes(info, kAttributeFrameSize);
  const auto value_of = [](const std::map<uint32_t, uint32_t>& values, uint32_t symbol) {
    const auto found = values.find(symbol);
    return found == values.end() ? int64_t{0} : int64_t{found->second};
  };
  const auto size_of = [&](const std::string& name) {
    const auto found = size_by_name.find(name);
    return found == size_by_name.end()
               ? int64_t{0}
               : static_cast<int64_t>(std::min<uint64_t>(found->second, INT32_MAX));
  };
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) {
      continue;
    }
    const auto names = bytes_of(sections[section.sh_link]);
    const auto symbols = bytes_of(section);
    for (uint32_t i = 0; i < symbols->size() / sizeof(Elf64_Sym); ++i) {
      const auto symbol = *File(*symbols).Read<Elf64_Sym>(uint64_t{i} * sizeof(Elf64_Sym));
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || (symbol.st_other & kKernelSymbol) == 0) {
        continue;
      }
      CubinKernel kernel;
      kernel.name = std::string(NameAt(*names, symbol.st_name));
      kernel.registers = value_of(registers, i);
      kernel.stack_bytes = value_of(frames, i);
      kernel.code_bytes = size_of(absl::StrCat(".text.", kernel.name));
      for (int bank = 0; bank < 8; ++bank) {
        kernel.constant_bytes += size_of(absl::StrCat(".nv.constant", bank, ".", kernel.name));
      }
      kernel.shared_bytes = size_of(absl::StrCat(".nv.shared.", kernel.name));
      // On some architectures, memory reserved by the system precedes the kernel's own.
      if (size_by_name.count(".nv.shared.reserved.0") > 0) {
        kernel.shared_bytes = std::max<int64_t>(0, kernel.shared_bytes - 1024);
      }
      cubin.kernels.push_back(std::move(kernel));
    }
  }
  std::sort(cubin.kernels.begin(), cubin.kernels.end(),
            [](const CubinKernel& a, const CubinKernel& b) { return a.name < b.name; });
  return cubin;
}

}  // namespace kernelcast::worker
