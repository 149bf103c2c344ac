#include "services/cli/core/candidate_files.h"

#include <unistd.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "common/domain/problem.h"
#include "tests/support/deep_json.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

const char kProblem[] = "p_00000000000000000000000000000000";

struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "kernelcast-files-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(fs::path(path) / name, std::ios::binary) << text;
  }
  std::string path;
};

std::string MessageOf(const std::string& json) {
  Candidate candidate;
  const absl::Status status = ApplyCandidateJson("c.json", json, candidate);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST_CASE("Candidates, their metadata and their lists may start with a byte order mark") {
  const std::string mark = "\xEF\xBB\xBF";
  const Folder folder;
  folder.Write("a.cc", mark + "int a;");
  folder.Write("a.json", mark + R"({"flags": ["-ffast-math"]})");
  const auto candidates = ReadCandidates(folder.path, kProblem, "cpu");
  INFO(candidates.status().ToString());
  REQUIRE(candidates.ok());
  REQUIRE(candidates->size() == 1);
  CHECK(candidates->front().candidate.source == "int a;");
  CHECK(candidates->front().candidate.flags == std::vector<std::string>{"-ffast-math"});
  folder.Write("list.jsonl", mark + "{\"source_file\": \"a.cc\"}\n");
  const auto listed = ReadCandidates(folder.path + "/list.jsonl", kProblem, "cpu");
  INFO(listed.status().ToString());
  REQUIRE(listed.ok());
  REQUIRE(listed->size() == 1);
  CHECK(listed->front().candidate.source == "int a;");
}

TEST_CASE("The points of a problem's space are candidates") {
  const Problem problem =
      ParseProblem(
          ReadProblemFolder(KERNELCAST_SOURCE_DIR "/examples/triton_spaces/rmsnorm_triton").value())
          .value();
  const auto points = ReadCandidatesOf(problem, "space", "cuda");
  INFO(points.status().ToString());
  REQUIRE(points.ok());
  CHECK(points->size() == EnumeratePoints(*problem.targets.at("cuda").space).size());
  CHECK(points->front().name == "two_passes BLOCK=256 WARPS=1 STAGES=1");
  CHECK(points->front().candidate.problem_id == problem.problem_id);
  CHECK(ValidateCandidate(points->front().candidate).ok());
  const auto none = ReadCandidatesOf(problem, "space", "cpu");
  CHECK(none.status().message() == "--candidates: rmsnorm_triton has no template space for cpu");
  const auto missing = ReadCandidatesOf(problem, "spaces", "cuda");
  CHECK(absl::IsNotFound(missing.status()));
}

TEST_CASE("A folder gives its sources in order, each with its JSON metadata") {
  const Folder folder;
  folder.Write("b.cc", "int b;");
  folder.Write("a.cc", "int a;");
  folder.Write("a.json",
               R"({"flags": ["-ffast-math"], "tunables": {"UNROLL": 4, "EXP": "poly"},
                   "origin": "by hand", "parent": "k_11111111111111111111111111111111"})");
  folder.Write("README.md", "not a candidate");
  const auto candidates = ReadCandidates(folder.path, kProblem, "cpu");
  REQUIRE(candidates.ok());
  REQUIRE(candidates->size() == 2);
  const NamedCandidate& a = (*candidates)[0];
  CHECK(a.name == "a");
  CHECK(a.candidate.name == "a");
  CHECK(a.candidate.source == "int a;");
  CHECK(a.candidate.problem_id == kProblem);
  CHECK(a.candidate.target == "cpu");
  CHECK(a.candidate.flags == std::vector<std::string>{"-ffast-math"});
  REQUIRE(a.candidate.tunables.size() == 2);
  CHECK(a.candidate.tunables[0] == Tunable{"UNROLL", "4"});
  CHECK(a.candidate.tunables[1] == Tunable{"EXP", "poly"});
  CHECK(a.candidate.origin == "by hand");
  CHECK((*candidates)[1].name == "b");
  CHECK((*candidates)[1].candidate.origin == "file:b.cc");
}

TEST_CASE("A malformed JSON file is reported with the field and allowed values") {
  CHECK_THAT(MessageOf("{\"flags\": [1.5]}"),
             Catch::Contains("c.json: flags[0]: expected a string, found '1.5'"));
  CHECK_THAT(MessageOf("{\"flag\": []}"),
             Catch::Contains("c.json: flag: unknown field; did you mean 'flags'?"));
  CHECK_THAT(MessageOf("{\"quux\": []}"), Catch::Contains("allowed are target, kind"));
  CHECK_THAT(MessageOf("{\"tunables\": {\"UNROLL\": 2.5}}"),
             Catch::Contains("tunables.UNROLL: '2.5' is neither an integer nor an identifier"));
  CHECK_THAT(MessageOf("{\"tunables\": [1]}"), Catch::Contains("tunables: expected an object"));
  CHECK_THAT(MessageOf("{\"kind\": \"cuda\"}"),
             Catch::Contains(
                 "kind: 'cuda' is not one of host_native, device_cuda, device_triton, python"));
  CHECK_THAT(MessageOf("{\"flags\": [\"-O3 -march\"]}"), Catch::Contains("flags[0]"));
  CHECK_THAT(MessageOf("{\"launches\": [{\"grid\": [\"1\"]}]}"),
             Catch::Contains("launches[0].kernel: is missing"));
  CHECK_THAT(MessageOf("[]"), Catch::Contains("expected an object"));
  CHECK_THAT(MessageOf("{\n  \"flags\": [}"), Catch::Contains("c.json:2:13: not JSON"));
  CHECK_THAT(MessageOf("{\"origin\": \"\xff\"}"), Catch::Contains("c.json:1:"));
}

TEST_CASE("A folder with a mistake gives no candidates") {
  const Folder folder;
  folder.Write("a.cc", "int a;");
  folder.Write("b.json", "{}");
  CHECK_THAT(std::string(ReadCandidates(folder.path, kProblem, "cpu").status().message()),
             Catch::Contains("b.json: no source next to it, such as b.cc"));
  folder.Write("b.cc", std::string("bad \xff utf-8"));
  const absl::Status status = ReadCandidates(folder.path, kProblem, "cpu").status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Catch::Contains("b.cc: "));
}

TEST_CASE("A mistake in a folder does not stop the other candidates where refusals are wanted") {
  const Folder folder;
  folder.Write("empty.py", "");
  std::vector<RefusedFile> refused;
  // There is no other.
  CHECK(ReadCandidates(folder.path, kProblem, "cpu", &refused).status().code() ==
        absl::StatusCode::kInvalidArgument);
  folder.Write("a.cc", "int a;");
  folder.Write("b.cc", std::string("bad \xff utf-8"));
  folder.Write("c.json", "{}");
  folder.Write("d.cc", "int d;");
  folder.Write("d.json", "{\"launches\": 3}");
  folder.Write("e.py", "import torch\n");
  const auto candidates = ReadCandidates(folder.path, kProblem, "cpu", &refused);
  REQUIRE(candidates.ok());
  REQUIRE(candidates->size() == 2);
  CHECK((*candidates)[0].name == "a");
  CHECK((*candidates)[1].name == "e");
  REQUIRE(refused.size() == 4);
  std::map<std::string, std::string> reasons;
  for (const RefusedFile& file : refused) {
    reasons[file.name] = std::string(file.reason.message());
  }
  CHECK_THAT(reasons["empty"], Catch::Contains("empty.py: source"));
  CHECK_THAT(reasons["b"], Catch::Contains("b.cc: source") && Catch::Contains("UTF-8"));
  CHECK_THAT(reasons["c"], Catch::Contains("c.json: no source next to it"));
  CHECK_THAT(reasons["d"], Catch::Contains("d.json") && Catch::Contains("launches"));
  // Without that, nothing is left out silently.
  CHECK_FALSE(ReadCandidates(folder.path, kProblem, "cpu").ok());
}

TEST_CASE("An oversized source is refused by name") {
  const Folder folder;
  folder.Write("big.cc", std::string(static_cast<size_t>(kMaxSourceBytes) + 1, ' '));
  const absl::Status status = ReadCandidates(folder.path, kProblem, "cpu").status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Catch::Contains("big.cc"));
}

TEST_CASE("Two sources with one name are ambiguous") {
  const Folder folder;
  folder.Write("a.cc", "int a;");
  folder.Write("a.cpp", "int a;");
  CHECK_THAT(std::string(ReadCandidates(folder.path, kProblem, "cpu").status().message()),
             Catch::Contains("another source of the same name"));
}

TEST_CASE("A JSON-lines file gives one candidate per line") {
  const Folder folder;
  folder.Write("other.cc", "int other;");
  folder.Write("all.jsonl",
               "{\"name\": \"one\", \"source\": \"int one;\", \"tunables\": {\"N\": 1}}\n"
               "\n"
               "{\"source_file\": \"other.cc\"}\n");
  const auto candidates = ReadCandidates(folder.path + "/all.jsonl", kProblem, "cpu");
  REQUIRE(candidates.ok());
  REQUIRE(candidates->size() == 2);
  CHECK((*candidates)[0].name == "one");
  CHECK((*candidates)[0].candidate.name == "one");
  CHECK((*candidates)[0].candidate.source == "int one;");
  CHECK((*candidates)[1].name == "all#3");
  CHECK((*candidates)[1].candidate.source == "int other;");

  folder.Write("bad.jsonl", "{\"source\": \"int one;\"}\n{\"name\": \"two\"}\n");
  CHECK_THAT(
      std::string(ReadCandidates(folder.path + "/bad.jsonl", kProblem, "cpu").status().message()),
      Catch::Contains("bad.jsonl:2: source: exactly one of source and source_file"));
  fs::create_symlink("/etc/hostname", fs::path(folder.path) / "link.cc");
  for (const char* outside : {"/etc/hostname", "../other.cc", "a/../../other.cc", "link.cc"}) {
    folder.Write("outside.jsonl", std::string("{\"source_file\": \"") + outside + "\"}\n");
    CHECK_THAT(
        std::string(
            ReadCandidates(folder.path + "/outside.jsonl", kProblem, "cpu").status().message()),
        Catch::Contains("outside.jsonl:1: source_file: ") &&
            Catch::Contains("is not in the folder of the list"));
  }
  folder.Write("huge.jsonl", "{\"source\": \"int one;\", \"tunables\": {\"N\": 1e999}}\n");
  CHECK_THAT(
      std::string(ReadCandidates(folder.path + "/huge.jsonl", kProblem, "cpu").status().message()),
      Catch::Contains("huge.jsonl:1: 'N': '1e999' is too large for any number"));
  folder.Write("worse.jsonl", "{\"source\": }\n");
  CHECK_THAT(
      std::string(ReadCandidates(folder.path + "/worse.jsonl", kProblem, "cpu").status().message()),
      Catch::Contains("worse.jsonl:1:"));
}

TEST_CASE("A list of candidates may be compressed, and its size is bounded") {
  const Folder folder;
  folder.Write("other.cc", "int other;");
  // The compressed text, `times` over: gzip members may follow one another.
  const auto write_compressed = [&](const std::string& text, int times) {
    const std::string path = folder.path + "/all.jsonl.gz";
    const gzFile file = gzopen(path.c_str(), "wb");
    REQUIRE(file != nullptr);
    REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) > 0);
    REQUIRE(gzclose(file) == Z_OK);
    std::stringstream member;
    member << std::ifstream(path, std::ios::binary).rdbuf();
    std::ofstream all(path, std::ios::binary);
    for (int i = 0; i < times; ++i) all << member.str();
  };
  const auto read = [&] { return ReadCandidates(folder.path + "/all.jsonl.gz", kProblem, "cpu"); };
  write_compressed(
      "{\"name\": \"one\", \"source\": \"int one;\"}\n{\"source_file\": \"other.cc\"}\n", 1);
  const auto candidates = read();
  INFO(candidates.status().ToString());
  REQUIRE(candidates.ok());
  REQUIRE(candidates->size() == 2);
  CHECK((*candidates)[0].name == "one");
  CHECK((*candidates)[0].candidate.origin == "file:all.jsonl.gz");
  CHECK((*candidates)[1].name == "all#2");
  CHECK((*candidates)[1].candidate.source == "int other;");

  // 1 MB that expands to more than 1 GiB, as blank lines or as one line.
  write_compressed(std::string((1 << 20) - 1, ' ') + "\n", 1025);
  CHECK(read().status().code() == absl::StatusCode::kResourceExhausted);
  write_compressed(std::string(1 << 20, ' '), 8);
  CHECK_THAT(std::string(read().status().message()), Catch::Contains("all.jsonl.gz:1: a line of"));
  folder.Write("all.jsonl.gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\3", 10) + "damaged");
  CHECK(read().status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("Missing files and non-candidates are reported") {
  const Folder folder;
  CHECK(ReadCandidates(folder.path + "/none", kProblem, "cpu").status().code() ==
        absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(ReadCandidates(folder.path, kProblem, "cpu").status().message()),
             Catch::Contains("holds no candidate"));
  folder.Write("x.txt", "");
  CHECK(ReadCandidates(folder.path + "/x.txt", kProblem, "cpu").status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("The kind follows the file's extension by default") {
  const Folder folder;
  folder.Write("a.py", "def run(): pass");
  folder.Write("b.cu", "__global__ void k() {}");
  folder.Write(
      "b.json",
      R"json({"kind": "device_cuda", "launches": [{"kernel": "k", "grid": ["ceildiv(n, 256)", 1],
                   "block": [256], "arguments": ["x", "y", "n"]
}], "workspace_bytes": "4*n"
})json");
  const auto candidates = ReadCandidates(folder.path, kProblem, "h100");
  REQUIRE(candidates.ok());
  CHECK((*candidates)[0].candidate.kind == CandidateKind::kPython);
  const Candidate& cuda = (*candidates)[1].candidate;
  CHECK(cuda.kind == CandidateKind::kDeviceCuda);
  REQUIRE(cuda.launches.size() == 1);
  CHECK(cuda.launches[0].grid == std::vector<std::string>{"ceildiv(n, 256)", "1"});
  CHECK(cuda.workspace_bytes == "4*n");
}

TEST_CASE("A solution in JSON is a candidate in Python") {
  const Folder folder;
  folder.Write("a.py", "def run(): pass");
  folder.Write("b.json", R"({"spec": {"entry_point": "main.py::run"}, "sources": []})");
  const auto candidates = ReadCandidates(folder.path, kProblem, "cpu");
  REQUIRE(candidates.ok());
  REQUIRE(candidates->size() == 2);
  CHECK((*candidates)[0].name == "b");
  CHECK((*candidates)[0].candidate.kind == CandidateKind::kPython);
  CHECK_THAT((*candidates)[0].candidate.source, Catch::Contains("entry_point"));
  CHECK(ReadCandidates(folder.path + "/b.json", kProblem, "cpu")->size() == 1);
}

TEST_CASE("Launches make a candidate device code", "[cuda]") {
  const Folder folder;
  folder.Write("a.cu", "__global__ void k() {}");
  folder.Write("a.json", R"json({"launches": [{"kernel": "k", "grid": [1], "block": [32, 4],
      "shared_memory_bytes": 2048, "cluster": [1], "arguments": ["x", "rows", "workspace", "1:i32"]}],
      "workspace_bytes": 64})json");
  folder.Write("b.cu", "int host;");
  folder.Write("lines.jsonl",
               "{\"source_file\": \"a.cu\", \"launches\": [{\"kernel\": \"k\", "
               "\"grid\": [1], \"block\": [32]}]}\n"
               "{\"source_file\": \"b.cu\"}\n");
  const auto candidates = ReadCandidates(folder.path, kProblem, "cuda");
  INFO(candidates.status());
  REQUIRE(candidates.ok());
  REQUIRE(candidates->size() == 2);
  const Candidate& device = (*candidates)[0].candidate;
  CHECK(device.kind == CandidateKind::kDeviceCuda);
  CHECK(device.launches == std::vector<Launch>{{.kernel = "k",
                                                .grid = {"1"},
                                                .block = {"32", "4"},
                                                .shared_memory_bytes = "2048",
                                                .arguments = {"x", "rows", "workspace", "1:i32"},
                                                .cluster = {"1"}}});
  CHECK(device.workspace_bytes == "64");
  CHECK((*candidates)[1].candidate.kind == CandidateKind::kHostNative);

  const auto lines = ReadCandidates(folder.path + "/lines.jsonl", kProblem, "cuda");
  INFO(lines.status());
  REQUIRE(lines.ok());
  CHECK((*lines)[0].candidate.kind == CandidateKind::kDeviceCuda);
  CHECK((*lines)[1].candidate.kind == CandidateKind::kHostNative);
}

TEST_CASE("Mistakes in launches are reported with file and field", "[cuda]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"launches": {}})", "launches: expected a list of objects"},
      {R"({"launches": [3]})", "launches[0]: expected an object"},
      {R"({"launches": [{"grid": [1], "block": [1]}]})", "launches[0].kernel: is missing"},
      {R"({"launches": [{"kernel": "k", "grid": 1, "block": [1]}]})",
       "launches[0].grid: expected a list of strings, found '1'"},
      {R"({"launches": [{"kernel": "k", "grid": [1.5], "block": [1]}]})",
       "launches[0].grid[0]: expected a string, found '1.5'"},
      {R"({"launches": [{"kernel": "k", "grid": [1], "block": []}]})",
       "launches[0].block: 0 entries; from 1 to 3 are allowed"},
      {R"({"launches": [{"kernel": "k", "grid": [1], "block": [1], "shared": "4"}]})",
       "launches[0].shared: unknown field"},
      {R"({"launches": [{"kernel": "k", "grid": [1], "block": [1], "arguments": ["1:u7"]}]})",
       "launches[0].arguments[0]: '1:u7': the type 'u7' is not one of bool, int8"},
      {R"({"kind": "device_cuda"})", "launches: a device_cuda candidate needs at least one"},
      {R"({"kind": "host_native", "launches": [{"kernel": "k", "grid": [1], "block": [1]}]})",
       "launches: only device_cuda and device_triton candidates have launches"},
  };
  for (const auto& [json, message] : cases) {
    const Folder folder;
    folder.Write("a.cu", "__global__ void k() {}");
    folder.Write("a.json", json);
    const absl::Status status = ReadCandidates(folder.path, kProblem, "cuda").status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(message));
    CHECK_THAT(std::string(status.message()), Catch::Contains(folder.path + "/a."));
  }
}

TEST_CASE("A described candidate is read back as the same one") {
  Candidate candidate;
  candidate.problem_id = "p_1";
  candidate.target = "cuda";
  candidate.kind = CandidateKind::kDeviceCuda;
  candidate.source = "extern \"C\" __global__ void f() {}\n";
  candidate.flags = {"--use_fast_math"};
  candidate.tunables = {{"BLOCK", "256"}, {"EXP", "poly"}};
  Launch launch;
  launch.kernel = "f";
  launch.grid = {"ceildiv(rows, 4)"};
  launch.block = {"BLOCK", "1"};
  launch.cluster = {"2"};
  launch.shared_memory_bytes = "4*BLOCK";
  launch.arguments = {"x", "y", "rows", "0.5:f32"};
  candidate.launches = {launch};
  candidate.workspace_bytes = "4*cols";
  candidate.origin = "llm:model";
  candidate.parent_candidate_id = "k_0123456789abcdef0123456789abcdef";
  const Folder folder;
  folder.Write("best.cu", candidate.source);
  folder.Write("best.json", CandidateDescription(candidate));
  const auto read = ReadCandidates(folder.path + "/best.cu", "p_1", "cpu");
  INFO(read.status());
  REQUIRE(read.ok());
  CHECK(CandidateId((*read)[0].candidate) == CandidateId(candidate));
  CHECK((*read)[0].candidate.origin == "llm:model");
  CHECK((*read)[0].candidate.parent_candidate_id == candidate.parent_candidate_id);
}

TEST_CASE("Deeply nested candidate files are refused by name and line") {
  for (const int times : {100, 10'000, 100'000}) {
    for (const char* const opening : {"[", "{\"a\":", "[{\"launches\":"}) {
      const std::string deep = testing::DeepJson(opening, times);
      for (const std::string& text : {deep, "{\"launches\": " + deep + "}",
                                      "{\"tunables\": {\"X\": " + deep + "}}", deep + "]"}) {
        const Folder folder;
        folder.Write("a.cu", "extern \"C\" __global__ void f() {}\n");
        folder.Write("a.json", text);
        folder.Write("b.jsonl", text + "\n");
        for (const char* const name : {"/a.cu", "/b.jsonl"}) {
          const absl::Status status = ReadCandidates(folder.path + name, kProblem, "cuda").status();
          CHECK(absl::IsInvalidArgument(status));
          CHECK(status.message().size() < 1000);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kernelcast::cli
