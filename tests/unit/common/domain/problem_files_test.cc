#include "common/domain/problem_files.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/domain/problem.h"
#include "tests/unit/common/domain/problem_files.h"

namespace kernelcast {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

using FileMap = std::map<std::string, std::string>;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "problem_XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  void Write(const FileMap& files) const {
    for (const auto& [path, content] : files) {
      std::filesystem::create_directories((path_ / path).parent_path());
      std::ofstream(path_ / path, std::ios::binary) << content;
    }
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST_CASE("A folder is read as the files that its problem names", "[problem]") {
  const TemporaryFolder folder;
  folder.Write(SmallProblem());
  folder.Write({{"README.md", "unrelated"}, {"space/expected.yaml", "unrelated"}});
  const absl::StatusOr<std::vector<ProblemFile>> files = ReadProblemFolder(folder.path().string());
  INFO(files.status());
  REQUIRE(files.ok());
  CHECK(files->size() == SmallProblem().size());
  CHECK(ProblemId(*files) == ProblemId(AsFiles(SmallProblem())));
  CHECK(ParseProblem(*files).ok());
  const absl::StatusOr<std::vector<ProblemFile>> with_slash =
      ReadProblemFolder(folder.path().string() + "/");
  CHECK(with_slash.ok());
}

TEST_CASE("Files of a problem may start with a byte order mark", "[problem]") {
  FileMap marked = SmallProblem();
  for (auto& [path, content] : marked) content = "\xEF\xBB\xBF" + content;
  const TemporaryFolder folder;
  folder.Write(marked);
  const absl::StatusOr<std::vector<ProblemFile>> files = ReadProblemFolder(folder.path().string());
  INFO(files.status());
  REQUIRE(files.ok());
  CHECK(ProblemId(*files) == ProblemId(AsFiles(SmallProblem())));
  CHECK(ParseProblem(*files).ok());
}

TEST_CASE("Missing folders and files are not found", "[problem]") {
  const TemporaryFolder folder;
  CHECK(ReadProblemFolder("/nonexistent/folder").status().code() == absl::StatusCode::kNotFound);
  const absl::Status empty = ReadProblemFolder(folder.path().string()).status();
  CHECK(empty.code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(empty.message()), Contains("holds no problem.yaml"));
  FileMap files = SmallProblem();
  files.erase("space/plain.cc");
  folder.Write(files);
  const absl::Status missing = ReadProblemFolder(folder.path().string()).status();
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(missing.message()),
             Equals("space/cpu.yaml:5: templates[0].file: file 'space/plain.cc': does not exist"));
  CHECK(ReadProblemFolder((folder.path() / "oracle.cc").string()).status().code() ==
        absl::StatusCode::kNotFound);
}

TEST_CASE("Nothing outside the folder is read, even through a link", "[problem]") {
  const TemporaryFolder outside;
  outside.Write({{"secret.cc", "secret"}, {"folder/secret.cc", "secret"}});
  const TemporaryFolder folder;
  folder.Write(SmallProblem());
  SECTION("a file") {
    std::filesystem::remove(folder.path() / "oracle.cc");
    std::filesystem::create_symlink(outside.path() / "secret.cc", folder.path() / "oracle.cc");
  }
  SECTION("a folder") {
    folder.Write(WithReplaced("problem.yaml", "oracle: oracle.cc", "oracle: linked/secret.cc"));
    std::filesystem::create_directory_symlink(outside.path() / "folder", folder.path() / "linked");
  }
  const absl::Status status = ReadProblemFolder(folder.path().string()).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Contains("leaves the problem's folder"));
}

TEST_CASE("Only regular files of a bounded size are read", "[problem]") {
  const TemporaryFolder folder;
  folder.Write(SmallProblem());
  std::filesystem::remove(folder.path() / "oracle.cc");
  SECTION("a directory") {
    std::filesystem::create_directory(folder.path() / "oracle.cc");
    CHECK_THAT(std::string(ReadProblemFolder(folder.path().string()).status().message()),
               Contains("is not a regular file"));
  }
  SECTION("an almost endless file") {
    folder.Write({{"oracle.cc", "x"}});
    std::filesystem::resize_file(folder.path() / "oracle.cc", uint64_t{1} << 40);
    CHECK_THAT(std::string(ReadProblemFolder(folder.path().string()).status().message()),
               Contains("has more than 3145728 bytes"));
  }
}

TEST_CASE("File names must be safe and the files present", "[problem]") {
  CheckEdits(
      "problem.yaml",
      {{"oracle: oracle.cc", "oracle: ../oracle.cc",
        "26: oracle: path '../oracle.cc' leaves the problem's folder"},
       {"oracle: oracle.cc", "oracle: a/../../oracle.cc",
        "26: oracle: path 'a/../../oracle.cc' "
        "leaves"},
       {"oracle: oracle.cc", "oracle: /etc/passwd", "26: oracle: path '/etc/passwd' is absolute"},
       {"oracle: oracle.cc", "oracle: ./oracle.cc", "26: oracle: path './oracle.cc' has an empty"},
       {"oracle: oracle.cc", "oracle: a//b.cc", "26: oracle: path 'a//b.cc' has an empty"},
       {"oracle: oracle.cc", "oracle: 'a\"b.cc'", "26: oracle: path 'a\"b.cc' has a character"},
       {"oracle: oracle.cc", "oracle: missing.cc", "26: oracle: file 'missing.cc': is missing"},
       {"oracle: oracle.cc", "oracle: " + std::string(300, 'a'), "26: oracle: 300 bytes; at most"},
       {"space: space/cpu.yaml", "space: space/gpu.yaml",
        "31: targets.cpu.space: file 'space/gpu.yaml': is missing"}});
  CheckEdits("space/cpu.yaml", {{"file: plain.cc", "file: ../reference.cc",
                                 "5: templates[0].file: path '../reference.cc' leaves"},
                                {"file: plain.cc", "file: other.cc",
                                 "5: templates[0].file: file 'space/other.cc': is missing"}});
}

TEST_CASE("File contents are validated", "[problem]") {
  FileMap files = SmallProblem();
  SECTION("empty") {
    files["oracle.cc"] = "";
    CHECK_THAT(ProblemError(files), Equals("problem.yaml:26: oracle: file 'oracle.cc' is empty"));
  }
  SECTION("not UTF-8") {
    files["space/plain.cc"] = "\xff";
    CHECK_THAT(ProblemError(files),
               Equals("space/cpu.yaml:5: templates[0].file: file 'space/plain.cc' is "
                      "not UTF-8 text without NUL"));
  }
  SECTION("too long") {
    files["reference.cc"].assign((1 << 20) + 1, ' ');
    CHECK_THAT(ProblemError(files),
               StartsWith("problem.yaml:29: targets.cpu.reference: file "
                          "'reference.cc' has 1048577 bytes; at most 1048576"));
  }
  SECTION("too long together") {
    for (const char* path : {"oracle.cc", "reference.cc", "space/plain.cc"}) {
      files[path].assign(1 << 20, ' ');
    }
    CHECK_THAT(ProblemError(files), Contains("more than 3145728 bytes in all"));
  }
  SECTION("problem.yaml is missing") {
    files.erase("problem.yaml");
    CHECK_THAT(ProblemError(files), Equals("problem.yaml: is missing"));
  }
  SECTION("an unreferenced file") {
    files["notes.txt"] = "x";
    CHECK_THAT(ProblemError(files),
               Equals("file 'notes.txt' is not named by problem.yaml or a space"));
  }
  SECTION("a path that leaves the folder") {
    files["../x"] = "x";
    CHECK_THAT(ProblemError(files), StartsWith("path '../x' leaves"));
  }
  SECTION("a duplicate path") {
    std::vector<ProblemFile> list = AsFiles(files);
    list.push_back(list[0]);
    CHECK_THAT(std::string(ParseProblem(list).status().message()), Contains("occurs twice"));
  }
}

}  // namespace
}  // namespace kernelcast
