#include "common/base/file.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/gzip_file.h"
#include "tests/support/services.h"

namespace kernelcast {
namespace {

void Write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

void WriteGzip(const std::string& path, const std::string& content) {
  const gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, content.data(), static_cast<unsigned>(content.size())) ==
          static_cast<int>(content.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

// Longer than what is read at once, with bytes of all kinds.
std::string Long() {
  std::string content;
  for (int i = 0; i < 200'000; ++i) content.push_back(static_cast<char>(i * i));
  return content;
}

TEST_CASE("A file is read as it is") {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.File("a");
  for (const std::string& content : {std::string(), std::string("a\0b\r\n", 5), Long()}) {
    Write(path, content);
    CHECK(ReadFile(path).value() == content);
    CHECK(ReadGzipFile(path).value() == content);
  }
  // Whose size is not told beforehand.
  CHECK(ReadFile("/proc/self/status").value().find("CapEff") != std::string::npos);
}

TEST_CASE("What cannot be read is told with the path") {
  const testing::TemporaryFolder folder("file");
  for (const auto read : {&ReadFile, &ReadGzipFile}) {
    const auto none = read(folder.File("none"));
    CHECK(absl::IsNotFound(none.status()));
    CHECK_THAT(std::string(none.status().message()),
               Catch::Contains("cannot read " + folder.File("none")));
    CHECK_FALSE(read(folder.path().string()).ok());
  }
}

TEST_CASE("A compressed file is read as what it was, and a damaged one is told") {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.File("a.gz");
  for (const std::string& content : {std::string(), std::string("line\n"), Long()}) {
    WriteGzip(path, content);
    CHECK(ReadGzipFile(path).value() == content);
  }
  const std::string whole = ReadFile(path).value();
  Write(path, whole.substr(0, whole.size() / 2));
  CHECK(absl::IsDataLoss(ReadGzipFile(path).status()));
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 0x55;
  Write(path, flipped);
  CHECK(absl::IsDataLoss(ReadGzipFile(path).status()));
}

}  // namespace
}  // namespace kernelcast
