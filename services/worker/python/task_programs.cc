#include "services/worker/python/task_programs.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/domain/python_task.h"
#include "common/domain/text.h"
#include "nlohmann/json.hpp"

namespace kernelcast::worker {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDescribedCases = 96;
constexpr size_t kMaxTreeDepth = 16;

// A tensor of a description.
struct Described {
  std::string name;
  TensorLayout layout;
  std::vector<int64_t> strides;  // empty: row-major
};

// Values in trees other than texts and null.
struct DescribedValues {
  std::vector<Described> tensors;
  AxisValues integers;
};

std::string DescribedName(const Json& json, const std::string& default_name) {
  if (json.contains("name") && json["name"].is_string()) {
    std::string name = json["name"].get<std::string>();
    if (IsIdentifier(name)) return name;
  }
  return default_name;
}

absl::StatusOr<Described> ReadTensor(const Json& json, const std::string& default_name) {
  Described tensor;
  tensor.name = DescribedName(json, default_name);
  if (!json["dtype"].is_string() || !json.contains("shape") || !json["shape"].is_array()) {
    return UnsupportedTask(absl::StrCat("gave no description of ", tensor.name));
  }
  const absl::StatusOr<DataType> dtype = ParseTorchType(json["dtype"].get<std::string>());
  if (!dtype.ok()) {
    return UnsupportedTask(absl::StrCat(
        "has ", tensor.name, " of ", json["dtype"].get<std::string>(), ", which is not supported"));
  }
  tensor.layout.dtype = *dtype;
  if (json["shape"].size() > kMaxTaskDimensions) {
    return UnsupportedTask(absl::StrCat("has ", tensor.name, " of ", json["shape"].size(),
                                        " dimensions; at most ", kMaxTaskDimensions));
  }
  int64_t elements = 1;
  for (const Json& size : json["shape"]) {
    const int64_t extent = size.is_number_unsigned() ? size.get<int64_t>() : 0;
    if (extent < 1 || extent > kMaxTensorElements / elements) {
      return UnsupportedTask(absl::StrCat("has ", tensor.name, " of shape ", json["shape"].dump(),
                                          "; tensors have 1 to ", kMaxTensorElements, " elements"));
    }
    elements *= extent;
    tensor.layout.shape.push_back(extent);
  }
  if (json.contains("strides") && json["strides"].is_array() &&
      json["strides"].size() == tensor.layout.shape.size()) {
    for (const Json& stride : json["strides"]) {
      tensor.strides.push_back(stride.is_number_integer() ? stride.get<int64_t>() : 0);
    }
  }
  return tensor;
}

// The name of what a value holds, as PyTorch's expression with underscores: data[0] is data_0.
std::string NameOfPart(const std::string& name, const Json& key) {
  return absl::StrCat(name, "_", key.is_string() ? key.get<std::string>() : key.dump());
}

// Adds the values of a tree (task_values.py), in its order.
absl::Status ReadTree(const Json& tree, const std::string& name, size_t depth,
                      DescribedValues& values) {
  if (!tree.is_object() || depth > kMaxTreeDepth || values.tensors.size() > kMaxTaskTensors) {
    return UnsupportedTask(absl::StrCat("gave no description of ", name));
  }
  if (tree.contains("dtype")) {
    KC_ASSIGN_OR_RETURN(values.tensors.emplace_back(), ReadTensor(tree, name));
    return absl::OkStatus();
  }
  if (const auto value = tree.find("value"); value != tree.end()) {
    if (value->is_boolean()) values.integers[name] = value->get<bool>() ? 1 : 0;
    if (value->is_number_integer()) values.integers[name] = value->get<int64_t>();
    return absl::OkStatus();
  }
  for (const char* const kind : {"tuple", "list", "dict", "fields"}) {
    if (!tree.contains(kind)) continue;
    if (!tree[kind].is_array())
      return UnsupportedTask(absl::StrCat("gave no description of ", name));
    const bool has_keys = std::string_view(kind) == "dict" || std::string_view(kind) == "fields";
    size_t index = 0;
    for (const Json& item : tree[kind]) {
      const bool keyed = has_keys && item.is_array() && item.size() == 2;
      KC_RETURN_IF_ERROR(ReadTree(keyed ? item[1] : item,
                                  NameOfPart(name, keyed ? item[0] : Json(index++)), depth + 1,
                                  values));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<DescribedValues> ReadTrees(const Json& description, const char* field,
                                          const std::string& name) {
  if (!description.is_object() || !description.contains(field) || !description[field].is_array()) {
    return UnsupportedTask(absl::StrCat("gave no description of its ", field));
  }
  DescribedValues values;
  size_t index = 0;
  for (const Json& tree : description[field]) {
    const std::string own =
        DescribedName(tree.is_object() ? tree : Json::object(), absl::StrCat(name, index++));
    KC_RETURN_IF_ERROR(ReadTree(tree, own, 0, values));
  }
  return values;
}

absl::StatusOr<TensorSpec> SpecOf(const Described& described) {
  TensorSpec spec;
  spec.name = described.name;
  spec.dtype = described.layout.dtype;
  for (const int64_t extent : described.layout.shape) {
    KC_ASSIGN_OR_RETURN(spec.shape.emplace_back(), Expression::Parse(absl::StrCat(extent), {}));
  }
  return spec;
}

// The description's rules for rounding, by output.
std::vector<std::optional<double>> ReadNoise(const Json& description, size_t outputs) {
  std::vector<std::optional<double>> found(outputs);
  if (!description.contains("noise") || !description["noise"].is_array()) return found;
  const Json& noise = description["noise"];
  for (size_t i = 0; i < outputs && i < noise.size(); ++i) {
    if (noise[i].is_number() && noise[i].get<double>() >= 0) found[i] = noise[i].get<double>();
  }
  return found;
}

// What the description says about the reference's own error in an output.
std::optional<Tolerance::OwnError> ReadOwnError(const Json& description, size_t output) {
  const auto all = description.find("own_errors");
  if (all == description.end() || !all->is_array() || output >= all->size()) return std::nullopt;
  const Json& own = (*all)[output];
  const auto is_error = [](const Json& value) {
    return value.is_number() && value.get<double>() >= 0;
  };
  if (!own.is_array() || own.size() != 2 || !is_error(own[0]) || !is_error(own[1])) {
    return std::nullopt;
  }
  return Tolerance::OwnError{own[0].get<double>(), own[1].get<double>()};
}

double DeclaredAmount(const Json& description, const char* field) {
  if (!description.contains(field) || !description[field].is_number()) return 0;
  return std::clamp(description[field].get<double>(), 0.0, 1e18);
}

// The axes that a held-out case of a task names.
absl::StatusOr<AxisValues> ReadAxes(const Json& json) {
  AxisValues axes;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number_unsigned()) return UnsupportedTask("gave sizes that are no numbers");
    axes[name] = value.get<int64_t>();
  }
  return axes;
}

std::vector<TensorLayout> LayoutsOf(const std::vector<Described>& tensors) {
  std::vector<TensorLayout> layouts;
  for (const Described& tensor : tensors) layouts.push_back(tensor.layout);
  return layouts;
}

// The elements of tensors, which a field has as base64; floating-point ones are float64 if `wide`.
// Returns nullopt if they have other sizes.
std::optional<std::vector<std::string>> ElementsOf(const Json& call, const char* field,
                                                   const std::vector<TensorLayout>& layouts,
                                                   bool wide) {
  if (!call.contains(field) || !call[field].is_array() || call[field].size() != layouts.size()) {
    return std::nullopt;
  }
  std::vector<std::string> all;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const Json& text = call[field][i];
    const int64_t size = wide && IsFloat(layouts[i].dtype) ? SizeBytes(DataType::kFloat64)
                                                           : SizeBytes(layouts[i].dtype);
    if (!text.is_string() || !absl::Base64Unescape(text.get<std::string>(), &all.emplace_back()) ||
        std::ssize(all.back()) != layouts[i].elements() * size) {
      return std::nullopt;
    }
  }
  return all;
}

Json ProgramOf(const Problem& problem, const char* role) {
  Json json;
  json["role"] = role;
  json["format"] = Name(problem.task->format);
  json["task"] = problem.task->source;
  json["details"] = problem.task->details;
  return json;
}

}  // namespace

std::optional<WrongResult::Cause> WrongFormOf(int exit_code) {
  switch (exit_code) {
    case 114: return WrongResult::Cause::kForm;
    case 117: return WrongResult::Cause::kShape;
    case 118: return WrongResult::Cause::kDtype;
    default: return std::nullopt;
  }
}

absl::StatusOr<DataType> ParseTorchType(const std::string& name) {
  if (name == "bool") return DataType::kUint8;
  if (name == "float8_e4m3fn") return DataType::kFloat8E4m3;
  return ParseDataType(name);
}

std::vector<MeasurementNote> NotesOf(int64_t flags) {
  std::vector<MeasurementNote> notes;
  if ((flags & kNeverChanges) != 0) notes.push_back(MeasurementNote::kInputsNeverChange);
  if ((flags & kFewValues) != 0) notes.push_back(MeasurementNote::kFewInputValues);
  if ((flags & kOnlyScaled) != 0) notes.push_back(MeasurementNote::kInputsOnlyScaled);
  return notes;
}

absl::Status UnsupportedTask(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat("the task ", what));
}

PythonProgram PythonTaskPrograms::DescribeProgram(const Problem& problem, uint64_t held_out_seed) {
  Json json = ProgramOf(problem, "describe");
  // Processes of candidates do not get it.
  json["held_out_seed"] = held_out_seed;
  json["candidate"] = "";
  json["description_bytes"] = kDescriptionBytes;
  json["cases"] = Json::array();
  json["calls"] = Json::array();
  return {json.dump()};
}

PythonProgram PythonTaskPrograms::Make(const char* role, const std::string& candidate,
                                       const Calls& calls) const {
  Json json = ProgramOf(problem_, role);
  json["candidate"] = candidate;
  json["cases"] = Json::array();
  for (const TaskCase& one : cases_) json["cases"].push_back(ParseBoundedJson(one.description));
  json["calls"] = calls;
  return {json.dump()};
}

std::string PythonTaskPrograms::CandidateSourceOf(const std::string& program) {
  const Json json = ParseBoundedJson(program);
  const auto found = json.is_object() ? json.find("candidate") : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

PythonProgram PythonTaskPrograms::ProgramFor(const kernelcast::Candidate& candidate,
                                             const Calls& calls) const {
  if (candidate.source != problem_.task->source) return Candidate(candidate.source, calls);
  const bool compiled =
      std::ranges::find(candidate.flags, kTorchCompileFlag) != candidate.flags.end();
  return compiled ? CompiledReference(calls) : Reference(calls);
}

PythonTaskPrograms::Calls PythonTaskPrograms::AllCalls() const {
  Calls calls(cases_.size());
  std::iota(calls.begin(), calls.end(), size_t{0});
  return calls;
}

size_t PythonTaskPrograms::IndexOf(const AxisValues& axes) const {
  const auto found = std::ranges::find(cases_, axes, &TaskCase::axes);
  return static_cast<size_t>(found - cases_.begin());
}

uint64_t PythonTaskPrograms::MostCallBytes() const {
  uint64_t most = 0;
  for (const TaskCase& one : cases_) {
    uint64_t bytes = 0;
    for (const auto* layouts : {&one.inputs, &one.outputs}) {
      for (const TensorLayout& layout : *layouts) bytes += static_cast<uint64_t>(layout.bytes());
    }
    most = std::max(most, bytes);
  }
  return most;
}

std::vector<CaseSpec> PythonTaskPrograms::CorrectnessCases(int least) const {
  const ProblemTarget& target = problem_.targets.at(std::string(kCpuTargetName));
  std::vector<CaseSpec> specs;
  for (const AxisValues& axes : target.check_shapes) specs.push_back({.axes = axes});
  for (const TaskCase& one : cases_) {
    if (one.held_out) specs.push_back({.axes = one.axes, .held_out = true});
  }
  for (const AxisValues& axes : target.bench_shapes) specs.push_back({.axes = axes});
  for (size_t i = 0; std::ssize(specs) < least; ++i) specs.push_back({.axes = specs[i].axes});
  return specs;
}

absl::Status PythonTaskPrograms::AddCase(const std::string& description) {
  const Json json = ParseBoundedJson(description);
  TaskCase one;
  one.description = description;
  KC_ASSIGN_OR_RETURN(DescribedValues given_values, ReadTrees(json, "inputs", "input"));
  KC_ASSIGN_OR_RETURN(const DescribedValues results, ReadTrees(json, "outputs", "output"));
  const std::vector<Described>& inputs = given_values.tensors;
  const std::vector<Described>& outputs = results.tensors;
  if (outputs.empty()) return UnsupportedTask("gave no description of its inputs and outputs");
  // The checker has one more.
  if (inputs.size() + outputs.size() >= kMaxTaskTensors) {
    return UnsupportedTask(absl::StrCat("has ", inputs.size() + outputs.size(),
                                        " inputs and outputs; at most ", kMaxTaskTensors - 1));
  }
  one.inputs = LayoutsOf(inputs);
  one.outputs = LayoutsOf(outputs);
  for (const Described& input : inputs) {
    one.input_names.push_back(input.name);
    one.strides.push_back(input.strides);
  }
  one.scalars = std::move(given_values.integers);
  if (json.contains("written") && json["written"].is_array()) {
    for (const Json& index : json["written"]) {
      const size_t input = index.is_number_unsigned() ? index.get<size_t>() : inputs.size();
      if (input >= inputs.size()) return UnsupportedTask("gave no description of its inputs");
      one.written.push_back(input);
    }
  }
  for (const Described& output : outputs) one.output_names.push_back(output.name);
  const PythonTask& task = *problem_.task;
  // Held-out cases come last and have the rule of the first.
  one.held_out = cases_.size() >= task.cases.size();
  PythonTask::Case given = one.held_out ? task.cases.front() : task.cases[cases_.size()];
  if (one.held_out) {
    if (!json.contains("axes") || !json["axes"].is_object()) {
      return UnsupportedTask("gave more cases than it lists");
    }
    KC_ASSIGN_OR_RETURN(given.axes, ReadAxes(json["axes"]));
    // One that the task lists, or drawn twice.
    if (IndexOf(given.axes) != cases_.size()) return absl::OkStatus();
  }
  one.axes = given.axes;
  for (const TensorLayout& output : one.outputs) {
    Tolerance& tolerance = one.tolerances.emplace_back();
    if (!IsFloat(output.dtype)) continue;
    tolerance = TaskTolerance(task, given, output.dtype);
    if (!HasChecker(task.format) && !task.task_rules_only) {
      tolerance.own_error = ReadOwnError(json, one.tolerances.size() - 1);
    }
  }
  // The rule against trivial answers is silent without it.
  one.noise = task.task_rules_only ? std::vector<std::optional<double>>(one.outputs.size())
                                   : ReadNoise(json, one.outputs.size());
  one.bytes = DeclaredAmount(json, "bytes");
  one.flops = DeclaredAmount(json, "flops");
  if (cases_.empty()) {
    for (const Described& input : inputs) {
      KC_ASSIGN_OR_RETURN(problem_.inputs.emplace_back(), SpecOf(input));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      KC_ASSIGN_OR_RETURN(problem_.outputs.emplace_back(), SpecOf(outputs[i]));
      problem_.outputs.back().tolerance = one.tolerances[i];
    }
  }
  cases_.push_back(std::move(one));
  return absl::OkStatus();
}

absl::Status PythonTaskPrograms::AddWeight(const std::string& description) {
  const Json json = ParseBoundedJson(description);
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string() ||
      !json.contains("dtype")) {
    return UnsupportedTask("gave no description of its weights");
  }
  // What device code cannot have, such as complex numbers, is not a reason to refuse the task.
  auto read = ReadTensor(json, "weight");
  if (!read.ok()) return absl::OkStatus();
  weights_.push_back({json["name"].get<std::string>(), json["dtype"].get<std::string>(),
                      std::move(read->layout), weights_bytes_});
  weights_bytes_ += static_cast<uint64_t>(weights_.back().layout.bytes());
  weights_bytes_ = (weights_bytes_ + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
  return absl::OkStatus();
}

std::shared_ptr<const std::vector<PythonTask::Call>> PythonTaskPrograms::ReadCalls(
    const std::string& text) const {
  const Json json = ParseBoundedJson(text);
  if (!json.is_array()) return nullptr;
  std::vector<PythonTask::Call> calls;
  for (const Json& one : json) {
    const bool known = one.is_object() && one.contains("case") && one["case"].is_number_unsigned();
    const size_t index = known ? one["case"].get<size_t>() : cases_.size();
    if (index >= cases_.size()) return nullptr;
    const TaskCase& of = cases_[index];
    const auto inputs = ElementsOf(one, "inputs", of.inputs, /*wide=*/false);
    const auto outputs = ElementsOf(one, "outputs", of.outputs, /*wide=*/true);
    if (!inputs || !outputs) return nullptr;
    PythonTask::Call& call = calls.emplace_back();
    call.axes = launches_.sizes[index];
    for (const TaskLaunches::Tensor& tensor : launches_.tensors) {
      // A reference with weights has other values in each process.
      if (tensor.kind == TaskLaunches::Tensor::Kind::kWeight) return nullptr;
      const size_t at = tensor.index[index];
      if (tensor.kind == TaskLaunches::Tensor::Kind::kInput) {
        call.inputs.push_back((*inputs)[at]);
      } else {
        call.outputs.push_back((*outputs)[at]);
        call.tolerances.push_back(of.tolerances[at]);
      }
    }
  }
  return std::make_shared<const std::vector<PythonTask::Call>>(std::move(calls));
}

PythonProgram PythonTaskPrograms::Weights() const {
  Json json = ProgramOf(problem_, "weights");
  json["candidate"] = "";
  json["cases"] = Json::array();
  json["calls"] = Json::array();
  json["weights"] = Json::array();
  for (const TaskWeight& weight : weights_) {
    json["weights"].push_back({{"name", weight.name},
                               {"dtype", weight.dtype},
                               {"shape", weight.layout.shape},
                               {"offset", weight.offset}});
  }
  return {json.dump()};
}

absl::StatusOr<PythonTaskPrograms> PythonTaskPrograms::Read(const Problem& problem,
                                                            const std::string& text) {
  PythonTaskPrograms task;
  task.problem_ = problem;
  const Json json = ParseBoundedJson(text.substr(0, text.find('\0')));
  if (!json.is_object() || !json.contains("cases") || !json["cases"].is_array() ||
      json["cases"].size() < problem.task->cases.size() ||
      json["cases"].size() > kMaxDescribedCases) {
    return UnsupportedTask("gave no description of its inputs and outputs");
  }
  for (const Json& one : json["cases"]) KC_RETURN_IF_ERROR(task.AddCase(one.dump()));
  if (json.contains("weights") && json["weights"].is_array()) {
    for (const Json& one : json["weights"]) KC_RETURN_IF_ERROR(task.AddWeight(one.dump()));
  }
  KC_ASSIGN_OR_RETURN(task.launches_, MakeTaskLaunches(problem, task.cases_, task.weights_));
  if (json.contains("calls")) {
    task.launches_.problem.task->calls = task.ReadCalls(json["calls"].dump());
  }
  return task;
}

}  // namespace kernelcast::worker
