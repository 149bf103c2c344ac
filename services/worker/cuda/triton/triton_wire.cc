#include "services/worker/cuda/triton/triton_wire.h"

#include <utility>

namespace kernelcast::worker {
namespace {

using compiler_wire::Decoder;
using compiler_wire::Encoder;

// As in compile_server.py.
constexpr uint64_t kDivisibleBy16 = 1;
constexpr uint64_t kEqualTo1 = 2;

std::string_view KindText(TritonConstant::Kind kind) {
  switch (kind) {
    case TritonConstant::Kind::kInteger: return "int";
    case TritonConstant::Kind::kReal: return "float";
    case TritonConstant::Kind::kBoolean: return "bool";
    case TritonConstant::Kind::kNone: return "none";
    case TritonConstant::Kind::kType: return "dtype";
    case TritonConstant::Kind::kText: return "text";
  }
  return "text";
}

}  // namespace

std::optional<TritonHello> TritonHello::Decode(std::string_view content) {
  Decoder decoder(content);
  TritonHello hello;
  hello.error = decoder.Text();
  hello.triton_version = decoder.Text();
  hello.python_version = decoder.Text();
  return decoder.done() ? std::optional(std::move(hello)) : std::nullopt;
}

std::string TritonRequest::Encode() const {
  Encoder encoder;
  encoder.Number(max_memory_bytes).Number(max_cpu_seconds).Number(max_output_bytes).Text(filter);
  encoder.Number(architecture).Number(ptx_version).Text(source).Number(variants.size());
  for (const TritonVariant& variant : variants) {
    encoder.Text(variant.kernel).Number(static_cast<uint64_t>(variant.num_warps));
    encoder.Number(static_cast<uint64_t>(variant.num_stages)).Number(variant.parameters.size());
    for (const TritonParameter& parameter : variant.parameters) {
      encoder.Text(parameter.type)
          .Number((parameter.divisible_by_16 ? kDivisibleBy16 : 0) |
                  (parameter.equal_to_1 ? kEqualTo1 : 0));
    }
    encoder.Number(variant.constants.size());
    for (const TritonConstant& constant : variant.constants) {
      encoder.Text(constant.name).Text(KindText(constant.kind)).Text(constant.value);
    }
  }
  return encoder.Take();
}

std::optional<TritonReply> TritonReply::Decode(std::string_view content) {
  Decoder decoder(content);
  TritonReply reply;
  const uint64_t code = decoder.Number();
  reply.log = decoder.Text();
  for (uint64_t left = decoder.Count(); left > 0 && left <= kMaxTritonVariants; --left) {
    Kernel& kernel = reply.kernels.emplace_back();
    kernel.ptx = decoder.Text();
    kernel.shared_bytes = decoder.Number();
    kernel.num_warps = decoder.Number();
    kernel.scratch_bytes = decoder.Number();
    kernel.num_ctas = decoder.Number();
  }
  if (!decoder.done() || code > static_cast<uint64_t>(TritonCode::kBroken)) return std::nullopt;
  reply.code = static_cast<TritonCode>(code);
  return reply;
}

}  // namespace kernelcast::worker
