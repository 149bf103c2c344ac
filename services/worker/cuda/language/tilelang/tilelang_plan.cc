#include "services/worker/cuda/language/tilelang/tilelang_plan.h"

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/domain/launch_argument.h"
#include "services/worker/cuda/compiler/wire.h"

namespace kernelcast::worker {
namespace {

using compiler_wire::Decoder;
using compiler_wire::Encoder;

constexpr size_t kMaxWhenBytes = 1000;

// The values of an axis that are known, and the ends of its range.
std::set<int64_t> ValuesOf(const Axis& axis, const ProblemTarget& target) {
  std::set<int64_t> values;
  // A task may have no others than the known ones.
  if (axis.held_out_low <= axis.held_out_high) values = {axis.held_out_low, axis.held_out_high};
  for (const auto* shapes : {&target.check_shapes, &target.bench_shapes}) {
    for (const AxisValues& shape : *shapes) values.insert(shape.at(axis.name));
  }
  return values;
}

std::string IsShape(const AxisValues& shape, const AxisValues& constants) {
  std::vector<std::string> equal;
  for (const auto& [name, value] : shape) {
    if (!constants.contains(name)) equal.push_back(absl::StrCat(name, "==", value));
  }
  return absl::StrJoin(equal, " && ");
}

// 0: it has none at these axes.
uint64_t ElementsOf(const TensorSpec& tensor, const Problem& problem, const AxisValues& axes) {
  if (axes.size() < problem.axes.size()) return 0;
  const auto shape = TensorShape(tensor, axes);
  if (!shape.ok()) return 0;
  uint64_t elements = 1;
  for (const int64_t size : *shape) elements *= static_cast<uint64_t>(size);
  return elements;
}

// As TVM names it.
std::string ElementType(DataType dtype) {
  return absl::StrCat(std::string(Name(dtype)), dtype == DataType::kFloat8E4m3 ? "fn" : "");
}

}  // namespace

std::vector<TilelangVariant> PlanTilelang(const Problem& problem, const ProblemTarget& target) {
  AxisValues constants;
  for (const Axis& axis : problem.axes) {
    const std::set<int64_t> values = ValuesOf(axis, target);
    if (values.size() == 1) constants[axis.name] = *values.begin();
  }
  TilelangVariant others{constants, ""};
  std::vector<TilelangVariant> variants;
  for (const AxisValues& shape : target.bench_shapes) {
    const std::string is_shape = IsShape(shape, constants);
    const std::string is_other =
        absl::StrCat(others.when, others.when.empty() ? "" : " && ", "(", is_shape, ")==0");
    if (is_shape.empty() || variants.size() == kMaxTilelangShapes ||
        is_other.size() > kMaxWhenBytes) {
      break;
    }
    TilelangVariant variant{shape, is_shape};
    if (std::ranges::find(variants, variant) != variants.end()) continue;
    variants.push_back(std::move(variant));
    others.when = is_other;
  }
  variants.push_back(std::move(others));
  return variants;
}

std::string EncodeTilelangRequest(const Problem& problem, const ProblemTarget& target,
                                  const std::vector<TilelangVariant>& variants,
                                  uint64_t architecture, std::string_view source) {
  Encoder encoder;
  encoder.Number(architecture).Text(source);
  encoder.Number(problem.inputs.size() + problem.outputs.size());
  for (const auto* tensors : {&problem.inputs, &problem.outputs}) {
    for (const TensorSpec& tensor : *tensors) {
      encoder.Text(tensor.name).Text(ElementType(tensor.dtype));
    }
  }
  encoder.Number(variants.size());
  for (const TilelangVariant& variant : variants) {
    encoder.Number(problem.axes.size());
    for (const Axis& axis : problem.axes) {
      const auto fixed = variant.fixed.find(axis.name);
      const int64_t largest = *ValuesOf(axis, target).rbegin();
      encoder.Text(axis.name)
          .Text(Name(largest <= INT32_MAX ? ScalarType::kInt32 : ScalarType::kInt64))
          .Number(fixed == variant.fixed.end() ? 0 : static_cast<uint64_t>(fixed->second));
    }
    for (const auto* tensors : {&problem.inputs, &problem.outputs}) {
      for (const TensorSpec& tensor : *tensors) {
        encoder.Number(ElementsOf(tensor, problem, variant.fixed));
      }
    }
  }
  return encoder.TakeFields();
}

absl::StatusOr<LoweredTilelang> DecodeTilelangReply(std::string_view fields,
                                                    const std::vector<TilelangVariant>& variants) {
  Decoder decoder(fields);
  LoweredTilelang lowered;
  lowered.source = decoder.Text();
  const uint64_t count = decoder.Count();
  for (uint64_t i = 0; i < count && i < variants.size(); ++i) {
    Launch& launch = lowered.launches.emplace_back();
    launch.when = variants[i].when;
    launch.kernel = decoder.Text();
    for (auto* const extent : {&launch.grid, &launch.block}) {
      for (int d = 0; d < 3; ++d) extent->emplace_back(decoder.Text());
    }
    launch.shared_memory_bytes = decoder.Text();
    for (uint64_t left = decoder.Count(); left > 0; --left) {
      launch.arguments.emplace_back(decoder.Text());
    }
  }
  if (!decoder.done() || count != variants.size()) {
    return absl::InvalidArgumentError("the source has changed what the compiler returns");
  }
  return lowered;
}

}  // namespace kernelcast::worker
