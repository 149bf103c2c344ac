// Definitions with workloads: the formats of flashinfer-bench and SOL-ExecBench.
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/domain/safetensors_file.h"
#include "common/domain/task_problem.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

// Keeps the order of inputs and outputs, which is that of the arguments.
using OrderedJson = nlohmann::ordered_json;
using Format = PythonTask::Format;

constexpr std::string_view kDefinitionFile = "definition.json";
constexpr std::string_view kWorkloadsFile = "workload.jsonl";
constexpr std::string_view kReferenceFile = "reference.py";
// flashinfer-bench, eval_config.yaml and bench/evaluators/lowbit.py.
constexpr double kMoeMatchedRatio = 0.95;
constexpr int64_t kMaxAxis = int64_t{1} << 40;
// Of an axis: the sizes of secret cases, [low, high] or [low, high, step]. Of a workload: whether
// it is timed. Both are for tasks that are made for Kernelcast.
constexpr const char* kHeldOut = "held_out";
constexpr const char* kTimed = "timed";

bool IsTensorFile(const ProblemFile& file) { return file.path.ends_with(kSafetensorsExtension); }

// The files besides those of tensors.
std::vector<ProblemFile> TextFiles(std::vector<ProblemFile> files) {
  std::erase_if(files, IsTensorFile);
  return files;
}

bool SameStem(const ProblemFile& definition, const ProblemFile& workloads) {
  return definition.path.ends_with(".json") && workloads.path.ends_with(".jsonl") &&
         PathStem(definition.path) == PathStem(workloads.path);
}

class DefinitionReader {
 public:
  DefinitionReader(Format format, std::string file, std::string workloads_file)
      : format_(format), file_(std::move(file)), workloads_file_(std::move(workloads_file)) {}

  absl::StatusOr<TaskParts> Read(const std::vector<ProblemFile>& files);

 private:
  absl::Status Bad(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": ", what));
  }
  absl::Status BadLine(size_t line, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(workloads_file_, ":", line, ": ", what));
  }
  absl::Status CheckDefinition() const;
  absl::Status CheckHeldOut(const std::string& name, const OrderedJson& axis) const;
  absl::Status CheckTensors(const char* field) const;
  absl::Status CheckEvaluator() const;
  // One line of the workloads' file.
  absl::Status AddWorkload(size_t line, std::string_view text);
  absl::StatusOr<AxisValues> Axes(size_t line, const OrderedJson& workload) const;
  absl::Status CheckInputs(size_t line, const OrderedJson& workload);
  // Takes a tensor of a file into the details, under its path and key.
  absl::Status TakeTensor(const OrderedJson& input);
  absl::StatusOr<Tolerance> ToleranceOf(size_t line, const OrderedJson& workload) const;
  std::string Text(const char* field) const { return StringAt(definition_, field); }

  const Format format_;
  const std::string file_;
  const std::string workloads_file_;
  OrderedJson definition_;
  TaskParts parts_;
  OrderedJson cases_ = OrderedJson::array();
  const std::vector<ProblemFile>* files_ = nullptr;
  OrderedJson tensors_ = OrderedJson::object();  // by path and key
};

absl::Status DefinitionReader::CheckTensors(const char* field) const {
  const auto tensors = definition_.find(field);
  if (tensors == definition_.end() || !tensors->is_object() || tensors->empty()) {
    return Bad(absl::StrCat(field, ": expected an object of tensors"));
  }
  for (const auto& [name, tensor] : tensors->items()) {
    const bool has_form = tensor.is_object() && tensor.contains("shape") &&
                          (tensor["shape"].is_null() || tensor["shape"].is_array()) &&
                          tensor.contains("dtype") && tensor["dtype"].is_string();
    if (!has_form) {
      return Bad(absl::StrCat(field, ".", Quoted(name), ": expected a shape and a dtype"));
    }
  }
  return absl::OkStatus();
}

// Definitions that flashinfer-bench judges by rules of their own.
absl::Status DefinitionReader::CheckEvaluator() const {
  if (Text("op_type") == "sampling") {
    return Bad("op_type: sampling is judged by the distribution of many calls, not supported");
  }
  const std::string name = Text("name");
  if (absl::StartsWith(name, "dsa_topk_indexer") ||
      absl::StartsWith(name, "dsa_sparse_attention_h16_ckv512_kpe64")) {
    return Bad("name: flashinfer-bench has a checker for this definition alone, not supported");
  }
  return absl::OkStatus();
}

absl::Status DefinitionReader::CheckHeldOut(const std::string& name,
                                            const OrderedJson& axis) const {
  if (format_ != Format::kSolExecBench || !axis.contains(kHeldOut)) return absl::OkStatus();
  const OrderedJson& range = axis[kHeldOut];
  bool good = axis["type"] == "var" && range.is_array() && (range.size() == 2 || range.size() == 3);
  for (size_t i = 0; good && i < range.size(); ++i) {
    good = range[i].is_number_unsigned() && range[i] >= 1 && range[i] <= kMaxAxis;
  }
  if (good && range[0] <= range[1]) return absl::OkStatus();
  return Bad(absl::StrCat("axes.", Quoted(name), ".", kHeldOut,
                          ": expected [low, high] or [low, high, step], of an axis of type var"));
}

absl::Status DefinitionReader::CheckDefinition() const {
  for (const char* const field : {"name", "reference"}) {
    if (Text(field).empty()) return Bad(absl::StrCat(field, ": expected a text"));
  }
  const auto axes = definition_.find("axes");
  if (axes == definition_.end() || !axes->is_object()) return Bad("axes: expected an object");
  for (const auto& [name, axis] : axes->items()) {
    const bool has_form = axis.is_object() && axis.contains("type") && axis["type"].is_string();
    const std::string type = has_form ? axis["type"].get<std::string>() : "";
    const bool is_expression = type == "expr" && format_ == Format::kSolExecBench;
    if (type != "const" && type != "var" && !is_expression) {
      return Bad(absl::StrCat("axes.", Quoted(name), ".type: expected const or var",
                              format_ == Format::kSolExecBench ? " or expr" : ""));
    }
    KC_RETURN_IF_ERROR(CheckHeldOut(name, axis));
  }
  KC_RETURN_IF_ERROR(CheckTensors("inputs"));
  KC_RETURN_IF_ERROR(CheckTensors("outputs"));
  if (!HasLine(Text("reference"), "def run(")) {
    return Bad("reference: does not define run() at its top level");
  }
  KC_RETURN_IF_ERROR(CheckTaskSource(file_, Text("reference")));
  return format_ == Format::kFlashInferBench ? CheckEvaluator() : absl::OkStatus();
}

absl::StatusOr<AxisValues> DefinitionReader::Axes(size_t line, const OrderedJson& workload) const {
  AxisValues values;
  const auto given = workload.find("axes");
  for (const auto& [name, axis] : definition_["axes"].items()) {
    if (axis["type"].get<std::string>() != "var") continue;
    const bool has_value = given != workload.end() && given->is_object() && given->contains(name) &&
                           (*given)[name].is_number_unsigned();
    const int64_t value = has_value ? (*given)[name].get<int64_t>() : 0;
    if (value < 1 || value > kMaxAxis) {
      return BadLine(line, absl::StrCat("axes.", Quoted(name), ": expected a size above 0"));
    }
    values[name] = value;
  }
  return values;
}

absl::Status DefinitionReader::TakeTensor(const OrderedJson& input) {
  const std::string path = StringAt(input, "path");
  const std::string key = StringAt(input, "tensor_key");
  if (path.empty() || key.empty()) {
    return absl::InvalidArgumentError("expected a path and a tensor_key");
  }
  if (tensors_.contains(path) && tensors_[path].contains(key)) return absl::OkStatus();
  const std::string* const content = FindFile(*files_, path);
  if (content == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("file ", Quoted(path, 255), " is missing"));
  }
  const auto tensor = FindSafeTensor(*content, key);
  if (!tensor.ok()) {
    return WithPrefix(absl::StrCat("file ", Quoted(path, 255), " "), tensor.status());
  }
  tensors_[path][key] = {{"dtype", tensor->dtype},
                         {"shape", tensor->shape},
                         {"data", absl::Base64Escape(absl::string_view(tensor->elements.data(),
                                                                       tensor->elements.size()))}};
  return absl::OkStatus();
}

absl::Status DefinitionReader::CheckInputs(size_t line, const OrderedJson& workload) {
  const auto inputs = workload.find("inputs");
  if (inputs == workload.end() || !inputs->is_object()) {
    return BadLine(line, "inputs: expected an object");
  }
  for (const auto& [name, input] : inputs->items()) {
    const bool has_type = input.is_object() && input.contains("type") && input["type"].is_string();
    const std::string type = has_type ? input["type"].get<std::string>() : "";
    if (type == "safetensors") {
      const absl::Status taken = TakeTensor(input);
      if (taken.ok()) continue;
      return BadLine(line, absl::StrCat("inputs.", Quoted(name), ": ", taken.message()));
    }
    const bool custom = type == "custom" && format_ == Format::kSolExecBench;
    if (type != "random" && type != "scalar" && !custom) {
      return BadLine(line, absl::StrCat("inputs.", Quoted(name), ".type: unknown"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tolerance> DefinitionReader::ToleranceOf(size_t line,
                                                        const OrderedJson& workload) const {
  // Both projects: atol and rtol are 1e-2 by default.
  Tolerance tolerance{.atol = 1e-2, .rtol = 1e-2, .normwise = 0, .scaled = false};
  tolerance.infinities = Tolerance::Infinities::kNone;
  if (format_ == Format::kFlashInferBench) {
    tolerance.larger_of_both = true;
    const bool moe =
        Text("op_type") == "moe" || absl::StrContains(Text("name"), "moe_fp8_block_scale");
    tolerance.matched_ratio = moe ? kMoeMatchedRatio : 1;
    return tolerance;
  }
  tolerance.matched_ratio = 0.99;
  tolerance.not_all_zero = true;
  const auto given = workload.find("tolerance");
  if (given == workload.end() || given->is_null()) return tolerance;
  if (!given->is_object()) return BadLine(line, "tolerance: expected an object");
  const auto read = [&](const char* field, double most, double& value) -> absl::Status {
    const auto found = given->find(field);
    if (found == given->end() || found->is_null()) return absl::OkStatus();
    value = found->is_number() ? found->get<double>() : -1;
    return value >= 0 && value <= most
               ? absl::OkStatus()
               : BadLine(line, absl::StrCat("tolerance.", field, ": expected a number from 0 to ",
                                            NumberText(most)));
  };
  constexpr double kMost = 1e30;
  KC_RETURN_IF_ERROR(read("max_atol", kMost, tolerance.atol));
  KC_RETURN_IF_ERROR(read("max_rtol", kMost, tolerance.rtol));
  KC_RETURN_IF_ERROR(read("required_matched_ratio", 1, tolerance.matched_ratio));
  KC_RETURN_IF_ERROR(read("max_error_cap", kMost, tolerance.max_error));
  const auto negative = given->find("allow_negative_inf");
  if (negative != given->end() && negative->is_boolean() && negative->get<bool>()) {
    tolerance.infinities = Tolerance::Infinities::kNegative;
  }
  return tolerance;
}

absl::Status DefinitionReader::AddWorkload(size_t line, std::string_view text) {
  if (IsBlank(text)) return absl::OkStatus();
  OrderedJson workload = ParseBoundedJson<OrderedJson>(text);
  // flashinfer-bench stores traces without a solution.
  if (workload.is_object() && workload.contains("workload"))
    workload = OrderedJson(workload["workload"]);
  if (!workload.is_object()) return BadLine(line, "expected a JSON object");
  if (parts_.task.cases.size() == kMaxTaskCases) {
    return BadLine(line, absl::StrCat("more than ", kMaxTaskCases, " workloads"));
  }
  PythonTask::Case one;
  KC_ASSIGN_OR_RETURN(one.axes, Axes(line, workload));
  KC_RETURN_IF_ERROR(CheckInputs(line, workload));
  KC_ASSIGN_OR_RETURN(one.tolerance, ToleranceOf(line, workload));
  cases_.push_back({{"axes", one.axes}, {"inputs", workload["inputs"]}});
  if (const std::string uuid = StringAt(workload, "uuid"); !uuid.empty()) {
    cases_.back()["uuid"] = uuid;
  }
  bool timed = true;
  if (format_ == Format::kSolExecBench && workload.contains(kTimed)) {
    if (!workload[kTimed].is_boolean()) {
      return BadLine(line, absl::StrCat(kTimed, ": expected true or false"));
    }
    timed = workload[kTimed].get<bool>();
    cases_.back()[kTimed] = timed;
  }
  (timed ? parts_.timed : parts_.checked).push_back(parts_.task.cases.size());
  parts_.task.cases.push_back(std::move(one));
  return absl::OkStatus();
}

absl::StatusOr<TaskParts> DefinitionReader::Read(const std::vector<ProblemFile>& files) {
  files_ = &files;
  for (const ProblemFile& file : files) {
    if (!IsTensorFile(file) && !IsSourceText(file.content)) {
      return absl::InvalidArgumentError(absl::StrCat(file.path, ": is not UTF-8 text"));
    }
  }
  definition_ = ParseBoundedJson<OrderedJson>(*FindFile(files, file_));
  if (!definition_.is_object()) return Bad("expected a JSON object");
  const std::string* const reference = FindFile(files, kReferenceFile);
  if (!definition_.contains("reference") && reference != nullptr) {
    definition_["reference"] = *reference;
  }
  KC_RETURN_IF_ERROR(CheckDefinition());
  const std::string text = *FindFile(files, workloads_file_);
  size_t line = 0;
  for (const auto part : absl::StrSplit(text, '\n')) {
    KC_RETURN_IF_ERROR(AddWorkload(++line, std::string_view(part.data(), part.size())));
  }
  if (parts_.timed.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        workloads_file_, parts_.checked.empty() ? ": holds no workload" : ": times no workload"));
  }
  if (parts_.checked.empty()) parts_.checked = parts_.timed;
  parts_.timed = Spread(parts_.timed, kMaxTimedCases);
  parts_.title = Text("name");
  parts_.description = Text("description");
  if (const std::string type = Text("op_type"); IsToken(type)) parts_.family = type;
  parts_.task.format = format_;
  parts_.task.entries = {"run"};
  parts_.task.file = file_;
  parts_.task.source = Text("reference");
  OrderedJson details;
  details["definition"] = definition_;
  details["cases"] = cases_;
  if (!tensors_.empty()) details["tensors"] = tensors_;
  parts_.task.details = details.dump();
  return std::move(parts_);
}

}  // namespace

std::vector<std::string> TensorFilesOf(std::string_view workloads) {
  std::vector<std::string> paths;
  for (const auto line :
       absl::StrSplit(absl::string_view(workloads.data(), workloads.size()), '\n')) {
    const OrderedJson json = ParseBoundedJson<OrderedJson>({line.data(), line.size()});
    if (!json.is_object()) continue;
    const OrderedJson& workload = json.contains("workload") ? json["workload"] : json;
    const auto inputs = workload.is_object() ? workload.find("inputs") : workload.end();
    if (inputs == workload.end() || !inputs->is_object()) continue;
    for (const auto& [name, input] : inputs->items()) {
      const std::string path = input.is_object() ? StringAt(input, "path") : "";
      if (path.ends_with(kSafetensorsExtension) && std::ranges::find(paths, path) == paths.end()) {
        paths.push_back(path);
      }
    }
  }
  return paths;
}

bool IsFlashInferBench(const std::vector<ProblemFile>& all_files) {
  const std::vector<ProblemFile> files = TextFiles(all_files);
  return files.size() == 2 && (SameStem(files[0], files[1]) || SameStem(files[1], files[0]));
}

bool IsSolExecBench(const std::vector<ProblemFile>& all_files) {
  const std::vector<ProblemFile> files = TextFiles(all_files);
  const bool both =
      FindFile(files, kDefinitionFile) != nullptr && FindFile(files, kWorkloadsFile) != nullptr;
  return both && (files.size() == 2 || (files.size() == 3 && FindFile(files, kReferenceFile)));
}

absl::StatusOr<Problem> ParseDefinitionTask(Format format, std::vector<ProblemFile> files) {
  const bool sol = format == Format::kSolExecBench;
  const std::string stem = sol ? "" : PathStem(TextFiles(files)[0].path);
  DefinitionReader reader(format, sol ? std::string(kDefinitionFile) : stem + ".json",
                          sol ? std::string(kWorkloadsFile) : stem + ".jsonl");
  KC_ASSIGN_OR_RETURN(TaskParts parts, reader.Read(files));
  return MakeTaskProblem(std::move(parts), std::move(files), "workload");
}

}  // namespace kernelcast
