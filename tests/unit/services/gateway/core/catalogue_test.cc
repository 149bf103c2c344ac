#include "services/gateway/core/catalogue.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/id.h"
#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / RandomId("catalogue-")) {
    fs::create_directories(path_);
    Write("relu.py", testing::kTaskSource);
  }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  const fs::path& path() const { return path_; }
  absl::StatusOr<Catalogue> Read(const std::string& text) const {
    return Catalogue::Read(Write("serve.yaml", text),
                           {std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems"});
  }

 private:
  const fs::path path_;
};

TEST_CASE("Problems are served by path and by name", "[gateway][catalogue]") {
  const Folder folder;
  const auto catalogue = folder.Read(
      "serve:\n"
      "  - {name: Softmax, problem: row_softmax, target: cuda, device_models: [h200, h100],\n"
      "     description: Rows., max_evaluations: 5}\n"
      "  - {name: relu, problem: relu.py}\n"
      "own_references: {target: cpu, device_model: AMD EPYC}\n");
  REQUIRE(catalogue.ok());
  REQUIRE(catalogue->served().size() == 2);
  const Served* softmax = catalogue->Find("softmax");
  REQUIRE(softmax != nullptr);
  CHECK(softmax->target == "cuda");
  CHECK(softmax->site().device_model == "h200");
  CHECK(softmax->description == "Rows.");
  CHECK(softmax->max_evaluations == 5u);
  CHECK(catalogue->FilesOf(softmax->problem.problem_id) == &softmax->problem.files);
  CHECK(catalogue->Find("relu")->problem.task.has_value());
  CHECK(catalogue->Find("relu")->description == "relu");
  CHECK(catalogue->Find("other") == nullptr);
  CHECK(catalogue->FilesOf("p_") == nullptr);
  CHECK(catalogue->own_references().device_model == "AMD EPYC");
}

TEST_CASE("A default target replaces one that the file does not name", "[gateway][catalogue]") {
  const Folder folder;
  auto catalogue = folder.Read(
      "serve:\n"
      "  - {name: default, problem: relu.py}\n"
      "  - {name: named, problem: relu.py, target: cpu}\n"
      "  - {name: missing, problem: relu.py}\n");
  REQUIRE(catalogue.ok());
  for (const Served& served : catalogue->served()) CHECK(served.target == "cpu");
  catalogue->SetDefaultTarget(0, "cuda");
  catalogue->SetDefaultTarget(1, "cuda");
  catalogue->SetDefaultTarget(2, "tpu");
  CHECK(catalogue->Find("default")->target == "cuda");
  CHECK(catalogue->Find("named")->target == "cpu");
  CHECK(catalogue->Find("missing")->target == "cpu");
}

TEST_CASE("A wrong list of problems is refused with line and field", "[gateway][catalogue]") {
  const Folder folder;
  const std::pair<const char*, const char*> wrong[] = {
      {"serve:\n  - {name: a}\n", "problem"},
      {"serve:\n  - {name: a, problem: nothing}\n", "there is no problem 'nothing'"},
      {"serve:\n  - {name: a/b, problem: relu.py}\n", "serve[0].name"},
      {"serve:\n  - {name: a, problem: relu.py, target: tpu}\n", "no reference for 'tpu'"},
      {"serve:\n  - {name: a, problem: relu.py}\n  - {name: A, problem: relu.py}\n", "already"},
      {"serve:\n  - {name: a, problem: relu.py, max_evaluations: 0}\n", "max_evaluations"},
      {"serve: []\nunknown: 1\n", "unknown"},
      {"{", "serve.yaml"},
  };
  for (const auto& [text, expected] : wrong) {
    INFO(text);
    const auto catalogue = folder.Read(text);
    REQUIRE_FALSE(catalogue.ok());
    CHECK_THAT(std::string(catalogue.status().message()), Contains(expected));
  }
  CHECK_FALSE(Catalogue::Read("/nowhere/serve.yaml", {}).ok());
}

TEST_CASE("All problems of folders are served under their names", "[gateway][catalogue]") {
  const Folder folder;
  const std::string examples = std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems";
  fs::create_directory_symlink(examples + "/row_softmax", folder.path() / "Histogram");
  const auto catalogue = Catalogue::ReadFolders({folder.path(), "/nowhere", examples});
  REQUIRE(catalogue.ok());
  // The first of two with a name.
  REQUIRE(catalogue->Find("histogram") != nullptr);
  CHECK(catalogue->Find("histogram")->problem.name == "row_softmax");
  REQUIRE(catalogue->Find("row_softmax") != nullptr);
  CHECK(catalogue->Find("row_softmax")->target == "cpu");
  CHECK(catalogue->Find("relu") == nullptr);
  CHECK(catalogue->own_references().target == "cpu");
  fs::create_directory(folder.path() / "bad");
  folder.Write("bad/problem.yaml", "name: 1\n");
  const absl::Status bad = Catalogue::ReadFolders({folder.path()}).status();
  CHECK_THAT(std::string(bad.message()), Contains("bad: problem.yaml"));
}

TEST_CASE("A source becomes a candidate of the kind of its language", "[gateway][catalogue]") {
  const Problem small = testing::SmallProblem();
  const Problem task = *ParseProblem({{"relu.py", testing::kTaskSource}});
  CHECK(MakeCandidate(small, "cpu", Language::kNative, "x")->kind == CandidateKind::kHostNative);
  CHECK(MakeCandidate(task, "cpu", Language::kPython, "x")->kind == CandidateKind::kPython);
  CHECK_THAT(std::string(MakeCandidate(task, "cpu", Language::kNative, "x").status().message()),
             Contains("ModelNew"));
  CHECK_THAT(std::string(MakeCandidate(small, "cpu", Language::kPython, "x").status().message()),
             Contains("kernelcast_run"));
  CHECK_FALSE(MakeCandidate(small, "cpu", Language::kNative, "\xff").ok());
  CHECK_FALSE(MakeCandidate(small, "cpu", Language::kNative, "").ok());
}

}  // namespace
}  // namespace kernelcast::gateway
