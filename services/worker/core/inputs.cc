#include "services/worker/core/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/narrow_float.h"

namespace kernelcast::worker {
namespace {

constexpr double kLargeFactor = 1e3;
constexpr double kExtremeValue = 1e4;
// One entry in so many is extreme.
constexpr int64_t kExtremeEvery = 256;
// One value in so many is replaced where inputs are altered.
constexpr size_t kAlteredEvery = 128;

// Draws values of a declared distribution.
class Sampler {
 public:
  static absl::StatusOr<Sampler> Make(const InitDistribution& init, const AxisValues& axes) {
    Sampler sampler;
    if (const auto* normal = std::get_if<Normal>(&init)) {
      sampler.kind_ = Kind::kNormal;
      sampler.a_ = normal->mean;
      sampler.b_ = normal->stddev;
    } else if (const auto* uniform = std::get_if<Uniform>(&init)) {
      sampler.kind_ = Kind::kUniform;
      sampler.a_ = uniform->low;
      sampler.b_ = uniform->high;
    } else if (const auto* integers = std::get_if<Integers>(&init)) {
      sampler.kind_ = Kind::kIntegers;
      const Variables variables = ToVariables(axes);
      constexpr int64_t kLimit = int64_t{1} << 53;
      KC_ASSIGN_OR_RETURN(sampler.low_, integers->low.EvaluateInteger(variables, -kLimit, kLimit));
      KC_ASSIGN_OR_RETURN(sampler.high_,
                          integers->high.EvaluateInteger(variables, sampler.low_, kLimit));
    } else {
      sampler.kind_ = Kind::kConstant;
      sampler.a_ = std::get<Constant>(init).value;
    }
    return sampler;
  }

  double Real(Random& random) const {
    switch (kind_) {
      case Kind::kNormal: return a_ + b_ * random.Normal();
      case Kind::kUniform: return a_ + (b_ - a_) * random.Uniform();
      case Kind::kIntegers: return static_cast<double>(Whole(random));
      case Kind::kConstant: return a_;
    }
    return 0;
  }

  int64_t Whole(Random& random) const {
    if (kind_ == Kind::kIntegers) {
      return low_ + static_cast<int64_t>(random.Below(static_cast<uint64_t>(high_ - low_) + 1));
    }
    return static_cast<int64_t>(std::llround(Real(random)));
  }

 private:
  enum class Kind { kNormal, kUniform, kIntegers, kConstant };

  Kind kind_ = Kind::kConstant;
  double a_ = 0;
  double b_ = 0;
  int64_t low_ = 0;
  int64_t high_ = 0;
};

template <class T>
T Draw(const Sampler& sampler, Random& random) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(sampler.Real(random));
  } else {
    const int64_t value = sampler.Whole(random);
    return static_cast<T>(
        std::clamp<int64_t>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
}

template <class T>
void FillTyped(const Sampler& sampler, std::optional<Adversarial> adversarial, int64_t row_elements,
               Random& random, std::span<std::byte> data) {
  const std::span<T> values(reinterpret_cast<T*>(data.data()), data.size() / sizeof(T));
  if (adversarial == Adversarial::kEqualRows) {
    const int64_t row = std::max<int64_t>(1, row_elements);
    T value{};
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % static_cast<size_t>(row) == 0) {
        value = Draw<T>(sampler, random);
      }
      values[i] = value;
    }
    return;
  }
  for (T& value : values) {
    value = Draw<T>(sampler, random);
  }
  // Whole numbers are positions and counts: out of their declared range they would not be inputs.
  if (!adversarial || (!std::is_floating_point_v<T> && *adversarial != Adversarial::kZeros)) {
    return;
  }
  switch (*adversarial) {
    case Adversarial::kLarge:
      for (T& value : values) {
        value = static_cast<T>(value * static_cast<T>(kLargeFactor));
      }
      break;
    case Adversarial::kZeros:
      for (T& value : values) {
        if (random.Next() & 1) {
          value = T{0};
        }
      }
      break;
    case Adversarial::kExtreme: {
      const auto size = static_cast<int64_t>(values.size());
      const int64_t extreme = std::max<int64_t>(1, size / kExtremeEvery);
      for (int64_t i = 0; i < extreme; ++i) {
        values[random.Below(values.size())] =
            static_cast<T>((random.Next() & 1) ? kExtremeValue : -kExtremeValue);
      }
      break;
    }
    case Adversarial::kEqualRows: break;
  }
}

int64_t DrawHeldOut(const Axis& axis, Random& random) {
  const int64_t multiple = std::max<int64_t>(1, axis.multiple_of);
  const int64_t first = (axis.held_out_low + multiple - 1) / multiple;
  const int64_t last = std::max(first, axis.held_out_high / multiple);
  int64_t value =
      first + static_cast<int64_t>(random.Below(static_cast<uint64_t>(last - first) + 1));
  if (multiple == 1 && value % 2 == 0) {
    value = value < last ? value + 1 : std::max(first, value - 1);
  }
  return value * multiple;
}

}  // namespace

std::string CaseSpec::distribution() const {
  const std::string_view values = adversarial ? Name(*adversarial) : std::string_view("declared");
  if (!held_out) {
    return std::string(values);
  }
  return adversarial ? absl::StrCat("held_out ", std::string(values)) : "held_out";
}

absl::Status FillInput(const TensorSpec& tensor, const TensorLayout& layout, const CaseSpec& spec,
                       Random& random, std::span<std::byte> data) {
  KC_ASSIGN_OR_RETURN(const Sampler sampler, Sampler::Make(tensor.init, spec.axes));
  std::optional<Adversarial> adversarial;
  if (spec.adversarial && std::find(tensor.adversarial.begin(), tensor.adversarial.end(),
                                    *spec.adversarial) != tensor.adversarial.end()) {
    adversarial = spec.adversarial;
  }
  const int64_t row = layout.row_elements();
  switch (layout.dtype) {
    case DataType::kFloat32:
      FillTyped<float>(sampler, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kFloat64:
      FillTyped<double>(sampler, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kInt32:
      FillTyped<int32_t>(sampler, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kInt64:
      FillTyped<int64_t>(sampler, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kInt8:
      FillTyped<int8_t>(sampler, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kUint8:
      FillTyped<uint8_t>(sampler, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2: {
      std::vector<float> values(static_cast<size_t>(layout.elements()));
      FillTyped<float>(sampler, adversarial, row, random,
                       std::as_writable_bytes(std::span(values)));
      const auto size = static_cast<size_t>(SizeBytes(layout.dtype));
      for (size_t i = 0; i < values.size(); ++i) {
        const uint32_t bits = EncodeNarrow(layout.dtype, values[i]);
        std::memcpy(data.data() + i * size, &bits, size);
      }
      return absl::OkStatus();
    }
  }
  return absl::InternalError("a dtype of no kind");
}

void AlterInputs(const std::vector<TensorSpec>& tensors, const std::vector<std::string>& other,
                 Random& random, std::vector<std::string>& inputs) {
  for (size_t t = 0; t < inputs.size(); ++t) {
    const auto size = static_cast<size_t>(SizeBytes(tensors[t].dtype));
    const size_t elements = inputs[t].size() / size;
    for (size_t i = 0; i < elements / kAlteredEvery + 1; ++i) {
      const size_t at = random.Below(elements) * size;
      inputs[t].replace(at, size, other[t], at, size);
    }
  }
}

std::vector<CaseSpec> CorrectnessCases(const Problem& problem, const ProblemTarget& target,
                                       const MeasureOptions& options, Random& random) {
  std::vector<Adversarial> adversarial;
  for (const TensorSpec& input : problem.inputs) {
    for (const Adversarial distribution : input.adversarial) {
      if (std::find(adversarial.begin(), adversarial.end(), distribution) == adversarial.end()) {
        adversarial.push_back(distribution);
      }
    }
  }

  std::vector<CaseSpec> cases;
  for (const AxisValues& shape : target.check_shapes) {
    cases.push_back({.axes = shape});
    for (const Adversarial distribution : adversarial) {
      cases.push_back({.axes = shape, .adversarial = distribution});
    }
  }
  for (int i = 0; i < options.held_out_shapes; ++i) {
    CaseSpec held_out{.held_out = true};
    for (const Axis& axis : problem.axes) {
      held_out.axes[axis.name] = DrawHeldOut(axis, random);
    }
    if (i > 0 && !adversarial.empty() && i == options.held_out_shapes - 1) {
      held_out.adversarial = adversarial[random.Below(adversarial.size())];
    }
    cases.push_back(std::move(held_out));
  }
  for (const AxisValues& shape : target.bench_shapes) {
    cases.push_back({.axes = shape});
  }
  const auto& repeated = target.check_shapes.empty() ? target.bench_shapes : target.check_shapes;
  for (size_t i = 0; std::ssize(cases) < options.min_seeds && !repeated.empty(); ++i) {
    cases.push_back({.axes = repeated[i % repeated.size()]});
  }
  return cases;
}

absl::StatusOr<std::vector<TensorLayout>> Layouts(const std::vector<TensorSpec>& tensors,
                                                  const AxisValues& axes) {
  std::vector<TensorLayout> layouts;
  layouts.reserve(tensors.size());
  for (const TensorSpec& tensor : tensors) {
    TensorLayout layout{.dtype = tensor.dtype};
    KC_ASSIGN_OR_RETURN(layout.shape, TensorShape(tensor, axes));
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

}  // namespace kernelcast::worker
