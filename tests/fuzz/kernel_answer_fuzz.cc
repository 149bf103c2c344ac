// libFuzzer harness for generated kernels. The first byte encodes whether the answer was truncated
// and which kind is wanted; the rest is the answer. make_kernel_corpus.py writes such inputs.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/base/utf8.h"
#include "common/domain/candidate.h"
#include "common/domain/text.h"
#include "services/orchestrator/core/novelty.h"
#include "services/orchestrator/generator/answer_reader.h"

namespace kernelcast::orchestrator {
namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

Candidate Model(bool device) {
  Candidate model;
  model.target = device ? "cuda" : "cpu";
  model.kind = device ? CandidateKind::kDeviceCuda : CandidateKind::kHostNative;
  model.source = device ? "extern \"C\" __global__ void scale(const float* x, float* y) {\n"
                          "  y[0] = x[0];\n  y[1] = x[1];\n}\n"
                        : "int kernelcast_run() {\n  int a;\n  int b;\n  int a;\n}\n";
  if (device) model.launches = {Launch{"scale", {"rows"}, {"128"}, "", {"x", "y"}, {}}};
  return model;
}

void Check(const ReadKernel& read, bool device) {
  if (read.fault != ReadFault::kNone) {
    Require(!read.reason.empty() && read.reason.size() <= 400, "a fault has a bounded reason");
    Require(IsValidUtf8(read.reason), "a reason is UTF-8");
    return;
  }
  const Candidate& candidate = read.candidate;
  Require(!candidate.source.empty() && candidate.source.size() <= kMaxKernelBytes,
          "a source is bounded");
  Require(IsSourceText(candidate.source), "a source is text");
  Require(candidate.kind == CandidateKind::kHostNative ||
              (device && candidate.kind == CandidateKind::kDeviceCuda),
          "a kernel is of a kind that was wanted");
  Require((candidate.kind == CandidateKind::kDeviceCuda) == !candidate.launches.empty(),
          "device code has launches, and nothing else has");
  Require(candidate.parent_candidate_id.empty() && candidate.origin.empty(),
          "a model names neither parent nor origin");
  const std::string once = NormalizedSource(candidate.source);
  Require(once.size() <= candidate.source.size() + 1, "normalising adds nothing");
  NoveltyKey(candidate);
}

}  // namespace
}  // namespace kernelcast::orchestrator

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kernelcast::orchestrator;
  if (size == 0) return 0;
  const bool cut_off = (data[0] & 1) != 0;
  const bool device = (data[0] & 2) != 0;
  const std::string_view answer(reinterpret_cast<const char*>(data) + 1, size - 1);
  Check(ReadAnswer(answer, cut_off, Model(device)), device);
  NormalizedSource(answer);
  return 0;
}
