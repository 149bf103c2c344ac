#include "services/worker/cuda/nvcc/nvcc_compiler.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/native/shared_object.h"
#include "tests/support/services.h"

namespace kernelcast::worker::nvcc_compiler_test {
namespace {

using testing::TemporaryFolder;

constexpr const char* kGood =
    "#include <cuda_runtime.h>\n#include <kernelcast/candidate.h>\n"
    "__global__ void twice(const float* x, float* y, int n) {\n"
    "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n"
    "extern \"C\" int32_t kernelcast_run(const DLTensor* in, int32_t, const DLTensor* out, "
    "int32_t,\n"
    "                                  void* stream) {\n"
    "  const int n = (int)in[0].shape[0];\n"
    "  twice<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(kc_data<float>(in[0]),\n"
    "                                                           kc_data<float>(out[0]), n);\n"
    "  return cudaGetLastError();\n}\n";

constexpr int kAttempts = 4;

class Fixture {
 public:
  explicit Fixture(CompilerLimits limits = NvccOptions().limits) : folder_("nvcc") {
    auto artifacts = ArtifactCache::Open(folder_.File("artifacts"), 64 << 20);
    REQUIRE(artifacts.ok());
    cache_ = std::make_unique<CompileCache>(*std::move(artifacts));
    NvccOptions options;
    options.toolkit = *FindCudaToolkit({KERNELCAST_CUDA_HOME});
    options.work_directory = folder_.path().string();
    options.include_directories = {KERNELCAST_SOURCE_DIR "/common/candidate_abi"};
    options.limits = limits;
    options.sandbox.program = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";
    options.sandbox.uid = 65534;
    auto compiler = NvccCompiler::Make(options, *cache_);
    INFO(compiler.status().ToString());
    REQUIRE(compiler.ok());
    compiler_ = *std::move(compiler);
  }

  CompileResult Compile(const std::string& source, const std::vector<std::string>& flags = {},
                        const std::string& architecture = "sm_90a") {
    auto result = compiler_->Compile(source, flags, architecture, CancelToken());
    // Compilers make way for other processes: a busy machine may leave them too little time.
    for (int i = 1; i < kAttempts && absl::IsUnavailable(result.status()); ++i) {
      result = compiler_->Compile(source, flags, architecture, CancelToken());
    }
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    return *std::move(result);
  }
  CompileError Error(const std::string& source, const std::vector<std::string>& flags = {}) {
    const CompileResult result = Compile(source, flags);
    REQUIRE(std::holds_alternative<CompileError>(result.result));
    return std::get<CompileError>(result.result);
  }
  NvccCompiler& compiler() { return *compiler_; }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<NvccCompiler> compiler_;
};

bool HaveNvcc() {
  const auto toolkit = FindCudaToolkit({KERNELCAST_CUDA_HOME});
  const bool have = toolkit.ok() && !toolkit->nvcc.empty();
  if (!have) {
    WARN("no nvcc next to the headers of this build: nothing is tested");
  }
  return have;
}

TEST_CASE("nvcc produces an object with the entry and facts of its device code", "[integration]") {
  if (!HaveNvcc()) return;
  Fixture fixture;
  const CompileResult result = fixture.Compile(kGood);
  INFO((std::holds_alternative<CompileError>(result.result)
            ? std::get<CompileError>(result.result).log
            : ""));
  REQUIRE(std::holds_alternative<CompileSuccess>(result.result));
  const auto& success = std::get<CompileSuccess>(result.result);
  CHECK(success.artifact.format == ArtifactFormat::kSharedObject);
  CHECK(success.artifact.architecture == "sm_90a");
  CHECK(success.artifact.artifact_id == fixture.compiler().ArtifactId(kGood, {}, "sm_90a"));
  const auto object = PrepareObject(success.artifact.content);
  REQUIRE(object.ok());
  // The runtime's initialiser, which registers the device code.
  CHECK(object->init_array_entries > 0);
  CHECK(success.facts.schema == kCudaPtxSchemaId);
  CHECK(result.compile_ns > 0);
  CHECK(fixture.Compile(kGood).cached);
  CHECK(fixture.Compile(kGood, {}, "sm_80").cached == false);
}

TEST_CASE("A host-launched compile error reports its location", "[integration]") {
  if (!HaveNvcc()) return;
  Fixture fixture;
  const CompileError device = fixture.Error("__global__ void k() { undeclared = 1; }\n");
  CHECK(device.stage == CompileStage::kCompiler);
  CHECK_THAT(device.log, Catch::Contains("kernel.cu(1)") && Catch::Contains("undeclared"));
  const CompileError entry = fixture.Error("__global__ void k() {}\n");
  CHECK(entry.stage == CompileStage::kAdmission);
  CHECK_THAT(entry.log, Catch::Contains("kernelcast_run"));
  const CompileError linked = fixture.Error(std::string("extern \"C\" int nowhere();\n") + kGood +
                                            "int f() { return nowhere(); }\n");
  CHECK(linked.stage == CompileStage::kLinker);
  CHECK_THAT(linked.log, Catch::Contains("nowhere"));
}

TEST_CASE("A host-launched source cannot read host files", "[integration]") {
  if (!HaveNvcc()) return;
  Fixture fixture;
  const auto refused = [&](const std::string& source, const std::vector<std::string>& flags = {}) {
    const CompileError error = fixture.Error(source, flags);
    INFO(error.log);
    CHECK(error.stage == CompileStage::kAdmission);
    CHECK(error.log.find("root:") == std::string::npos);
  };
  refused("#include \"/etc/passwd\"\n");
  refused("#include \"../../../../etc/passwd\"\n");
  refused(std::string("#define F \"/etc/passwd\"\n#include F\n") + kGood);
  // Split into pieces so that scanning the source does not find it.
  refused(std::string(kGood) + "asm(\".inc\" \"bin \\\"/etc/passwd\\\"\");\n");
  refused(std::string(kGood) + "asm(\".inc\" \"lude \\\"/etc/passwd\\\"\");\n");
  refused(std::string(kGood) +
          "__global__ void k() { asm(\".inc\" \"lude \\\"/etc/passwd\\\"\"); }\n");
  refused(std::string(kGood) + "__asm__(\".inc/**/bin \\\"/etc/passwd\\\"\");\n");
  refused(std::string(kGood) +
          "__asm__(\".section .gnu.lto_.opts,\\\"e\\\",@progbits\\n.byte 1\\n.text\");\n");
  refused(kGood, {"-Xcompiler=-include/etc/passwd"});
}

TEST_CASE("A source that keeps nvcc busy hits the time limit", "[integration]") {
  if (!HaveNvcc()) return;
  CompilerLimits limits = NvccOptions().limits;
  limits.timeout_ns = 1'000'000'000;
  Fixture fixture(limits);
  const CompileError error = fixture.Error(
      std::string("template <int N, int M> struct B { static constexpr long v = B<N - 1, M>::v + "
                  "B<N - 1, M + (1 << N)>::v; };\n"
                  "template <int M> struct B<0, M> { static constexpr long v = M; };\n"
                  "long Busy() { return B<24, 0>::v; }\n") +
      kGood);
  CHECK(error.stage == CompileStage::kLimit);
}

TEST_CASE("Missing requirements of host-launched candidates are reported", "[integration]") {
  const TemporaryFolder folder("nvcc");
  auto artifacts = ArtifactCache::Open(folder.File("artifacts"), 1 << 20);
  REQUIRE(artifacts.ok());
  CompileCache cache(*std::move(artifacts));
  NvccOptions options;
  options.toolkit.home = "/opt/cuda";
  CHECK(NvccCompiler::Make(options, cache).status().message() == "there is no nvcc in /opt/cuda");
  options.toolkit.nvcc = "/bin/true";
  CHECK(absl::StartsWith(NvccCompiler::Make(options, cache).status().message(),
                         "there is no libcudart_static.a"));
  if (!HaveNvcc()) return;
  options.toolkit = *FindCudaToolkit({KERNELCAST_CUDA_HOME});
  options.toolkit.nvcc = "/bin/true";
  options.work_directory = folder.path().string();
  options.sandbox.program = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";
  CHECK(absl::StartsWith(NvccCompiler::Make(options, cache).status().message(),
                         "/bin/true does not work"));
}

}  // namespace
}  // namespace kernelcast::worker::nvcc_compiler_test
