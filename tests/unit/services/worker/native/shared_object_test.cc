#include "services/worker/native/shared_object.h"

#include <elf.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/file.h"

namespace kernelcast::worker {
namespace {

// A shared object without segments, whose two sections of code declare `bytes` each.
std::string ObjectWithCodeOf(uint64_t bytes) {
  const std::string names("\0.text\0.shstrtab\0", 17);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = EM_X86_64;
  header.e_type = ET_DYN;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shstrndx = 3;
  header.e_shoff = sizeof header;
  Elf64_Shdr sections[4] = {};
  for (Elf64_Shdr* const code : {&sections[1], &sections[2]}) {
    code->sh_name = 1;
    code->sh_type = SHT_PROGBITS;
    code->sh_flags = SHF_EXECINSTR;
    code->sh_size = bytes;
  }
  sections[3].sh_name = 7;
  sections[3].sh_offset = sizeof header + sizeof sections;
  sections[3].sh_size = names.size();
  std::string object(reinterpret_cast<const char*>(&header), sizeof header);
  object.append(reinterpret_cast<const char*>(sections), sizeof sections);
  return object + names;
}

TEST_CASE("Sections that declare more bytes than the file has are refused") {
  CHECK_THAT(std::string(PrepareObject(ObjectWithCodeOf(16)).status().message()),
             Catch::Contains("kernelcast_run is not defined"));
  for (const uint64_t bytes :
       {uint64_t{1} << 20, uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX}) {
    CHECK(std::string(PrepareObject(ObjectWithCodeOf(bytes)).status().message()) ==
          "damaged object");
  }
}

std::string ReadOwnExecutable() { return ReadFile("/proc/self/exe").value(); }

TEST_CASE("Any file that is not a shared object is refused") {
  CHECK(absl::IsInvalidArgument(PrepareObject("").status()));
  CHECK(absl::IsInvalidArgument(PrepareObject("\177ELF").status()));
  CHECK(absl::IsInvalidArgument(PrepareObject(std::string(1000, 'x')).status()));
  CHECK(absl::IsInvalidArgument(PrepareObject(std::string(1000, '\0')).status()));
}

TEST_CASE("A program without the entry is refused with the missing name") {
  const auto object = PrepareObject(ReadOwnExecutable());
  REQUIRE_FALSE(object.ok());
  CHECK(absl::IsInvalidArgument(object.status()));
}

TEST_CASE("A truncated or altered file is refused or read safely") {
  const std::string whole = ReadOwnExecutable();
  for (size_t size = 0; size < 4096; size += 13) {
    CHECK_FALSE(PrepareObject(whole.substr(0, size)).ok());
  }
  for (size_t at = 0; at < 400; ++at) {
    std::string altered = whole.substr(0, 100'000);
    altered[at] = static_cast<char>(altered[at] ^ 0xff);
    (void)PrepareObject(altered);
  }
}

}  // namespace
}  // namespace kernelcast::worker
