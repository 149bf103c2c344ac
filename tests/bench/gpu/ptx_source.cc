#include "tests/bench/gpu/ptx_source.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "services/worker/core/source_scan.h"
#include "services/worker/cuda/compiler/ptx_facts.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

bool Load(const std::string& path, std::string& content) {
  absl::StatusOr<std::string> read = ReadFile(path);
  if (!read.ok()) return false;
  content = *std::move(read);
  return true;
}

}  // namespace

absl::StatusOr<PtxSource::Compiled> PtxSource::Compile(const std::string& problem,
                                                       const Candidate& candidate) {
  const std::string base = folder_.empty() ? ""
                                           : absl::StrCat(folder_, "/", architecture_, "/", problem,
                                                          "/", candidate.candidate_id);
  std::string ptx;
  std::string log;
  if (base.empty() || !Load(base + ".ptx", ptx) || !Load(base + ".log", log)) {
    KC_RETURN_IF_ERROR(Run(candidate, ptx, log));
    if (!base.empty()) {
      fs::create_directories(fs::path(base).parent_path());
      std::ofstream(base + ".log", std::ios::binary) << log;
      std::ofstream(base + ".ptx", std::ios::binary) << ptx;
    }
  }
  Compiled compiled;
  for (const PtxasFunction& function : ReadPtxasInfo(log)) {
    if (!function.is_kernel) continue;
    CubinKernel kernel;
    kernel.name = function.name;
    kernel.registers = function.registers;
    kernel.shared_bytes = function.shared_bytes;
    kernel.stack_bytes = function.stack_bytes;
    compiled.cubin.kernels.push_back(kernel);
  }
  compiled.ptx = std::move(ptx);
  return compiled;
}

absl::Status PtxSource::Run(const Candidate& candidate, std::string& ptx, std::string& log) {
  if (process_ == nullptr) {
    KC_ASSIGN_OR_RETURN(const CudaToolkit toolkit, FindCudaToolkit({KERNELCAST_CUDA_HOME}));
    KC_ASSIGN_OR_RETURN(headers_, HeaderArchive::Read(toolkit.include_directory));
    CompilerProcessOptions options;
    options.program = KERNELCAST_BIN_DIR "/kernelcast-cuda-compiler";
    options.toolkit = toolkit;
    KC_ASSIGN_OR_RETURN(process_, CompilerProcess::Start(options, headers_->fd(), CancelToken()));
  }
  compiler_wire::CompileRequest request;
  request.source = candidate.source;
  request.options = {"-arch=" + architecture_, "-Xptxas=-v", "--no-source-include", "--no-cache",
                     "--modify-stack-limit=false"};
  request.options.insert(request.options.end(), candidate.flags.begin(), candidate.flags.end());
  request.headers = headers_->Reach(IncludedFiles(candidate.source));
  compiler_wire::CompileReply reply;
  if (process_->Compile(request, 60'000'000'000, CancelToken(), reply) !=
          CompilerProcess::End::kAnswered ||
      reply.code != compiler_wire::ReplyCode::kCompiled) {
    return absl::InternalError(reply.log);
  }
  ptx = std::move(reply.ptx);
  log = std::move(reply.log);
  return absl::OkStatus();
}

}  // namespace kernelcast::worker
