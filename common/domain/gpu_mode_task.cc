// GPU MODE's folders: task.yml, reference.py with generate_input, ref_kernel and
// check_implementation, and what these import. A folder without these functions has a program
// instead, eval.py, which calls functions of the candidate; submission.py is then the reference.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
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
const std::string kSubmissionModule = "submission.py";
constexpr std::string_view kChecker = "check_implementation";
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

// The program that judges candidates elsewhere.
absl::StatusOr<std::string> ProgramOf(const Cursor& root) {
  if (root.Has("config")) {
    const Cursor config = root.At("config");
    if (config.node->kind == YamlNode::Kind::kMapping && config.Has("main")) {
      return ReadText(config.At("main"), kMaxYamlNameBytes);
    }
  }
  return std::string("eval.py");
}

absl::StatusOr<GpuModeFiles> FilesOf(const Cursor& root) {
  KC_RETURN_IF_ERROR(ExpectMapping(root));
  if (!root.Has("files")) return Error(root, "names no files");
  const Cursor list = root.At("files");
  KC_RETURN_IF_ERROR(ExpectList(list, 1, kMaxTaskFiles));
  GpuModeFiles files;
  KC_ASSIGN_OR_RETURN(const std::string program, ProgramOf(root));
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
    if (file.source == kSubmission) continue;
    if (file.name == program) {
      files.program = std::move(file);
    } else {
      files.modules.push_back(std::move(file));
    }
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

// A function that the reference lacks, of those that the judge calls; empty if it has all.
std::string_view LackedFunction(const std::string* reference) {
  constexpr std::string_view kFunctions[] = {"generate_input", "ref_kernel", kChecker};
  for (const std::string_view name : kFunctions) {
    const bool defined = reference != nullptr &&
                         (HasLine(*reference, absl::StrCat("def ", std::string(name), "(")) ||
                          // It may be made by a function of utils.py.
                          (name == kChecker && HasLine(*reference, kChecker)));
    if (!defined) return name;
  }
  return "";
}

// The functions of the reference solution that the program names.
std::vector<std::string> CalledFunctions(const std::string& program, const std::string& solution) {
  constexpr absl::string_view kDefinition = "def ";
  std::vector<std::string> names;
  for (absl::string_view line : absl::StrSplit(solution, '\n')) {
    if (!absl::ConsumePrefix(&line, kDefinition)) continue;
    const std::string name(line.substr(0, line.find('(')));
    const bool is_known = std::ranges::find(names, name) != names.end();
    if (IsIdentifier(name) && !is_known && UsesName(program, name)) names.push_back(name);
  }
  return names;
}

// Makes a task of a program and a reference solution.
absl::Status ReadProgram(const std::vector<ProblemFile>& files, const std::string& lacked,
                         const std::string& program, PythonTask& task, OrderedJson& details) {
  const std::string lacks =
      absl::StrCat(kReferenceModule, ": does not define ", lacked, " at its top level");
  if (program.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        lacks, ", and ", kTaskYaml, " names no program that checks candidates, such as eval.py"));
  }
  const std::string why = absl::StrCat(lacks, ", so ", program, " must check candidates");
  const std::string* const main = FindFile(files, program);
  const std::string* const solution = FindFile(files, kSubmissionModule);
  for (const auto& [name, content] : {std::pair(program, main), {kSubmissionModule, solution}}) {
    if (content == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          why, ", and ", name, " is missing. It needs ", program, ", which ", kTaskYaml,
          " names, and a right candidate in ", kSubmissionModule, ", which is the reference"));
    }
    KC_RETURN_IF_ERROR(CheckTaskSource(name, *content));
    KC_RETURN_IF_ERROR(CheckSupported(name, *content));
    details["modules"][name] = *content;
  }
  task.entries = CalledFunctions(*main, *solution);
  if (task.entries.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(why, ", and it names no function that ", kSubmissionModule, " defines"));
  }
  task.format = PythonTask::Format::kGpuModeEval;
  task.file = kSubmissionModule;
  task.source = *solution;
  details["program"] = program;
  return absl::OkStatus();
}

Cursor RootOf(const YamlNode& tree) { return {&kTaskYaml, &tree, "", tree.line}; }

}  // namespace

bool IsGpuMode(const std::vector<ProblemFile>& files) {
  return FindFile(files, kTaskYaml) != nullptr;
}

absl::StatusOr<GpuModeFiles> ReadGpuModeFiles(const std::string& yaml) {
  KC_ASSIGN_OR_RETURN(const YamlNode tree, ParseYaml(kTaskYaml, yaml));
  return FilesOf(RootOf(tree));
}

bool NeedsGpuModeProgram(const std::vector<ProblemFile>& files) {
  return !LackedFunction(FindFile(files, kReferenceModule)).empty();
}

absl::StatusOr<Problem> ParseGpuModeTask(std::vector<ProblemFile> files) {
  KC_ASSIGN_OR_RETURN(const YamlNode tree, ParseYaml(kTaskYaml, *FindFile(files, kTaskYaml)));
  const Cursor root = RootOf(tree);
  KC_ASSIGN_OR_RETURN(const GpuModeFiles named, FilesOf(root));
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
  for (const GpuModeFile& file : named.modules) {
    const std::string* const content = FindFile(files, file.name);
    if (content == nullptr) {
      return Error(root.At("files"), absl::StrCat("file ", Quoted(file.name), " is missing"));
    }
    KC_RETURN_IF_ERROR(CheckTaskSource(file.name, *content));
    modules[file.name] = *content;
  }
  TaskParts parts;
  OrderedJson details;
  details["modules"] = std::move(modules);
  const std::string* const reference = FindFile(files, kReferenceModule);
  const std::string lacked(LackedFunction(reference));
  if (reference != nullptr) KC_RETURN_IF_ERROR(CheckSupported(kReferenceModule, *reference));
  if (lacked.empty()) {
    parts.task.format = PythonTask::Format::kGpuMode;
    parts.task.entries = {"custom_kernel"};
    parts.task.file = kReferenceModule;
    parts.task.source = *reference;
  } else if (reference == nullptr && named.program.name.empty()) {
    return Error(root.At("files"), "there is no reference.py");
  } else {
    KC_RETURN_IF_ERROR(ReadProgram(files, lacked, named.program.name, parts.task, details));
  }
  for (const ProblemFile& file : files) {
    if (file.path != kTaskYaml && !details["modules"].contains(file.path)) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", Quoted(file.path), " is not named by ", kTaskYaml));
    }
  }
  CaseList cases;
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
  parts.task.cases = std::move(cases.cases);
  details["cases"] = cases.json;
  parts.task.details = details.dump();
  return MakeTaskProblem(std::move(parts), std::move(files), "case");
}

}  // namespace kernelcast
