#include "services/worker/cpu/compiler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/cpu/cpu_target.h"
#include "services/worker/native/shared_object.h"
#include "tests/integration/worker/cpu_fixture.h"

namespace kernelcast::testing::compiler_test {
namespace {

using worker::ArtifactCache;
using worker::CancelToken;
using worker::CompileResult;
using worker::CompilerOptions;
using worker::CompileSuccess;
using worker::CpuCompiler;
using worker::CpuTarget;
using worker::Toolchain;

constexpr const char* kEntry =
    "extern \"C\" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, "
    "void*)";

std::string Kernel(const std::string& before, const std::string& body = "return 0;") {
  return absl::StrCat("#include <kernelcast/candidate.h>\n", before, "\n", kEntry, " { ", body,
                      " }\n");
}

constexpr int kRetries = 2;

class Fixture {
 public:
  explicit Fixture(int64_t timeout_ns = 15'000'000'000, int64_t memory_bytes = int64_t{1} << 30)
      : folder_("compiler"), compiler_(Probed(), Options(timeout_ns, memory_bytes)) {}

  CompileResult Compile(const std::string& source, const std::vector<std::string>& flags = {}) {
    auto result = compiler_.Compile(source, flags, CancelToken());
    // A busy machine may not let the compiler run.
    for (int retry = 0; retry < kRetries && absl::IsUnavailable(result.status()); ++retry) {
      result = compiler_.Compile(source, flags, CancelToken());
    }
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    // Every compile leaves the folder empty.
    CHECK(std::filesystem::is_empty(folder_.path()));
    return *std::move(result);
  }
  CompileError Refusal(const std::string& source, const std::vector<std::string>& flags = {}) {
    CompileResult result = Compile(source, flags);
    REQUIRE(std::holds_alternative<CompileError>(result.result));
    return std::get<CompileError>(result.result);
  }
  const CpuCompiler& compiler() const { return compiler_; }

 private:
  static Toolchain Probed() {
    auto toolchain = Toolchain::Probe("g++");
    INFO(toolchain.status().ToString());
    REQUIRE(toolchain.ok());
    return *std::move(toolchain);
  }
  CompilerOptions Options(int64_t timeout_ns, int64_t memory_bytes) const {
    CompilerOptions options;
    options.work_directory = folder_.path().string();
    options.include_directories = {absl::StrCat(KERNELCAST_SOURCE_DIR, "/common/candidate_abi")};
    options.sandbox.program = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";
    options.sandbox.uid = 65534;
    options.limits.timeout_ns = timeout_ns;
    options.limits.max_memory_bytes = memory_bytes;
    return options;
  }

  TemporaryFolder folder_;
  CpuCompiler compiler_;
};

TEST_CASE("A kernel compiles to an object with an entry and facts of the schema") {
  Fixture fixture;
  const CompileResult result = fixture.Compile(Kernel(""));
  REQUIRE(std::holds_alternative<CompileSuccess>(result.result));
  const auto& success = std::get<CompileSuccess>(result.result);
  CHECK(ValidateFacts(success.facts).ok());
  CHECK(success.artifact.architecture.find("x86-64/") == 0);
  CHECK(success.artifact.architecture != "x86-64/native");
  CHECK(success.artifact.toolchain.find("-march=native") != std::string::npos);
  const auto object = worker::PrepareObject(success.artifact.content);
  REQUIRE(object.ok());
  CHECK(object->text_bytes > 0);
  CHECK(result.compile_ns > 0);
}

TEST_CASE("Facts follow from the compiler's output") {
  Fixture fixture;
  const std::string loop = absl::StrCat(
      "#include <kernelcast/candidate.h>\n"
      "extern \"C\" int32_t kernelcast_run(const DLTensor* in, int32_t, const DLTensor* out, "
      "int32_t, "
      "void*) {\n"
      "  const float* __restrict x = kc_data<float>(in[0]); float* __restrict y = "
      "kc_data<float>(out[0]);\n"
      "  for (int64_t i = 0; i < in[0].shape[0]; ++i) y[i] = x[i] * 2 + 1;\n  return 0;\n}\n");
  const auto value = [&](const std::vector<std::string>& flags, std::string_view name) {
    const CompileResult result = fixture.Compile(loop, flags);
    const auto& success = std::get<CompileSuccess>(result.result);
    const auto& names = (*FindFactSchema(success.facts.schema))->names;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) {
        return success.facts.values[i];
      }
    }
    FAIL("no fact " << name);
    return 0.0;
  };
  CHECK(value({}, "widest_vector_bytes") >= 32);
  CHECK(value({"-fno-tree-vectorize"}, "inner_packed_share") == 0);
  CHECK(value({}, "inner_packed_share") > 0.4);
  CHECK(value({"-mprefer-vector-width=128"}, "widest_vector_bytes") == 16);
  CHECK(value({}, "loop_depth") == 1);
  // Instructions are counted anywhere on a line of inline assembly.
  const CompileResult inlined = fixture.Compile(Kernel(
      "", "__asm__ volatile(\"nop; vmulps %%ymm0, %%ymm0, %%ymm0\" ::: \"xmm0\"); return 0;"));
  const auto& facts = std::get<CompileSuccess>(inlined.result).facts;
  const auto& names = (*FindFactSchema(facts.schema))->names;
  const auto at = std::find(names.begin(), names.end(), "packed_float_multiply") - names.begin();
  CHECK(facts.values[static_cast<size_t>(at)] == 1);
}

TEST_CASE("Forbidden source text is refused before compiler messages could reveal a secret") {
  Fixture fixture;
  const std::vector<std::string> sources = {
      Kernel("#include \"/etc/passwd\""),
      Kernel("#include </etc/passwd>"),
      Kernel("#  include \"../../../../etc/passwd\""),
      Kernel("#/* hidden */include \"/etc/passwd\""),
      Kernel("#inc\\\nlude \"/etc/passwd\""),
      Kernel("%:include \"/etc/passwd\""),
      Kernel("#define FILE_NAME \"/etc/passwd\"\n#include FILE_NAME"),
      Kernel("#include_next </etc/passwd>"),
      Kernel("#import \"/etc/passwd\""),
      Kernel("#pragma GCC dependency \"/etc/passwd\""),
      Kernel("#line 1 \"/etc/passwd\"\nint x = nonsense;"),
      Kernel("# 1 \"/etc/passwd\"\nint x = nonsense;"),
      Kernel("#define FILE_NAME \"/etc/passwd\"\n#line 1 FILE_NAME\nint x = nonsense;"),
      Kernel("_Pragma(\"GCC dependency \\\"/etc/passwd\\\"\")"),
      Kernel("#if __has_include(\"/etc/passwd\")\n#error there\n#endif"),
      Kernel("#define H(x) __has_include(x)\n#if H(\"/etc/passwd\")\n#error there\n#endif"),
      Kernel("__asm__(\".incbin \\\"/etc/passwd\\\"\");"),
      Kernel("__asm__(\".inc/**/bin \\\"/etc/passwd\\\"\");"),
      Kernel("__asm__(\"nop;.inc/*\\n*/bin \\\"/etc/passwd\\\"\");"),
      Kernel("__asm__(\".section .gnu.lto_.opts,\\\"e\\\",@progbits\\n.byte 1\\n.text\");"),
      Kernel("__asm__(\".byte 0xc3\");"),
      Kernel("__attribute__((section(\".mine\"))) int x = 1;"),
      Kernel("__asm__(\".section .data.x,\\\"awx\\\",@progbits\\nnop\\n.text\");"),
      Kernel("__asm__(\".section .note.GNU-stack,\\\"x\\\",@progbits\\n.text\");"),
      Kernel("__asm__(\".InClUdE \\\"/etc/passwd\\\"\");"),
      Kernel("__asm__(\".macro m a\\n.inc\\\\a \\\"/etc/passwd\\\"\\n.endm\\nm bin\");"),
      Kernel("extern \"C\" { int one() { return 1; }\n"
             "void* resolve() { return (void*)one; }\n"
             "int chosen() __attribute__((ifunc(\"resolve\"))); }"),
  };
  for (const std::string& source : sources) {
    INFO(source);
    const CompileError error = fixture.Refusal(source);
    CHECK(error.stage == CompileStage::kAdmission);
    CHECK(error.log.find("root:") == std::string::npos);
  }
}

TEST_CASE("A source that evades the check with macros finds no host file") {
  Fixture fixture;
  const auto asked = [&](const std::string& path) {
    return fixture
        .Refusal(Kernel(absl::StrCat("#define PASTE(a, b) a##b\n#if PASTE(__has_, include)(\"",
                                     path, "\")\n#error there\n#else\n#error absent\n#endif")))
        .log;
  };
  const TemporaryFolder folder("secret");
  std::ofstream(folder.File("secret.h")) << "int a_line_of_the_host;\n";
  // As root without a namespace, or with Landlock alone, access is refused.
  CHECK(asked("/etc/passwd").find("there") == std::string::npos);
  CHECK(asked(folder.File("secret.h")).find("there") == std::string::npos);
  const CompileError error = fixture.Refusal(
      Kernel(absl::StrCat("#define PRAGMA(x) _Pragma(#x)\nPRAGMA(GCC dependency \"",
                          folder.File("secret.h"), "\")\nint nonsense = undeclared;")));
  CHECK(error.log.find("a_line_of_the_host") == std::string::npos);
  CHECK(error.log.find("current file is older") == std::string::npos);
}

TEST_CASE("Flags outside the allow-list are refused by name") {
  Fixture fixture;
  for (const char* flag : {"-fplugin=/tmp/x.so", "-I/etc", "@/etc/passwd", "-Wl,-T,/etc/passwd", "",
                           "-O0", "-march=i386", "-ffast-math -O3"}) {
    const CompileError error = fixture.Refusal(Kernel(""), {flag});
    CHECK(error.stage == CompileStage::kAdmission);
    CHECK(error.log.find(absl::StrCat("'", flag, "'")) != std::string::npos);
  }
  CHECK(std::holds_alternative<CompileSuccess>(
      fixture.Compile(Kernel(""), {"-ffast-math", "-funroll-loops"}).result));
}

TEST_CASE("A source whose entry is missing or not a function is refused") {
  Fixture fixture;
  CHECK(fixture.Refusal("int x = 1;\n").stage == CompileStage::kAdmission);
  CHECK(fixture.Refusal("").stage == CompileStage::kAdmission);
  CHECK(fixture.Refusal("extern \"C\" int kernelcast_run; int kernelcast_run = 1;\n").stage ==
        CompileStage::kAdmission);
}

TEST_CASE("An undefined symbol is a linker error") {
  Fixture fixture;
  const CompileError error = fixture.Refusal(
      Kernel("extern \"C\" int nowhere_to_be_found();", "return nowhere_to_be_found();"));
  CHECK(error.stage == CompileStage::kLinker);
  CHECK(error.log.find("nowhere_to_be_found") != std::string::npos);
}

TEST_CASE("A source that keeps the compiler busy hits the time limit") {
  Fixture fixture(/*timeout_ns=*/1'000'000'000);
  const CompileError error = fixture.Refusal(
      Kernel("template <int N, int M> struct B { static constexpr long v = B<N - 1, M>::v + B<N - "
             "1, M + (1 << "
             "N)>::v; };\ntemplate <int M> struct B<0, M> { static constexpr long v = M; };",
             "return B<24, 0>::v > 0;"));
  CHECK(error.stage == CompileStage::kLimit);
}

TEST_CASE("A source that needs too much compiler memory hits the memory limit") {
  Fixture fixture(15'000'000'000, int64_t{160} << 20);
  std::string macros = "#define S0 \"sixteen letters.\"\n";
  for (int i = 1; i <= 8; ++i) {
    const std::string s = absl::StrCat("S", i - 1, " ");
    absl::StrAppend(&macros, "#define S", i, " ", s, s, s, s, s, s, s, s, "\n");
  }
  const CompileError error =
      fixture.Refusal(Kernel(absl::StrCat(macros, "const char* volatile big = S8;")));
  CHECK(error.stage == CompileStage::kLimit);
}

TEST_CASE("Endless compiler errors are truncated") {
  Fixture fixture;
  std::string source;
  for (int i = 0; i < 20'000; ++i) {
    absl::StrAppend(&source, "unknown_type_", i, " x", i, ";\n");
  }
  const CompileError error = fixture.Refusal(source);
  CHECK(error.stage == CompileStage::kCompiler);
  CHECK(error.log.size() <= 64 << 10);
}

TEST_CASE("A cancelled token stops the compiler") {
  Fixture fixture;
  const CancelToken cancel(Clock::Real().MonotonicNs() + 200'000'000);
  const auto result = fixture.compiler().Compile(
      Kernel("template <int N, int M> struct B { static constexpr long v = B<N - 1, M>::v + B<N - "
             "1, M + "
             "(1 << N)>::v; };\ntemplate <int M> struct B<0, M> { static constexpr long v = M; };",
             "return B<24, 0>::v > 0;"),
      {}, cancel);
  CHECK(absl::IsDeadlineExceeded(result.status()));
}

TEST_CASE("Concurrent identical compiles run once, and later ones come from the cache") {
  CpuFixture fixture;
  const Candidate candidate = fixture.MakeCandidate(Kernel("// distinct"));
  std::vector<std::thread> threads;
  std::vector<bool> cached(4);
  std::vector<int> outcome(4);
  for (size_t i = 0; i < cached.size(); ++i) {
    threads.emplace_back([&, i] {
      auto result = fixture.target().Compile({fixture.problem(), &candidate}, CancelToken());
      outcome[i] = result.ok() ? 1 + static_cast<int>(result->cached) : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(std::count(outcome.begin(), outcome.end(), 0) == 0);
  CHECK(std::count(outcome.begin(), outcome.end(), 1) == 1);
}

TEST_CASE("A damaged cache entry is rebuilt") {
  const TemporaryFolder folder("cache");
  const auto measure = [&](bool expect_cached) {
    auto target = CpuTarget::Make(CpuFixture::Options(folder.path().string()));
    REQUIRE(target.ok());
    Candidate candidate;
    candidate.target = "cpu";
    candidate.source = Kernel("// cached");
    auto result = (*target)->Compile({LoadProblem("tests/candidates/iterated_map"), &candidate},
                                     CancelToken());
    REQUIRE(result.ok());
    CHECK(std::holds_alternative<CompileSuccess>(result->result));
    CHECK(result->cached == expect_cached);
  };
  measure(false);
  measure(true);
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().extension() == ".entry") {
      std::fstream entry(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      entry.seekp(static_cast<std::streamoff>(file.file_size() / 2));
      entry.put('\x7f');
      entry.put('\x01');
    }
  }
  measure(false);
  measure(true);
}

}  // namespace
}  // namespace kernelcast::testing::compiler_test
