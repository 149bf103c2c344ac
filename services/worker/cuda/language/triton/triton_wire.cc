#include "services/worker/cuda/language/triton/triton_wire.h"

#include <utility>

#include "services/worker/cuda/compiler/wire.h"

namespace kernelcast::worker {
namespace {

using compiler_wire::Decoder;
using compiler_wire::Encoder;

// As in triton_program.py.
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

std::string TritonRequest::Encode() const {
  Encoder encoder;
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
  return encoder.TakeFields();
}

std::optional<TritonReply> TritonReply::Decode(std::string_view fields) {
  Decoder decoder(fields);
  TritonReply reply;
  for (uint64_t left = decoder.Count(); left > 0 && left <= kMaxTritonVariants; --left) {
    Kernel& kernel = reply.kernels.emplace_back();
    kernel.ptx = decoder.Text();
    kernel.shared_bytes = decoder.Number();
    kernel.num_warps = decoder.Number();
    kernel.scratch_bytes = decoder.Number();
    kernel.num_ctas = decoder.Number();
  }
  return decoder.done() ? std::optional(std::move(reply)) : std::nullopt;
}

}  // namespace kernelcast::worker
