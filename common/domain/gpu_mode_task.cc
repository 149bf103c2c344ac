// GPU MODE's folders: task.yml, reference.py with generate_input, ref_kernel and
// check_implementation, and what these import.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/task_problem.h"
#include "common/domain/text.h"
#include "common/domain/yaml_cursor.h"
#include "common/domain/yaml_tree.h"

namespace kernelcast {
namespace {

using OrderedJson = nlohmann::ordered_json;

const std::string kTaskYaml = "task.yml";
const std::string kReferenceModule = "reference.py";
constexpr std::string_view kSubmission = "@SUBMISSION@";
constexpr size_t kMaxTaskFiles = 32;
constexpr size_t kMaxCaseArguments = 32;
constexpr size_t kMaxTaskTextBytes = 200;
constexpr size_t kMaxTaskDescriptionBytes = 64 << 10;
// The argument that generate_input gets anew for every drawing.
constexpr std::string_view kSeedArgument = "seed";
// The argument that says how many processes a task needs, each with a GPU of its own.
constexpr std::string_view kWorldSize = "world_size";
// A task whose source contains one of these names cannot be judged. The second text says why.
constexpr std::pair<std::string_view, std::string_view> kUnsupported[] = {
    {"float4_e2m1fn_x2", "tasks in NVFP4 and other types of 4 bits"},
    {"init_process_group", "tasks over several GPUs"},
};

// Scalars of YAML that kernelbot passes on: integers, numbers, booleans and texts.
OrderedJson ArgumentValue(const std::string& text) {
  const auto parsed = [&](auto value) {
    const auto end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && at == end ? OrderedJson(value) : OrderedJson();
  };
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  if (text.empty() || text == "null" || text == "~") return nullptr;
  if (const OrderedJson integer = parsed(int64_t{}); !integer.is_null()) return integer;
  const bool starts_as_number = text.find_first_of("0123456789.") <= 1 && text.back() != 'f';
  if (const OrderedJson number = parsed(double{}); starts_as_number && !number.is_null())
    return number;
  return text;
}

absl::StatusOr<OrderedJson> ReadArguments(const Cursor& at) {
  KC_RETURN_IF_ERROR(ExpectMapping(at));
  if (at.node->entries.size() > kMaxCaseArguments) {
    return Error(at, absl::StrCat("more than ", kMaxCaseArguments, " arguments"));
  }
  OrderedJson arguments = OrderedJson::object();
  for (const YamlEntry& entry : at.node->entries) {
    const Cursor value = at.Child(entry.value, entry.key);
    if (!IsIdentifier(entry.key)) return Error(value, "is not the name of an argument");
    if (entry.value.kind == YamlNode::Kind::kSequence) {
      OrderedJson items = OrderedJson::array();
      for (size_t i = 0; i < entry.value.items.size(); ++i) {
        KC_ASSIGN_OR_RETURN(const std::string text, ReadText(value.Item(i), kMaxTaskTextBytes));
        items.push_back(ArgumentValue(text));
      }
      arguments[entry.key] = std::move(items);
      continue;
    }
    KC_ASSIGN_OR_RETURN(const std::string text, ReadText(value, kMaxTaskTextBytes));
    arguments[entry.key] = ArgumentValue(text);
  }
  return arguments;
}

// Sizes and the like, to name a case by.
AxisValues AxesOf(const OrderedJson& arguments) {
  AxisValues axes;
  for (const auto& [name, value] : arguments.items()) {
    if (name == kSeedArgument) continue;
    if (value.is_number_integer()) axes[name] = value.get<int64_t>();
    if (value.is_boolean()) axes[name] = value.get<bool>() ? 1 : 0;
  }
  return axes;
}

class CaseList {
 public:
  // The index of the case with these arguments, whatever their seed is.
  absl::StatusOr<size_t> Add(const Cursor& at) {
    KC_ASSIGN_OR_RETURN(const OrderedJson arguments, ReadArguments(at));
    const auto processes = arguments.find(std::string(kWorldSize));
    if (processes != arguments.end() && *processes != 1) {
      return Error(at.At(kWorldSize), "tasks over several GPUs are not supported");
    }
    OrderedJson unseeded = arguments;
    unseeded.erase(std::string(kSeedArgument));
    const auto found = std::ranges::find(unseeded_, unseeded);
    if (found != unseeded_.end()) return static_cast<size_t>(found - unseeded_.begin());
    if (cases.size() == kMaxTaskCases) {
      return Error(at, absl::StrCat("more than ", kMaxTaskCases, " different cases"));
    }
    unseeded_.push_back(std::move(unseeded));
    PythonTask::Case one;
    one.axes = AxesOf(arguments);
    cases.push_back(std::move(one));
    json.push_back({{"arguments", arguments}});
    return cases.size() - 1;
  }

  std::vector<PythonTask::Case> cases;
  OrderedJson json = OrderedJson::array();

 private:
  std::vector<OrderedJson> unseeded_;
};

absl::StatusOr<std::vector<size_t>> ReadCases(const Cursor& root, const char* field,
                                              CaseList& list) {
  std::vector<size_t> indices;
  if (!root.Has(field)) return indices;
  const Cursor at = root.At(field);
  KC_RETURN_IF_ERROR(ExpectList(at, 0, kMaxTaskCases));
  for (size_t i = 0; i < at.node->items.size(); ++i) {
    KC_ASSIGN_OR_RETURN(const size_t index, list.Add(at.Item(i)));
    if (std::ranges::find(indices, index) == indices.end()) indices.push_back(index);
  }
  return indices;
}

absl::StatusOr<std::vector<GpuModeFile>> FilesOf(const Cursor& root) {
  KC_RETURN_IF_ERROR(ExpectMapping(root));
  if (!root.Has("files")) return Error(root, "names no files");
  const Cursor list = root.At("files");
  KC_RETURN_IF_ERROR(ExpectList(list, 1, kMaxTaskFiles));
  std::vector<GpuModeFile> files;
  for (size_t i = 0; i < list.node->items.size(); ++i) {
    const Cursor at = list.Item(i);
    KC_RETURN_IF_ERROR(ExpectKeys(at, {"name", "source"}, {}));
    GpuModeFile file;
    KC_ASSIGN_OR_RETURN(file.name, ReadText(at.At("name"), kMaxYamlNameBytes));
    KC_ASSIGN_OR_RETURN(file.source, ReadText(at.At("source"), kMaxTaskTextBytes));
    if (!file.name.ends_with(".py") || !IsIdentifier(PathStem(file.name))) {
      return Error(at.At("name"), Quoted(file.name) + " is not the name of a Python module");
    }
    if (!file.source.empty() && file.source[0] == '/') {
      return Error(at.At("source"), Quoted(file.source) + " is not a relative path");
    }
    // Its harness times candidates, which the worker does.
    if (file.source != kSubmission && file.name != "eval.py") files.push_back(std::move(file));
  }
  return files;
}

// Returns whether a line of the source contains the name before any comment.
bool UsesName(std::string_view source, std::string_view name) {
  const auto continues = [](std::string_view text) {
    return !text.empty() && IsIdentifier("a" + std::string(text));
  };
  while (!source.empty()) {
    const size_t end = std::min(source.find('\n'), source.size());
    const std::string_view line = source.substr(0, std::min(end, source.find('#')));
    source.remove_prefix(std::min(end + 1, source.size()));
    for (size_t at = line.find(name); at != line.npos; at = line.find(name, at + 1)) {
      const bool starts = at == 0 || !continues(line.substr(at - 1, 1));
      if (starts && !continues(line.substr(at + name.size(), 1))) return true;
    }
  }
  return false;
}

absl::Status CheckSupported(const std::string& file, const std::string& source) {
  for (const auto& [name, what] : kUnsupported) {
    if (UsesName(source, name)) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": uses ", std::string(name), "; ",
                                                     std::string(what), " are not supported"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReference(const std::string& reference) {
  const auto missing = [](const char* name) {
    return absl::InvalidArgumentError(absl::StrCat(
        kReferenceModule, ": does not define ", name,
        " at its top level. eval.py is not run, so tasks whose eval.py calls other functions than "
        "generate_input, ref_kernel, check_implementation and custom_kernel are not supported"));
  };
  for (const char* const name : {"generate_input", "ref_kernel"}) {
    if (!HasLine(reference, absl::StrCat("def ", name, "("))) return missing(name);
  }
  if (!HasLine(reference, "def check_implementation(") &&
      !HasLine(reference, "check_implementation")) {
    return missing("check_implementation");
  }
  return CheckSupported(kReferenceModule, reference);
}

Cursor RootOf(const YamlNode& tree) { return {&kTaskYaml, &tree, "", tree.line}; }

}  // namespace

bool IsGpuMode(const std::vector<ProblemFile>& files) {
  return FindFile(files, kTaskYaml) != nullptr;
}

absl::StatusOr<std::vector<GpuModeFile>> ReadGpuModeFiles(const std::string& yaml) {
  KC_ASSIGN_OR_RETURN(const YamlNode tree, ParseYaml(kTaskYaml, yaml));
  return FilesOf(RootOf(tree));
}

absl::StatusOr<Problem> ParseGpuModeTask(std::vector<ProblemFile> files) {
  KC_ASSIGN_OR_RETURN(const YamlNode tree, ParseYaml(kTaskYaml, *FindFile(files, kTaskYaml)));
  const Cursor root = RootOf(tree);
  KC_ASSIGN_OR_RETURN(const std::vector<GpuModeFile> named, FilesOf(root));
  std::string language = "py";
  if (root.Has("lang")) {
    KC_ASSIGN_OR_RETURN(language, ReadText(root.At("lang"), kMaxYamlNameBytes));
  }
  if (language != "py") {
    return Error(root.At("lang"), "only tasks in Python (py) are supported");
  }
  if (root.Has("multi_gpu")) {
    KC_ASSIGN_OR_RETURN(const std::string several,
                        ReadText(root.At("multi_gpu"), kMaxYamlNameBytes));
    if (several == "true" || several == "True") {
      return Error(root.At("multi_gpu"), "tasks over several GPUs are not supported");
    }
  }
  OrderedJson modules = OrderedJson::object();
  for (const GpuModeFile& file : named) {
    const std::string* const content = FindFile(files, file.name);
    if (content == nullptr) {
      return Error(root.At("files"), absl::StrCat("file ", Quoted(file.name), " is missing"));
    }
    KC_RETURN_IF_ERROR(CheckTaskSource(file.name, *content));
    modules[file.name] = *content;
  }
  for (const ProblemFile& file : files) {
    if (file.path != kTaskYaml && !modules.contains(file.path)) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", Quoted(file.path), " is not named by ", kTaskYaml));
    }
  }
  const std::string* const reference = FindFile(files, kReferenceModule);
  if (reference == nullptr) return Error(root.At("files"), "there is no reference.py");
  KC_RETURN_IF_ERROR(CheckReference(*reference));
  CaseList cases;
  TaskParts parts;
  KC_ASSIGN_OR_RETURN(parts.checked, ReadCases(root, "tests", cases));
  KC_ASSIGN_OR_RETURN(parts.timed, ReadCases(root, "benchmarks", cases));
  parts.timed = Spread(parts.timed.empty() ? parts.checked : parts.timed, kMaxTimedCases);
  if (parts.timed.empty()) return Error(root, "has neither tests nor benchmarks");
  // The folder's name is not among its files.
  parts.title = "GPU MODE task";
  if (root.Has("description")) {
    KC_ASSIGN_OR_RETURN(parts.description,
                        ReadText(root.At("description"), kMaxTaskDescriptionBytes));
    parts.title = parts.description.substr(0, parts.description.find_first_of(".\n"));
  }
  parts.task.format = PythonTask::Format::kGpuMode;
  parts.task.file = kReferenceModule;
  parts.task.source = *reference;
  parts.task.cases = std::move(cases.cases);
  OrderedJson details;
  details["modules"] = modules;
  details["cases"] = cases.json;
  parts.task.details = details.dump();
  return MakeTaskProblem(std::move(parts), std::move(files), "case");
}

}  // namespace kernelcast
