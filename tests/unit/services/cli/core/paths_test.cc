#include "services/cli/core/paths.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

struct PathsFolder {
  PathsFolder() {
    std::string pattern = (fs::temp_directory_path() / "kernelcast-paths-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~PathsFolder() { fs::remove_all(path); }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((fs::path(path) / name).parent_path());
    std::ofstream(fs::path(path) / name) << text;
  }
  std::string path;
};

Environment Fake(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

TEST_CASE("An external name becomes a file name and never a folder") {
  CHECK(FileNameFor("s_0af9-1.b") == "s_0af9-1.b");
  for (const std::string name :
       {"../../etc/cron.d/x", "/etc/passwd", "..", ".hidden", "a b", "a\nb", ""}) {
    const std::string file = FileNameFor(name);
    CHECK(file.find('/') == std::string::npos);
    CHECK(file.find(' ') == std::string::npos);
    CHECK(file.find('\n') == std::string::npos);
    CHECK(file[0] != '.');
  }
  CHECK(FileNameFor("a/b") != FileNameFor("a_b"));
  CHECK(FileNameFor("a/b") != FileNameFor("a:b"));
  CHECK(FileNameFor(std::string(5000, 'a')).size() < 200);
}

TEST_CASE("The state folder follows the XDG convention") {
  CHECK(*DefaultStateDir(Fake({{"XDG_STATE_HOME", "/x"}, {"HOME", "/h"}})) == "/x/kernelcast");
  CHECK(*DefaultStateDir(Fake({{"HOME", "/h"}})) == "/h/.local/state/kernelcast");
  // A relative path is ignored.
  CHECK(*DefaultStateDir(Fake({{"XDG_STATE_HOME", "x"}, {"HOME", "/h"}})) ==
        "/h/.local/state/kernelcast");
  CHECK(DefaultStateDir(Fake({})).status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("Problems are searched first in the environment's folders") {
  const auto folders = ProblemFolders(Fake({{"KERNELCAST_PROBLEMS", "/a::/b"}}), "/opt/kc/bin");
  REQUIRE(folders.size() == 4);
  CHECK(folders[0] == "/a");
  CHECK(folders[1] == "/b");
  CHECK(folders[2] == "examples/problems");
  CHECK(folders[3] == "/opt/kc/share/kernelcast/problems");
}

TEST_CASE("A problem is found by its folder, its file or its name") {
  const PathsFolder folder;
  folder.Write("first/softmax/problem.yaml", "");
  folder.Write("second/softmax/problem.yaml", "");
  folder.Write("second/matmul/problem.yaml", "");
  const std::vector<std::string> folders = {folder.path + "/first", folder.path + "/second"};
  CHECK(*FindProblemFolder("softmax", folders) == folder.path + "/first/softmax");
  CHECK(*FindProblemFolder("matmul", folders) == folder.path + "/second/matmul");
  CHECK(*FindProblemFolder(folder.path + "/second/softmax", folders) ==
        folder.path + "/second/softmax");
  CHECK(*FindProblemFolder(folder.path + "/second/softmax/problem.yaml", folders) ==
        folder.path + "/second/softmax");

  const absl::Status near = FindProblemFolder("sofmax", folders).status();
  CHECK(near.code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(near.message()), Catch::Contains("did you mean 'softmax'?"));
  const absl::Status far = FindProblemFolder("zzzzzzzzzzz", folders).status();
  CHECK_THAT(std::string(far.message()), Catch::Contains("there are: matmul, softmax"));
  CHECK_THAT(std::string(FindProblemFolder(folder.path + "/first", folders).status().message()),
             Catch::Contains("holds no problem.yaml"));
  CHECK_THAT(std::string(FindProblemFolder("no/such", folders).status().message()),
             Catch::Contains("there is no folder"));
  CHECK(FindProblemFolder("", folders).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("Programs installed by pip use the interpreter of their environment") {
  const PathsFolder folder;
  const std::string programs = folder.path + "/venv/lib/kernelcast/bin";
  CHECK(EnvironmentPython(programs).empty());
  folder.Write("venv/bin/python3", "");
  CHECK(EnvironmentPython(programs) == folder.path + "/venv/bin/python3");
  // Debian's pip installs into /usr/local for /usr/bin/python3.
  folder.Write("usr/bin/python3", "");
  CHECK(EnvironmentPython(folder.path + "/usr/local/lib/kernelcast/bin") ==
        folder.path + "/usr/bin/python3");
  // An archive, or a checkout.
  folder.Write("bin/python3", "");
  CHECK(EnvironmentPython(folder.path + "/opt/kernelcast/bin").empty());
}

TEST_CASE("Tasks of other projects are found by their paths") {
  const std::string tasks = KERNELCAST_SOURCE_DIR "/examples/tasks/";
  const std::string definition = tasks + "flashinfer_bench/definitions/gemm/gemm_n192_k256.json";
  CHECK(*FindProblemFolder(definition, {}) == definition);
  CHECK(*FindProblemFolder(tasks + "gpu_mode/prefix_sum", {}) == tasks + "gpu_mode/prefix_sum");
  CHECK(*FindProblemFolder(tasks + "gpu_mode/prefix_sum/task.yml", {}) ==
        tasks + "gpu_mode/prefix_sum");
  CHECK(*FindProblemFolder(tasks + "sol_execbench/masked_softmax/definition.json", {}) ==
        tasks + "sol_execbench/masked_softmax");
  CHECK_THAT(std::string(FindProblemFolder(tasks + "none.json", {}).status().message()),
             Catch::Contains("there is no file"));
  CHECK(ListProblems(tasks + "gpu_mode") == std::vector<std::string>{"clamped_add", "matmul_bf16",
                                                                     "prefix_sum", "rms_norm_pair",
                                                                     "row_argmax"});
  CHECK(*FindProblemFolder("prefix_sum", {tasks + "gpu_mode"}) == tasks + "gpu_mode/prefix_sum");
}

}  // namespace
}  // namespace kernelcast::cli
