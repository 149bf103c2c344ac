#include "services/worker/core/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/draw_plan.h"
#include "services/worker/core/narrow_float.h"
#include "services/worker/core/sampler.h"
#include "services/worker/core/verification.h"

namespace kernelcast::worker {
namespace {

constexpr double kLargeFactor = 1e3;
// No answer is close to those of both ranges, however wide the tolerance is.
constexpr double kLowFactor = 0.5;
constexpr double kHighFactor = 0.9;
constexpr double kFactorRange = 0.05;
// Inputs with less than this many bits have few values.
constexpr double kFewInputBits = 12;
constexpr double kExtremeValue = 1e4;
// One entry in this many is extreme.
constexpr int64_t kExtremeEvery = 256;

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
void FillDrawn(const Sampler& sampler, std::optional<Adversarial> adversarial, int64_t row_elements,
               Random& random, std::span<T> values) {
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
  // Whole numbers are positions and counts: values outside the declared range would be invalid.
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

template <class T>
void FillTyped(const Sampler& sampler, const Quantiser& quantise,
               std::optional<Adversarial> adversarial, int64_t row_elements, Random& random,
               std::span<std::byte> data) {
  const std::span<T> values(reinterpret_cast<T*>(data.data()), data.size() / sizeof(T));
  FillDrawn<T>(sampler, adversarial, row_elements, random, values);
  if (!std::is_floating_point_v<T> || !quantise.active()) {
    return;
  }
  for (T& value : values) {
    value = static_cast<T>(quantise(static_cast<double>(value)));
  }
}

// Adversarial cases do not apply to files: a file states exactly what an input may hold.
absl::Status FillFromFile(const FileValues& file, size_t element_bytes, Random& random,
                          std::span<std::byte> data) {
  const std::string& elements = *file.elements;
  const size_t held = elements.size() / element_bytes * element_bytes;
  if (held == 0 || (!file.random_start && held < data.size())) {
    return absl::InvalidArgumentError(absl::StrCat("file ", file.path, " has ", elements.size(),
                                                   " bytes of values, a tensor ", data.size()));
  }
  size_t at = file.random_start ? random.Below(held / element_bytes) * element_bytes : 0;
  for (size_t done = 0; done < data.size();) {
    const size_t part = std::min(held - at, data.size() - done);
    std::memcpy(data.data() + done, elements.data() + at, part);
    done += part;
    at = 0;
  }
  return absl::OkStatus();
}

// Kinds of sizes that kernels often handle in separate code.
enum SizeKind { kOdd, kEven, kMultiple, kPower, kBelowPower, kAbovePower, kSizeKinds };

// Returns a random element of first, first + step, ... up to last, or nullopt if there is none.
std::optional<int64_t> DrawStep(int64_t first, int64_t step, int64_t last, SecretRandom& random) {
  if (first > last) {
    return std::nullopt;
  }
  const auto count = static_cast<uint64_t>((last - first) / step) + 1;
  return first + step * static_cast<int64_t>(random.Below(count));
}

// The smallest number >= `low` that leaves `rest` when divided by `step`.
int64_t FirstWith(int64_t low, int64_t step, int64_t rest) {
  return low + ((rest - low) % step + step) % step;
}

// In units of the axis's multiple. Returns nullopt if the range has no size of this kind.
std::optional<int64_t> DrawKind(SizeKind kind, int64_t first, int64_t last, SecretRandom& random) {
  switch (kind) {
    case kOdd: return DrawStep(FirstWith(first, 2, 1), 2, last, random);
    case kEven: return DrawStep(FirstWith(first, 2, 0), 2, last, random);
    case kMultiple: {
      const int64_t step = int64_t{4} << random.Below(4);
      return DrawStep(FirstWith(first, step, 0), step, last, random);
    }
    default: break;
  }
  const int64_t shift = kind == kPower ? 0 : kind == kBelowPower ? -1 : 1;
  std::vector<int64_t> sizes;
  for (int64_t power = 2; power <= last + 1; power *= 2) {
    if (power + shift >= first && power + shift <= last) {
      sizes.push_back(power + shift);
    }
  }
  if (sizes.empty()) {
    return std::nullopt;
  }
  return sizes[random.Below(sizes.size())];
}

int64_t DrawHeldOut(const Axis& axis, SizeKind kind, SecretRandom& random) {
  const int64_t multiple = std::max<int64_t>(1, axis.multiple_of);
  const int64_t first = (axis.held_out_low + multiple - 1) / multiple;
  const int64_t last = std::max(first, axis.held_out_high / multiple);
  const std::optional<int64_t> drawn = DrawKind(kind, first, last, random);
  return multiple * (drawn ? *drawn : *DrawStep(first, 1, last, random));
}

// Returns the kind of size that an axis has in each held-out shape.
std::vector<SizeKind> DrawKinds(int shapes, SecretRandom& random) {
  std::vector<SizeKind> kinds;
  for (int i = 0; i < shapes; ++i) {
    kinds.push_back(static_cast<SizeKind>(i % kSizeKinds));
  }
  random.Shuffle(kinds);
  return kinds;
}

}  // namespace

std::string CaseSpec::distribution() const {
  const std::string_view values = adversarial ? Name(*adversarial) : std::string_view("declared");
  if (!held_out) {
    return std::string(values);
  }
  return adversarial ? absl::StrCat("held_out ", std::string(values)) : "held_out";
}

namespace {

absl::Status FillDeclared(const TensorSpec& tensor, const TensorLayout& layout,
                          const CaseSpec& spec, Random& random, std::span<std::byte> data) {
  if (const auto* file = std::get_if<FileValues>(&tensor.init)) {
    return FillFromFile(*file, static_cast<size_t>(SizeBytes(layout.dtype)), random, data);
  }
  KC_ASSIGN_OR_RETURN(const Sampler sampler, Sampler::Make(tensor.init, spec.axes));
  const Quantiser quantise(tensor.quantisation);
  std::optional<Adversarial> adversarial;
  if (spec.adversarial && std::find(tensor.adversarial.begin(), tensor.adversarial.end(),
                                    *spec.adversarial) != tensor.adversarial.end()) {
    adversarial = spec.adversarial;
  }
  const int64_t row = layout.row_elements();
  switch (layout.dtype) {
    case DataType::kFloat32:
      FillTyped<float>(sampler, quantise, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kFloat64:
      FillTyped<double>(sampler, quantise, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kInt32:
      FillTyped<int32_t>(sampler, quantise, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kInt64:
      FillTyped<int64_t>(sampler, quantise, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kInt8:
      FillTyped<int8_t>(sampler, quantise, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kUint8:
      FillTyped<uint8_t>(sampler, quantise, adversarial, row, random, data);
      return absl::OkStatus();
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2: {
      std::vector<float> values(static_cast<size_t>(layout.elements()));
      FillTyped<float>(sampler, quantise, adversarial, row, random,
                       std::as_writable_bytes(std::span(values)));
      const auto size = static_cast<size_t>(SizeBytes(layout.dtype));
      for (size_t i = 0; i < values.size(); ++i) {
        const uint32_t bits = EncodeNarrow(layout.dtype, values[i]);
        std::memcpy(data.data() + i * size, &bits, size);
      }
      return absl::OkStatus();
    }
  }
  return absl::InternalError("unknown dtype");
}

void ScaleValues(DataType dtype, double factor, std::span<std::byte> data) {
  std::vector<double> values = Elements(dtype, data);
  const bool whole = std::ranges::all_of(
      values, [](double value) { return !std::isfinite(value) || value == std::rint(value); });
  if (whole) return;
  const auto size = static_cast<size_t>(SizeBytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* const to = data.data() + i * size;
    const double value = factor * values[i];
    if (dtype == DataType::kFloat64) {
      std::memcpy(to, &value, size);
    } else if (dtype == DataType::kFloat32) {
      const auto narrow = static_cast<float>(value);
      std::memcpy(to, &narrow, size);
    } else {
      const uint32_t bits = EncodeNarrow(dtype, value);
      std::memcpy(to, &bits, size);
    }
  }
}

bool IsFixed(const TensorSpec& tensor) {
  const auto* const file = std::get_if<FileValues>(&tensor.init);
  return std::holds_alternative<Constant>(tensor.init) || (file != nullptr && !file->random_start);
}

bool IsFixed(const Problem& problem) {
  return !problem.task && std::ranges::all_of(problem.inputs, [](const TensorSpec& tensor) {
    return IsFixed(tensor);
  });
}

// Logarithm to base 2 of how many values an input may have.
double ChoiceBits(const TensorSpec& tensor, const AxisValues& axes) {
  if (IsFixed(tensor)) return 0;
  const auto layouts = Layouts({tensor}, axes);
  if (!layouts.ok()) return HUGE_VAL;
  const auto elements = static_cast<double>(layouts->front().elements());
  if (const auto* const file = std::get_if<FileValues>(&tensor.init)) {
    const auto starts =
        static_cast<double>(file->elements->size()) / static_cast<double>(SizeBytes(tensor.dtype));
    return elements > 0 ? std::log2(std::max(1.0, starts)) : 0;
  }
  if (elements == 0) return 0;
  const auto* const integers = std::get_if<Integers>(&tensor.init);
  if (integers == nullptr) return HUGE_VAL;
  const Variables variables = ToVariables(axes);
  const auto low = integers->low.Evaluate(variables);
  const auto high = integers->high.Evaluate(variables);
  if (!low.ok() || !high.ok()) return HUGE_VAL;
  return elements * std::log2(std::max(1.0, *high - *low + 1));
}

bool FactorChanges(const TensorSpec& tensor, const AxisValues& axes) {
  const auto layouts = Layouts({tensor}, axes);
  if (!layouts.ok()) return false;
  std::string values[2];
  for (const double factor : {kHighFactor, 1.0}) {
    std::string& data = values[factor == 1];
    data.resize(static_cast<size_t>(layouts->front().bytes()));
    Random random(0);
    if (!FillInput(tensor, layouts->front(), {.axes = axes, .factor = factor}, random,
                   std::as_writable_bytes(std::span(data)))
             .ok()) {
      return false;
    }
  }
  return values[0] != values[1];
}

}  // namespace

absl::Status FillInput(const TensorSpec& tensor, const TensorLayout& layout, const CaseSpec& spec,
                       Random& random, std::span<std::byte> data) {
  KC_RETURN_IF_ERROR(FillDeclared(tensor, layout, spec, random, data));
  if (spec.factor != 1 && IsFloat(layout.dtype)) ScaleValues(layout.dtype, spec.factor, data);
  return absl::OkStatus();
}

bool ElementsAreIndependent(const TensorSpec& tensor) {
  return !std::holds_alternative<FileValues>(tensor.init);
}

bool CanAlter(const Problem& problem) {
  return !problem.task && std::ranges::any_of(problem.inputs, [](const TensorSpec& tensor) {
    return ElementsAreIndependent(tensor) && !IsFixed(tensor);
  });
}

double InputFactor(const Problem& problem, SecretRandom& random) {
  if (!IsFixed(problem)) return 1;
  constexpr uint64_t kSteps = uint64_t{1} << 32;
  const double least = random.Below(2) == 0 ? kLowFactor : kHighFactor;
  return least + kFactorRange * static_cast<double>(random.Below(kSteps)) / kSteps;
}

std::vector<MeasurementNote> InputNotes(const Problem& problem, const ProblemTarget& target) {
  if (target.bench_shapes.empty()) return {};
  if (IsFixed(problem)) {
    const bool scaled = std::ranges::any_of(problem.inputs, [&](const TensorSpec& tensor) {
      return FactorChanges(tensor, target.bench_shapes.front());
    });
    return {scaled ? MeasurementNote::kInputsOnlyScaled : MeasurementNote::kInputsNeverChange};
  }
  for (const AxisValues& axes : target.bench_shapes) {
    double bits = 0;
    for (const TensorSpec& tensor : problem.inputs) bits += ChoiceBits(tensor, axes);
    if (bits < kFewInputBits) return {MeasurementNote::kFewInputValues};
  }
  return {};
}

void AlterInputs(const std::vector<TensorSpec>& tensors, const std::vector<std::string>& other,
                 Random& random, std::vector<std::string>& inputs) {
  for (size_t t = 0; t < inputs.size(); ++t) {
    if (!ElementsAreIndependent(tensors[t])) continue;
    const auto size = static_cast<size_t>(SizeBytes(tensors[t].dtype));
    const size_t elements = inputs[t].size() / size;
    for (size_t i = 0; i < elements / static_cast<size_t>(kAlteredEvery) + 1; ++i) {
      const size_t at = random.Below(elements) * size;
      inputs[t].replace(at, size, other[t], at, size);
    }
  }
}

std::vector<CaseSpec> CorrectnessCases(const Problem& problem, const ProblemTarget& target,
                                       const MeasureOptions& options, SecretRandom& random) {
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
  std::vector<std::vector<SizeKind>> kinds;
  for (size_t axis = 0; axis < problem.axes.size(); ++axis) {
    kinds.push_back(DrawKinds(options.held_out_shapes, random));
  }
  for (int i = 0; i < options.held_out_shapes; ++i) {
    CaseSpec held_out{.held_out = true};
    for (size_t axis = 0; axis < problem.axes.size(); ++axis) {
      held_out.axes[problem.axes[axis].name] =
          DrawHeldOut(problem.axes[axis], kinds[axis][static_cast<size_t>(i)], random);
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
