#include "common/rpc/file_watch.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/common/rpc/event.h"

namespace kernelcast {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(5);

TEST_CASE("A watch reports every change of its files and nothing else", "[file_watch]") {
  char pattern[] = "/tmp/kernelcast_test_XXXXXX";
  REQUIRE(mkdtemp(pattern) != nullptr);
  const std::filesystem::path folder = pattern;
  const std::filesystem::path file = folder / "file";
  const std::filesystem::path link = folder / "link";
  std::ofstream(folder / "one") << "1";
  std::ofstream(folder / "two") << "1";
  std::filesystem::create_symlink("one", link);
  {
    Event changed;
    const FileWatch watch({file, link}, kInterval, [&] { changed.Notify(); });
    int changes = 1;
    CHECK(changed.Wait(changes));  // the initial check
    for (const char* content : {"something", "anything."}) {
      std::ofstream(folder / "new") << content;
      std::filesystem::rename(folder / "new", file);
      CHECK(changed.Wait(++changes));
    }
    std::filesystem::create_symlink("two", folder / "new_link");
    std::filesystem::rename(folder / "new_link", link);
    CHECK(changed.Wait(++changes));
    std::filesystem::remove(file);
    CHECK(changed.Wait(++changes));
    CHECK(changed.count() == changes);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("A watch ends immediately, whatever its interval", "[file_watch]") {
  Event changed;
  const FileWatch watch({"/nowhere"}, absl::Hours(1), [&] { changed.Notify(); });
  CHECK(changed.Wait(1));
}

}  // namespace
}  // namespace kernelcast
