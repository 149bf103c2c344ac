#include "common/base/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "common/base/file.h"
#include "tests/support/services.h"

namespace kernelcast::output_file_test {
namespace {

// Longer than a pipe's buffer.
std::string Long() { return std::string(300'000, 'x'); }

TEST_CASE("Writing follows symbolic links and keeps them") {
  const testing::TemporaryFolder folder("file");
  namespace fs = std::filesystem;
  fs::create_directories(folder.File("real"));
  std::ofstream(folder.File("real/file")) << "old";
  fs::create_symlink("real/file", folder.File("link"));
  fs::create_symlink(folder.File("link"), folder.File("link_to_link"));
  fs::create_symlink("real/new", folder.File("dangling"));
  for (const char* link : {"link", "link_to_link"}) {
    REQUIRE(ReplaceFile(folder.File(link), link).ok());
    CHECK(fs::is_symlink(folder.File(link)));
    CHECK(ReadFile(folder.File("real/file")).value() == link);
  }
  REQUIRE(ReplaceFile(folder.File("dangling"), "new").ok());
  CHECK(fs::is_symlink(folder.File("dangling")));
  CHECK(ReadFile(folder.File("real/new")).value() == "new");
  const fs::directory_iterator files(folder.File("real"));
  CHECK(std::distance(begin(files), end(files)) == 2);
  // A loop.
  fs::create_symlink("b", folder.File("a"));
  fs::create_symlink("a", folder.File("b"));
  CHECK_FALSE(ReplaceFile(folder.File("a"), "x").ok());
}

TEST_CASE("Devices, FIFOs and open descriptors are written through") {
  const testing::TemporaryFolder folder("file");
  namespace fs = std::filesystem;
  const std::string fifo = folder.File("fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  std::string read;
  std::thread reader([&] { read = ReadFile(fifo).value(); });
  CHECK(ReplaceFile(fifo, Long()).ok());
  reader.join();
  CHECK(read == Long());
  CHECK(fs::is_fifo(fifo));

  // Through links, so that a mistake does not replace the devices.
  fs::create_symlink("/dev/null", folder.File("null"));
  CHECK(ReplaceFile(folder.File("null"), "x").ok());
  CHECK(fs::is_character_file("/dev/null"));
  fs::create_symlink("/dev/full", folder.File("full"));
  for (const std::string& content : {std::string("x"), Long()}) {
    const absl::Status full = ReplaceFile(folder.File("full"), content);
    CHECK(absl::IsResourceExhausted(full));
    CHECK(full.message() == "cannot write " + folder.File("full") + ": No space left on device");
  }

  int pipe_fds[2];
  REQUIRE(pipe(pipe_fds) == 0);
  CHECK(ReplaceFile("/dev/fd/" + std::to_string(pipe_fds[1]), "piped").ok());
  close(pipe_fds[1]);
  char buffer[16];
  CHECK(::read(pipe_fds[0], buffer, sizeof buffer) == 5);
  close(pipe_fds[0]);
}

TEST_CASE("A file appears when it is complete, and what is not committed is discarded") {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.File("a");
  {
    const auto file = OutputFile::Open(path).value();
    CHECK(file->Write("one ").ok());
    CHECK(file->Write("two").ok());
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(file->Commit().ok());
  }
  CHECK(ReadFile(path).value() == "one two");
  CHECK(OutputFile::Open(path).value()->Write("never").ok());
  CHECK(ReadFile(path).value() == "one two");
  const std::filesystem::directory_iterator files(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 1);
}

}  // namespace
}  // namespace kernelcast::output_file_test
