#include "common/prompt/prompt_files.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/id.h"

namespace kernelcast {
namespace {

TEST_CASE("Embedded files are grouped into folders", "[prompt]") {
  constexpr EmbeddedFile kFiles[] = {
      {"a-1", "prompt.json", "{}"}, {"a-1", "user.txt", "A"}, {"b-1", "user.txt", "B"}};
  const std::vector<PromptFiles> folders = PromptFolders(kFiles);
  REQUIRE(folders.size() == 2);
  CHECK(folders[0].folder == "a-1");
  CHECK(folders[0].Text("prompt.json") == "{}");
  CHECK(folders[0].Text("user.txt") == "A");
  CHECK(folders[1].Text("user.txt") == "B");
  CHECK(folders[1].Text("prompt.json").empty());
}

TEST_CASE("A folder is read completely or not at all", "[prompt]") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / RandomId("kernelcast-prompt-");
  std::filesystem::create_directories(folder);
  constexpr std::string_view kNames[] = {"system.txt", "user.txt"};
  std::ofstream(folder / "system.txt") << "be brief";
  const auto missing = ReadPromptFolder(folder.string(), kNames);
  CHECK(missing.status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(missing.status().message()),
             Catch::EndsWith("/user.txt: No such file or directory"));
  std::ofstream(folder / "user.txt") << "{{task}}";
  const auto files = ReadPromptFolder(folder.string(), kNames);
  REQUIRE(files.ok());
  CHECK(files->Text("system.txt") == "be brief");
  CHECK(files->Text("user.txt") == "{{task}}");
  std::ofstream(folder / "user.txt") << std::string((256 << 10) + 1, 'x');
  CHECK(ReadPromptFolder(folder.string(), kNames).status().code() ==
        absl::StatusCode::kInvalidArgument);
  std::filesystem::remove_all(folder);
}

TEST_CASE("A version is a name and a number and is shown with a hash", "[prompt]") {
  CHECK(CheckPromptVersion("speedup-bins/2").ok());
  for (const char* bad : {"", "a", "a/", "/1", "a b/1", "a/1/2"}) {
    INFO(bad);
    CHECK(CheckPromptVersion(bad).code() == absl::StatusCode::kInvalidArgument);
  }
  const std::string named = NamedPromptVersion("a/1", "0123456789abcdef");
  CHECK(named == "a/1@01234567");
  CHECK(WithoutPromptHash(named) == "a/1");
}

}  // namespace
}  // namespace kernelcast
