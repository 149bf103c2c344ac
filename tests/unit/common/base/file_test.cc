#include "common/base/file.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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

// Longer than one read, with all byte values.
std::string Long() {
  std::string content;
  for (int i = 0; i < 200'000; ++i) content.push_back(static_cast<char>(i * i));
  return content;
}

TEST_CASE("A file is read verbatim") {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.File("a");
  for (const std::string& content : {std::string(), std::string("a\0b\r\n", 5), Long()}) {
    Write(path, content);
    CHECK(ReadFile(path).value() == content);
    CHECK(ReadGzipFile(path).value() == content);
  }
  // A file of unknown size.
  CHECK(ReadFile("/proc/self/status").value().find("CapEff") != std::string::npos);
}

TEST_CASE("Read errors name the path") {
  const testing::TemporaryFolder folder("file");
  using Read = absl::StatusOr<std::string> (*)(const std::string&);
  for (const Read read : {Read([](const std::string& path) { return ReadFile(path); }),
                          Read([](const std::string& path) { return ReadGzipFile(path); })}) {
    const auto none = read(folder.File("none"));
    CHECK(absl::IsNotFound(none.status()));
    CHECK_THAT(std::string(none.status().message()),
               Catch::Contains("cannot read " + folder.File("none")));
    CHECK_FALSE(read(folder.path().string()).ok());
  }
}

TEST_CASE("A file is written atomically, with its folders") {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.File("a/b/file");
  REQUIRE(WriteFileAtomically(path, "one").ok());
  REQUIRE(WriteFileAtomically(path, "two").ok());
  CHECK(ReadFile(path).value() == "two");
  const std::filesystem::directory_iterator files(folder.File("a/b"));
  CHECK(std::distance(begin(files), end(files)) == 1);
  CHECK_FALSE(WriteFileAtomically(path + "/below", "x").ok());
  // A folder cannot be replaced by a file, and nothing is left next to it.
  CHECK_FALSE(WriteFileAtomically(folder.File("a/b"), "x").ok());
  CHECK_FALSE(WriteFileAtomically("/proc/none/file", "x").ok());
  CHECK(absl::IsNotFound(ReplaceFile(folder.File("none/file"), "x")));
  const std::filesystem::directory_iterator above(folder.File("a"));
  CHECK(std::distance(begin(above), end(above)) == 1);
}

TEST_CASE("A text has no byte order mark and is bounded") {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.File("a");
  Write(path, "\xef\xbb\xbftwo");
  CHECK(ReadTextFile(path, 6).value() == "two");
  const absl::Status larger = ReadTextFile(path, 5).status();
  CHECK(absl::IsInvalidArgument(larger));
  CHECK_THAT(std::string(larger.message()), Catch::StartsWith(path + ": larger than 5 bytes"));
  CHECK(absl::IsNotFound(ReadTextFile(folder.File("none"), 5).status()));
}

TEST_CASE("A compressed file is decompressed, and a damaged one is an error") {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.File("a.gz");
  for (const std::string& content : {std::string(), std::string("line\n"), Long()}) {
    WriteGzip(path, content);
    CHECK(ReadGzipFile(path).value() == content);
    CHECK(ReadGzipFile(path, std::ssize(content)).value() == content);
    if (content.empty()) continue;
    CHECK(absl::IsResourceExhausted(ReadGzipFile(path, std::ssize(content) - 1).status()));
  }
  const std::string whole = ReadFile(path).value();
  Write(path, whole.substr(0, whole.size() / 2));
  CHECK(absl::IsDataLoss(ReadGzipFile(path).status()));
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 0x55;
  Write(path, flipped);
  CHECK(absl::IsDataLoss(ReadGzipFile(path).status()));
}

TEST_CASE("Lines are read one by one, from a compressed file too") {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.File("lines");
  const std::string wide(200'000, 'w');  // longer than what is read at once
  const std::vector<std::string> lines = {"one", "", wide, "four\r"};
  std::string content;
  for (const std::string& line : lines) content += line + "\n";
  for (const bool compressed : {false, true}) {
    for (const bool whole : {false, true}) {
      INFO(compressed << whole);
      // Without the end of the last line it is a line nonetheless.
      const std::string text = whole ? content : content.substr(0, content.size() - 1);
      compressed ? WriteGzip(path, text) : Write(path, text);
      std::vector<std::string> read;
      const auto add = [&read](int64_t number, const std::string& line) {
        CHECK(number == std::ssize(read) + 1);
        read.push_back(line);
        return absl::OkStatus();
      };
      CHECK(ForEachGzipLine(path, add).ok());
      CHECK(read == lines);
      read.clear();
      const absl::Status narrow = ForEachGzipLine(path, add, kMaxGzipBytes, std::ssize(wide) - 1);
      CHECK(absl::IsInvalidArgument(narrow));
      CHECK_THAT(std::string(narrow.message()),
                 Catch::StartsWith(path + ":3: a line of more than"));
      CHECK(read.size() == 2);
      // The limit holds for compressed files after decompression, and not for plain files.
      read.clear();
      const absl::Status bounded = ForEachGzipLine(path, add, 100'000);
      CHECK(absl::IsResourceExhausted(bounded) == compressed);
      CHECK(bounded.ok() == !compressed);
    }
  }
  int calls = 0;
  const absl::Status stopped = ForEachGzipLine(path, [&calls](int64_t, const std::string&) {
    ++calls;
    return absl::AbortedError("enough");
  });
  CHECK(stopped == absl::AbortedError("enough"));
  CHECK(calls == 1);
  const std::string packed = ReadFile(path).value();
  Write(path, packed.substr(0, packed.size() / 2));
  CHECK(absl::IsDataLoss(
      ForEachGzipLine(path, [](int64_t, const std::string&) { return absl::OkStatus(); })));
  CHECK(absl::IsNotFound(ForEachGzipLine(folder.File("none"), nullptr)));
}

TEST_CASE("Records are the lines that are not blank, and their errors say where they are") {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.File("records.jsonl");
  Write(path, "one\n\n \t\r\ntwo\r\nbad\nnever\n");
  std::vector<std::string> read;
  const absl::Status status = ForEachGzipRecord(path, [&read](const std::string& line) {
    if (line == "bad") return absl::NotFoundError("no such thing");
    read.push_back(line);
    return absl::OkStatus();
  });
  CHECK(status == absl::NotFoundError(path + ":5: no such thing"));
  CHECK(read == std::vector<std::string>{"one", "two\r"});
}

TEST_CASE("Files of records are known by their names") {
  CHECK(IsRecordFile("a/b.jsonl"));
  CHECK(IsRecordFile("b.jsonl.gz"));
  CHECK_FALSE(IsRecordFile("b.json"));
  CHECK_FALSE(IsRecordFile("b.gz"));
  CHECK_FALSE(IsRecordFile("b.jsonl.zip"));
}

}  // namespace
}  // namespace kernelcast
