#include "services/worker/native/shared_object.h"

#include <catch2/catch.hpp>
#include <string>

#include "common/base/file.h"

namespace kernelcast::worker {
namespace {

std::string ReadOwnExecutable() { return ReadFile("/proc/self/exe").value(); }

TEST_CASE("What is no shared object is refused, whatever it is") {
  CHECK(absl::IsInvalidArgument(PrepareObject("").status()));
  CHECK(absl::IsInvalidArgument(PrepareObject("\177ELF").status()));
  CHECK(absl::IsInvalidArgument(PrepareObject(std::string(1000, 'x')).status()));
  CHECK(absl::IsInvalidArgument(PrepareObject(std::string(1000, '\0')).status()));
}

TEST_CASE("A program without the entry is refused by the name of what is missing") {
  const auto object = PrepareObject(ReadOwnExecutable());
  REQUIRE_FALSE(object.ok());
  CHECK(absl::IsInvalidArgument(object.status()));
}

TEST_CASE("A file that is cut or altered is refused or read, and nothing worse") {
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
