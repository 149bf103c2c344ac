#include "services/orchestrator/generator/answer_reader.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/deep_json.h"

namespace kernelcast::orchestrator {
namespace {

using Catch::Matchers::Contains;

constexpr char kHost[] =
    "#include <kernelcast/candidate.h>\n"
    "extern \"C\" int32_t kernelcast_run(const DLTensor* in, int32_t, const DLTensor* out, "
    "int32_t, "
    "void*) {\n  return 0;\n}\n";
constexpr char kDevice[] = "extern \"C\" __global__ void scale(const float* x, float* y) {}\n";
constexpr char kLaunches[] =
    R"({"launches": [{"kernel": "scale", "grid": ["rows"], "block": [256], "arguments": ["x", "y"]}],
        "workspace_bytes": "8*rows", "flags": ["--use_fast_math"]})";

Candidate HostModel() {
  Candidate model;
  model.target = "cpu";
  model.kind = CandidateKind::kHostNative;
  return model;
}

Candidate DeviceModel() {
  Candidate model;
  model.target = "cuda";
  model.kind = CandidateKind::kDeviceCuda;
  model.launches = {Launch{"scale", {"rows"}, {"128"}, "", {"x", "y"}, {}}};
  return model;
}

std::string Fence(const std::string& word, const std::string& text) {
  return "```" + word + "\n" + text + (text.ends_with('\n') ? "" : "\n") + "```\n";
}

ReadKernel Host(const std::string& answer, bool cut_off = false) {
  return ReadAnswer(answer, cut_off, HostModel());
}
ReadKernel Device(const std::string& answer, bool cut_off = false) {
  return ReadAnswer(answer, cut_off, DeviceModel());
}

TEST_CASE("The code is taken from its fence", "[orchestrator][reader]") {
  const ReadKernel read = Host("I vectorise the loop.\n\n" + Fence("cpp", kHost) + "\nDone.");
  CHECK(read.fault == ReadFault::kNone);
  CHECK(read.candidate.source == kHost);
  CHECK(read.candidate.kind == CandidateKind::kHostNative);
  CHECK(read.candidate.flags.empty());
  for (const std::string word :
       {"", "c++", "CPP", "c", "cpp kernel.cc", "cpp title=\"kernel.cc\""}) {
    INFO(word);
    CHECK(Host(Fence(word, kHost)).candidate.source == kHost);
  }
  CHECK(Host("~~~cpp\n" + std::string(kHost) + "~~~").candidate.source == kHost);
  CHECK(Host("````cpp\n" + std::string(kHost) + "````").candidate.source == kHost);
  // In a list, with CRLF line ends.
  CHECK(Host("1. This:\n   ```cpp\n   " + std::string("int kernelcast_run;\n   ```\n"))
            .candidate.source == "int kernelcast_run;\n");
  CHECK(Host("```cpp\r\nint kernelcast_run;\r\n```\r\n").candidate.source ==
        "int kernelcast_run;\n");
}

TEST_CASE("The last block that is a kernel counts", "[orchestrator][reader]") {
  const std::string better = std::string(kHost) + "// better\n";
  CHECK(Host(Fence("cpp", kHost) + "No, rather:\n" + Fence("cpp", better)).candidate.source ==
        better);
  CHECK(Host(Fence("cpp", kHost) + "For example:\n" + Fence("cpp", "x[i] += 1;\n"))
            .candidate.source == kHost);
  CHECK(Host(Fence("bash", "g++ kernelcast_run\n") + Fence("cpp", kHost)).candidate.source ==
        kHost);
  // An entry in a comment does not count.
  CHECK(Host(Fence("cpp", "// kernelcast_run\nint x;\n")).fault == ReadFault::kNoEntry);
}

TEST_CASE("Flags are read from JSON next to the code", "[orchestrator][reader]") {
  const ReadKernel read =
      Host(Fence("cpp", kHost) + Fence("json", R"({"flags": ["-ffast-math"], "note": 1})"));
  CHECK(read.candidate.flags == std::vector<std::string>{"-ffast-math"});
  CHECK(Host(Fence("cpp", kHost) + Fence("json", R"({"flags": "-O2"})")).candidate.flags ==
        std::vector<std::string>{"-O2"});
  const ReadKernel bad = Host(Fence("cpp", kHost) + Fence("json", R"({"flags": ["a b"]})"));
  CHECK(bad.fault == ReadFault::kBadDescription);
  CHECK_THAT(bad.reason, Contains("flags[0]"));
}

TEST_CASE("Device code includes its launches", "[orchestrator][reader]") {
  const ReadKernel read = Device(Fence("cuda", kDevice) + Fence("json", kLaunches));
  CHECK(read.reason == "");
  REQUIRE(read.fault == ReadFault::kNone);
  const Candidate& candidate = read.candidate;
  CHECK(candidate.kind == CandidateKind::kDeviceCuda);
  CHECK(candidate.source == kDevice);
  REQUIRE(candidate.launches.size() == 1);
  CHECK(candidate.launches[0] == Launch{"scale", {"rows"}, {"256"}, "", {"x", "y"}, {}});
  CHECK(candidate.workspace_bytes == "8*rows");
  CHECK(candidate.flags == std::vector<std::string>{"--use_fast_math"});
}

TEST_CASE("Launches are accepted in the forms that models write", "[orchestrator][reader]") {
  const std::string launch = R"x({
    // one launch
    "launch": {"name": "scale", "grid": "ceildiv(rows, 8)", "block": 256, "args": ["x", "y"],
               "shared_memory": 1024, "stream": 0}})x";
  const ReadKernel read = Device(Fence("cuda", kDevice) + Fence("json", launch + "\n"));
  CHECK(read.reason == "");
  REQUIRE(read.candidate.launches.size() == 1);
  CHECK(read.candidate.launches[0] ==
        Launch{"scale", {"ceildiv(rows, 8)"}, {"256"}, "1024", {"x", "y"}, {}});
}

TEST_CASE("Without launches those of the parent are used if the kernels match",
          "[orchestrator][reader]") {
  const ReadKernel same = Device(Fence("cuda", kDevice));
  CHECK(same.fault == ReadFault::kNone);
  CHECK(same.candidate.launches == DeviceModel().launches);
  const std::string other = "extern \"C\" __global__ void other() {}\n";
  CHECK(Device(Fence("cuda", other)).fault == ReadFault::kNoLaunches);
  const ReadKernel broken = Device(Fence("cuda", other) + Fence("json", R"({"launches": [)"));
  CHECK(broken.fault == ReadFault::kBadDescription);
  CHECK(
      Device(Fence("cuda", kDevice) + Fence("json", R"({"launches": [{"grid": ["1"]}]})")).reason ==
      "JSON: launches[0].kernel: is missing");
}

TEST_CASE("CUDA with a host entry is host-launched", "[orchestrator][reader]") {
  const ReadKernel read =
      Device(Fence("cuda", std::string(kDevice) + kHost) + Fence("json", kLaunches));
  CHECK(read.candidate.kind == CandidateKind::kHostNative);
  CHECK(read.candidate.launches.empty());
  CHECK(read.candidate.workspace_bytes.empty());
}

TEST_CASE("A whole answer may be JSON", "[orchestrator][reader]") {
  const std::string object =
      R"({"source": "extern \"C\" __global__ void scale() {}", "launches": [{"kernel": "scale",
          "grid": ["1"], "block": ["32"], "arguments": []}]})";
  for (const std::string& answer : {object, Fence("json", object), Fence("", object)}) {
    INFO(answer);
    const ReadKernel read = Device(answer);
    CHECK(read.fault == ReadFault::kNone);
    CHECK(read.candidate.source == "extern \"C\" __global__ void scale() {}");
    CHECK(read.candidate.launches.size() == 1);
  }
}

TEST_CASE("Blocks that name files are inlined where they are included", "[orchestrator][reader]") {
  const std::string helper = "inline int Two() { return 2; }\n";
  const std::string main = "#include \"util/helper.h\"\n" + std::string(kHost);
  const std::string expected = helper + "\n" + kHost;
  CHECK(Host(Fence("cpp helper.h", helper) + Fence("cpp", main)).candidate.source == expected);
  CHECK(Host("**helper.h**\n\n" + Fence("cpp", helper) + "### kernel.cc\n" + Fence("cpp", main))
            .candidate.source == expected);
  CHECK(Host(Fence("cpp:src/helper.h", helper) + Fence("cpp", main)).candidate.source == expected);
  // Circular includes end.
  const std::string loop = "#include \"helper.h\"\n";
  CHECK(Host(Fence("cpp helper.h", loop) + Fence("cpp", main)).fault == ReadFault::kNone);
}

TEST_CASE("Code needs no fence when there is nothing else", "[orchestrator][reader]") {
  CHECK(Host(kHost).candidate.source == kHost);
  CHECK(Host("Here: " + std::string(kHost)).fault == ReadFault::kNoCode);
  CHECK(Host("# Plan\nkernelcast_run is faster\n").fault == ReadFault::kNoCode);
}

TEST_CASE("An unreadable answer has a reason", "[orchestrator][reader]") {
  CHECK(Host("").fault == ReadFault::kEmpty);
  CHECK(Host(" \n\t").fault == ReadFault::kEmpty);
  CHECK(Host("", /*cut_off=*/true).fault == ReadFault::kCutOff);
  CHECK(Host("It cannot be made faster.").fault == ReadFault::kNoCode);
  CHECK(Host("Let me think", /*cut_off=*/true).fault == ReadFault::kCutOff);
  CHECK(Host(Fence("cpp", "int main() {}\n")).fault == ReadFault::kNoEntry);
  CHECK(Device(Fence("cuda", "int main() {}\n")).fault == ReadFault::kNoEntry);
  CHECK(Host(Fence("cpp", std::string(kHost) + std::string("\0", 1))).fault == ReadFault::kBadText);
  CHECK(Host(Fence("cpp", kHost + std::string(kMaxKernelBytes, '\n'))).fault ==
        ReadFault::kTooLong);
  for (const ReadFault fault : kReadFaults) CHECK(Name(fault) != "none");
}

TEST_CASE("A truncated fence is not code, but a forgotten closing fence is",
          "[orchestrator][reader]") {
  const std::string open = "```cpp\n" + std::string(kHost);
  CHECK(Host(open).candidate.source == kHost);
  CHECK(Host(open, /*cut_off=*/true).fault == ReadFault::kCutOff);
  // An earlier complete block counts.
  CHECK(Host(Fence("cpp", kHost) + "```cpp\nint kernelcast_r", /*cut_off=*/true).candidate.source ==
        kHost);
}

TEST_CASE("Parsing time is linear in the answer", "[orchestrator][reader]") {
  std::string answer;
  for (int i = 0; i < 100'000; ++i) answer += "```\n#include \"x\"\n";
  Host(answer);
  Host(std::string(1 << 20, '`'));
  Host(Fence("json", std::string(200'000, '[')));
  Host(std::string(500'000, '{'));
  std::string files = Fence("cpp a.h", "#include \"a.h\"\n#include \"a.h\"\n");
  for (int i = 0; i < 1000; ++i) files += "```cpp\n#include \"a.h\"\nint kernelcast_run;\n```\n";
  Host(files);
}

TEST_CASE("A deeply nested description is a fault of the answer", "[orchestrator][reader]") {
  const std::string code = Fence("cuda", kDevice);
  for (const int times : {100, 10'000, 100'000}) {
    for (const char* const opening : {"[", "{\"launches\":", "[{\"tunables\":"}) {
      const std::string deep = kernelcast::testing::DeepJson(opening, times);
      for (const char* const key :
           {"launches", "launch", "workspace_bytes", "flags", "tunables", "more"}) {
        INFO(times << " " << opening << " " << key);
        const std::string object = "{\"launch\": [], \"" + std::string(key) + "\":" + deep + "}";
        CHECK(Device(code + Fence("json", object)).candidate.launches.size() == 1);
        CHECK(Device(object + "\n" + code).candidate.launches.size() == 1);
        CHECK(Device(object).fault == ReadFault::kNoCode);
        const std::string other = "extern \"C\" __global__ void other() {}";
        CHECK(Device(Fence("cuda", other) + Fence("json", object)).fault ==
              ReadFault::kBadDescription);
      }
      CHECK(Device(deep).fault == ReadFault::kNoCode);
    }
  }
}

TEST_CASE("The answer to a PyTorch task is the block that defines ModelNew",
          "[orchestrator][reader]") {
  constexpr char kModel[] = "class ModelNew(nn.Module):\n    pass\n";
  Candidate model;
  model.target = "cpu";
  model.kind = CandidateKind::kPython;
  const auto read = [&](const std::string& answer) { return ReadAnswer(answer, false, model); };
  const ReadKernel found = read("Plan.\n" + Fence("python", "import torch\n") +
                                Fence("python", kModel) + Fence("cpp", kHost));
  CHECK(found.fault == ReadFault::kNone);
  CHECK(found.candidate.source == kModel);
  CHECK(found.candidate.kind == CandidateKind::kPython);
  CHECK(read(Fence("py", kModel)).candidate.source == kModel);
  const ReadKernel none = read(Fence("python", "class Model: pass\n"));
  CHECK(none.fault == ReadFault::kNoEntry);
  CHECK_THAT(none.reason, Contains("ModelNew"));
}

TEST_CASE("The answer to a task with functions of its own defines all of them",
          "[orchestrator][reader]") {
  Candidate model;
  model.kind = CandidateKind::kPython;
  const auto read = [&](const std::string& source) {
    return ReadAnswer(Fence("python", source), false, model, {"forward", "backward"});
  };
  const std::string both = "def forward(x):\n    pass\ndef backward(x):\n    pass\n";
  CHECK(read(both).candidate.source == both);
  const ReadKernel one = read("def forward(x):\n    pass\n");
  CHECK(one.fault == ReadFault::kNoEntry);
  CHECK(one.reason == "no block of code defines forward and backward");
}

std::string EditOf(const std::string& search, const std::string& replace) {
  return "<<<<<<< SEARCH\n" + search + "=======\n" + replace + ">>>>>>> REPLACE\n";
}

Candidate Edited() {
  Candidate model = DeviceModel();
  model.source =
      "extern \"C\" __global__ void scale(const float* x, float* y) {\n"
      "  int i = threadIdx.x;\n"
      "  y[i] = x[i];\n"
      "  y[i] = 2 * y[i];\n"
      "}\n";
  model.flags = {"--use_fast_math"};
  model.workspace_bytes = "16";
  return model;
}

ReadKernel Patch(const std::string& answer, bool cut_off = false) {
  return ReadAnswer(answer, cut_off, Edited());
}

TEST_CASE("Edits of the parent are made in order", "[orchestrator][reader]") {
  const std::string edits = EditOf("  y[i] = x[i];\n  y[i] = 2 * y[i];\n", "  y[i] = 2 * x[i];\n") +
                            "and then\n" +
                            EditOf("  y[i] = 2 * x[i];\n", "  y[i] = x[i] + x[i];\n");
  const std::string expected =
      "extern \"C\" __global__ void scale(const float* x, float* y) {\n"
      "  int i = threadIdx.x;\n"
      "  y[i] = x[i] + x[i];\n"
      "}\n";
  std::string indented;
  for (const char* line : {"1. So:\n", "   ```cuda\n", "   <<<<<<< SEARCH\n", "     y[i] = x[i];\n",
                           "     y[i] = 2 * y[i];\n", "   =======\n", "     y[i] = x[i] + x[i];\n",
                           "   >>>>>>> REPLACE\n", "   ```\n"}) {
    indented += line;
  }
  for (const std::string& answer :
       {"A plan.\n\n" + edits, Fence("", edits), Fence("cuda", edits), indented}) {
    INFO(answer);
    const ReadKernel read = Patch(answer);
    CHECK(read.reason == "");
    CHECK(read.candidate.source == expected);
    CHECK(read.candidate.kind == CandidateKind::kDeviceCuda);
    // Fields that no description changes stay.
    CHECK(read.candidate.launches == Edited().launches);
    CHECK(read.candidate.flags == Edited().flags);
    CHECK(read.candidate.workspace_bytes == "16");
  }
  const ReadKernel described =
      Patch(edits + Fence("json", R"({"launches": [{"kernel": "scale", "grid": ["1"], "block": [64],
                       "arguments": ["x", "y"]}], "flags": []})"));
  CHECK(described.candidate.source == expected);
  CHECK(described.candidate.launches[0].block == std::vector<std::string>{"64"});
  CHECK(described.candidate.flags.empty());
}

TEST_CASE("Edits of a host kernel keep its flags", "[orchestrator][reader]") {
  Candidate model = HostModel();
  model.source = kHost;
  model.flags = {"-ffast-math"};
  model.tunables = {{"UNROLL", "4"}};
  const ReadKernel read = ReadAnswer(EditOf("  return 0;\n", "  return 0 * 1;\n"), false, model);
  CHECK(read.fault == ReadFault::kNone);
  CHECK_THAT(read.candidate.source, Contains("return 0 * 1;"));
  CHECK(read.candidate.flags == model.flags);
  CHECK(read.candidate.tunables == model.tunables);
}

TEST_CASE("Edits that cannot be made have a reason", "[orchestrator][reader]") {
  const auto check = [](const std::string& answer, ReadFault fault, const std::string& reason) {
    const ReadKernel read = Patch(answer);
    INFO(answer);
    CHECK(read.fault == fault);
    CHECK(read.reason == reason);
  };
  check(EditOf("  y[i] = 3;\n", ""), ReadFault::kEditNotFound,
        "edit 1 of 1: the first line of SEARCH is not in the kernel: '  y[i] = 3;'");
  check(EditOf("  y[i] = x[i];\n", "  y[i] = 1;\n") +
            EditOf("  int i = threadIdx.x;\n  y[i] = x[i];\n", ""),
        ReadFault::kEditNotFound,
        "edit 2 of 2: line 2 of SEARCH does not follow the lines before it in the kernel: "
        "'  y[i] = x[i];'");
  Candidate twice = Edited();
  twice.source += "// x\n// x\n";
  const ReadKernel read = ReadAnswer(EditOf("// x\n", "// y\n"), false, twice);
  CHECK(read.fault == ReadFault::kEditFoundTwice);
  CHECK(read.reason ==
        "edit 1 of 1: the lines of SEARCH occur more than once in the kernel; the first is '// x'");
  check(EditOf("", "int x;\n"), ReadFault::kBadEdit, "edit 1: SEARCH has no lines");
  check("<<<<<<< SEARCH\n  y[i] = x[i];\n>>>>>>> REPLACE\n", ReadFault::kBadEdit,
        "edit 1: no ======= between SEARCH and REPLACE");
  check("<<<<<<< SEARCH\na\n=======\nb\n", ReadFault::kBadEdit,
        "edit 1: no >>>>>>> REPLACE ends it");
  CHECK(Patch("<<<<<<< SEARCH\na\n=======\nb\n", /*cut_off=*/true).fault == ReadFault::kCutOff);
  CHECK(Patch(EditOf("  y[i] = x[i];\n", "\n"), /*cut_off=*/true).fault == ReadFault::kCutOff);
  CHECK(Patch(EditOf("extern \"C\" __global__ void scale(const float* x, float* y) {\n",
                     "void scale() {\n"))
            .fault == ReadFault::kNoEntry);
}

TEST_CASE("Of edits and a whole kernel the later counts", "[orchestrator][reader]") {
  const std::string edit = EditOf("  y[i] = x[i];\n", "  y[i] = x[0];\n");
  CHECK(Patch(Fence("cuda", kDevice) + edit).candidate.source != kDevice);
  CHECK(Patch(edit + "Rather all of it:\n" + Fence("cuda", kDevice)).candidate.source == kDevice);
}

TEST_CASE("Making edits takes linear time", "[orchestrator][reader]") {
  Candidate model = HostModel();
  model.source = std::string(100'000, '\n') + "int kernelcast_run;\n";
  std::string edits;
  for (int i = 0; i < 60; ++i) edits += EditOf(std::string(50'000, '\n') + "x\n", "");
  CHECK(ReadAnswer(edits, false, model).fault == ReadFault::kEditNotFound);
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += EditOf("x\n", "");
  CHECK(ReadAnswer(many, false, model).fault == ReadFault::kBadEdit);
}

}  // namespace
}  // namespace kernelcast::orchestrator
