// ParseProblem and ReadProblemFolder: one parser over two sources of files (problem_files.h). Every
// error names the file, the line, the field and what is allowed.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status.h"
#include "common/domain/launch_parser.h"
#include "common/domain/problem.h"
#include "common/domain/problem_files.h"
#include "common/domain/python_task.h"
#include "common/domain/space_parser.h"
#include "common/domain/task_files.h"
#include "common/domain/tensor_parser.h"
#include "common/domain/text.h"
#include "common/domain/yaml_cursor.h"
#include "common/domain/yaml_tree.h"

namespace kernelcast {
namespace {

constexpr std::string_view kProblemFileName = "problem.yaml";
constexpr int64_t kMaxDeclaredExtent = int64_t{1} << 40;
constexpr size_t kMaxTitleBytes = 200;
constexpr size_t kMaxAxes = 10;
constexpr size_t kMaxTensors = 16;
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxCheckShapes = 64;
constexpr size_t kMaxBenchShapes = 8;
// Key of a bench shape, unless it is an axis.
constexpr std::string_view kWeight = "weight";
constexpr size_t kMaxTargets = 32;
// Maximum FLOPs and bytes of one call. Far more than tensors of the largest size need, and small
// enough for the times computed from them.
constexpr double kMaxDeclaredWork = 1e18;
// dtypes that the C entry on a cpu can use without an additional library.
constexpr DataType kCpuDataTypes[] = {DataType::kFloat64, DataType::kFloat32, DataType::kInt64,
                                      DataType::kInt32};

std::string ShapeName(const AxisValues& shape) {
  std::string text;
  for (const auto& [axis, value] : shape) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", axis, "=", value);
  }
  return text;
}

class ProblemParser {
 public:
  explicit ProblemParser(FileSource& source) : files_(source) {}

  absl::StatusOr<Problem> Parse() {
    const std::string file(kProblemFileName);
    KC_ASSIGN_OR_RETURN(const std::string content,
                        WithPrefix(absl::StrCat(file, ": "), files_.ReadWhole(file)));
    KC_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(file, content));
    const Cursor top{&file, &root, "", root.line};
    KC_RETURN_IF_ERROR(ParseTop(top));
    for (const auto& [path, text] : files_.files_read()) problem_.files.push_back({path, text});
    problem_.problem_id = ProblemId(problem_.files);
    return std::move(problem_);
  }

  const std::map<std::string, std::string>& files_read() const { return files_.files_read(); }

 private:
  absl::Status ParseTop(const Cursor& top) {
    KC_RETURN_IF_ERROR(
        ExpectKeys(top,
                   {"schema", "name", "title", "family", "axes", "inputs", "outputs", "targets",
                    "check_shapes", "bench_shapes"},
                   {"oracle", "description", "flops", "bytes", "held_out_bench_shapes"}));
    KC_RETURN_IF_ERROR(ReadInteger(top.At("schema"), 1, 1).status());
    KC_ASSIGN_OR_RETURN(problem_.name, ReadLowerName(top.At("name")));
    KC_ASSIGN_OR_RETURN(problem_.title, ReadText(top.At("title"), kMaxTitleBytes));
    KC_ASSIGN_OR_RETURN(problem_.family, ReadText(top.At("family"), kMaxYamlNameBytes));
    if (!IsToken(problem_.family)) {
      return Error(top.At("family"), Quoted(problem_.family) + " is not one word");
    }
    // Forecasts group problems by family, so British and American spellings must be equal.
    absl::StrReplaceAll({{"isation", "ization"}}, &problem_.family);
    if (top.Has("description")) {
      KC_ASSIGN_OR_RETURN(problem_.description,
                          ReadText(top.At("description"), kMaxDescriptionBytes));
    }
    KC_RETURN_IF_ERROR(ParseAxes(top.At("axes")));
    KC_RETURN_IF_ERROR(ParseTensors(top.At("inputs"), /*is_input=*/true, problem_.inputs));
    KC_RETURN_IF_ERROR(ParseTensors(top.At("outputs"), /*is_input=*/false, problem_.outputs));
    if (top.Has("flops")) {
      KC_ASSIGN_OR_RETURN(problem_.flops, ReadExpression(top.At("flops"), names_.axes));
    }
    if (top.Has("bytes")) {
      KC_ASSIGN_OR_RETURN(problem_.bytes, ReadExpression(top.At("bytes"), names_.axes));
    }
    KC_RETURN_IF_ERROR(CheckHeldOutCorners(top));
    KC_RETURN_IF_ERROR(ParseShapes(top, "check_shapes", kMaxCheckShapes, problem_.check_shapes));
    KC_RETURN_IF_ERROR(ParseShapes(top, "bench_shapes", kMaxBenchShapes, problem_.bench_shapes,
                                   &problem_.bench_weights));
    KC_RETURN_IF_ERROR(CheckHeldOutBenchShapes(top, problem_.bench_shapes));
    if (top.Has("oracle")) {
      std::string oracle_path;
      KC_ASSIGN_OR_RETURN(problem_.oracle_source,
                          files_.ReadSource(top.At("oracle"), "", oracle_path));
    }
    return ParseTargets(top);
  }

  absl::Status ParseAxes(const Cursor& axes) {
    KC_RETURN_IF_ERROR(ExpectMapping(axes));
    if (axes.node->entries.empty()) return Error(axes, "names no axis");
    if (axes.node->entries.size() > kMaxAxes) {
      return Error(axes, absl::StrCat(axes.node->entries.size(), " axes; at most ", kMaxAxes,
                                      " are allowed"));
    }
    for (const auto& [key, line, value] : axes.node->entries) {
      KC_RETURN_IF_ERROR(CheckVariableName(axes, line, key));
      const Cursor at = axes.Child(value, key);
      KC_RETURN_IF_ERROR(ExpectKeys(at, {"held_out"}, {"multiple_of", "type"}));
      const Cursor range = at.At("held_out");
      KC_RETURN_IF_ERROR(ExpectList(range, 2, 2));
      Axis axis;
      axis.name = key;
      KC_ASSIGN_OR_RETURN(axis.held_out_low, ReadInteger(range.Item(0), 1, kMaxDeclaredExtent));
      KC_ASSIGN_OR_RETURN(axis.held_out_high,
                          ReadInteger(range.Item(1), axis.held_out_low, kMaxDeclaredExtent));
      if (at.Has("multiple_of")) {
        KC_ASSIGN_OR_RETURN(axis.multiple_of,
                            ReadInteger(at.At("multiple_of"), 1, kMaxDeclaredExtent));
      }
      if (at.Has("type")) {
        KC_RETURN_IF_ERROR(ReadAxisType(at.At("type"), axis));
      }
      if ((axis.held_out_low - 1) / axis.multiple_of == axis.held_out_high / axis.multiple_of) {
        return Error(range, absl::StrCat("no multiple of ", axis.multiple_of, " lies in [",
                                         axis.held_out_low, ", ", axis.held_out_high, "]"));
      }
      problem_.axes.push_back(axis);
      names_.axes.push_back(axis.name);
    }
    return absl::OkStatus();
  }

  static absl::Status ReadAxisType(const Cursor& at, Axis& axis) {
    KC_ASSIGN_OR_RETURN(const std::string name, ReadText(at, kMaxYamlNameBytes));
    const absl::StatusOr<ScalarType> type = ParseScalarType(name);
    if (!type.ok()) return Error(at, type.status());
    axis.type = *type;
    if (const auto largest = ConvertScalar(axis.type, static_cast<double>(axis.held_out_high));
        !largest.ok()) {
      return Error(at, absl::StrCat("held_out allows ", largest.status().message()));
    }
    return absl::OkStatus();
  }

  absl::Status ParseTensors(const Cursor& list, bool is_input, std::vector<TensorSpec>& tensors) {
    KC_RETURN_IF_ERROR(ExpectList(list, 1, kMaxTensors));
    for (size_t i = 0; i < list.node->items.size(); ++i) {
      const Cursor at = list.Item(i);
      if (is_input) {
        KC_RETURN_IF_ERROR(ExpectKeys(at, {"name", "dtype", "shape", "init"}, {"adversarial"}));
      } else {
        KC_RETURN_IF_ERROR(ExpectKeys(at, {"name", "dtype", "shape"}, {"tolerance"}));
      }
      TensorSpec tensor;
      KC_RETURN_IF_ERROR(ParseTensorName(at.At("name"), tensor));
      KC_ASSIGN_OR_RETURN(const std::string dtype, ReadText(at.At("dtype"), kMaxYamlNameBytes));
      const absl::StatusOr<DataType> parsed = ParseDataType(dtype);
      if (!parsed.ok()) return Error(at.At("dtype"), parsed.status());
      tensor.dtype = *parsed;
      const Cursor shape = at.At("shape");
      KC_RETURN_IF_ERROR(ExpectList(shape, 1, kMaxRank));
      for (size_t d = 0; d < shape.node->items.size(); ++d) {
        KC_ASSIGN_OR_RETURN(Expression extent, ReadExpression(shape.Item(d), names_.axes));
        tensor.shape.push_back(std::move(extent));
      }
      if (is_input) {
        const auto read = [this](const Cursor& file, std::string& path) {
          return files_.ReadNamed(file, "", path);
        };
        KC_RETURN_IF_ERROR(ParseInit(at.At("init"), names_.axes, read, tensor));
        KC_RETURN_IF_ERROR(ParseAdversarial(at, tensor));
      } else {
        KC_RETURN_IF_ERROR(ParseTolerance(at, names_.axes, tensor));
      }
      tensors.push_back(std::move(tensor));
    }
    return absl::OkStatus();
  }

  absl::Status ParseTensorName(const Cursor& at, TensorSpec& tensor) {
    KC_ASSIGN_OR_RETURN(tensor.name, ReadText(at, kMaxYamlNameBytes));
    KC_RETURN_IF_ERROR(CheckVariableName(at, at.line, tensor.name));
    if (std::ranges::find(names_.axes, tensor.name) != names_.axes.end()) {
      return Error(at, Quoted(tensor.name) + " is the name of an axis");
    }
    if (tensor.name == kWorkspaceArgument) return Error(at, "'workspace' is reserved");
    if (!names_.tensors.insert(tensor.name).second) {
      return Error(at, Quoted(tensor.name) + " is the name of an earlier tensor");
    }
    return absl::OkStatus();
  }

  // Checks that the problem can run at the shapes. On failure `failed` is the first bad shape; the
  // error has no position. Iterates over tensors in the outer loop, which keeps each tensor's
  // expressions compiled.
  absl::Status CheckShapes(const std::vector<AxisValues>& shapes, const AxisValues*& failed,
                           int64_t max_elements = kMaxTensorElements) const {
    const auto each_shape = [&](auto check) {
      for (const AxisValues& shape : shapes) {
        if (absl::Status status = check(shape); !status.ok()) {
          failed = &shape;
          return status;
        }
      }
      return absl::OkStatus();
    };
    for (const std::vector<TensorSpec>* tensors : {&problem_.inputs, &problem_.outputs}) {
      for (const TensorSpec& tensor : *tensors) {
        KC_RETURN_IF_ERROR(each_shape([&](const AxisValues& shape) {
          return TensorShape(tensor, shape, max_elements).status();
        }));
        KC_RETURN_IF_ERROR(
            each_shape([&](const AxisValues& shape) { return CheckTensorAt(tensor, shape); }));
      }
    }
    KC_RETURN_IF_ERROR(each_shape(
        [&](const AxisValues& shape) { return CheckCount("flops", problem_.flops, shape); }));
    return each_shape(
        [&](const AxisValues& shape) { return CheckCount("bytes", problem_.bytes, shape); });
  }

  static absl::Status CheckCount(const char* field, const std::optional<Expression>& expression,
                                 const AxisValues& shape) {
    if (!expression.has_value()) return absl::OkStatus();
    const absl::StatusOr<double> value =
        expression->Evaluate(Variables(shape.begin(), shape.end()));
    if (!value.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": ", value.status().message()));
    }
    if (*value >= 0 && *value <= kMaxDeclaredWork) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": expression ", Quoted(expression->text()), " is ", NumberText(*value),
                     ", not a number from 0 to ", NumberText(kMaxDeclaredWork)));
  }

  // Held-out shapes are drawn from the whole box of axis ranges, so its corners must be legal.
  absl::Status CheckHeldOutCorners(const Cursor& top) const {
    const Cursor at = top.At("axes");
    const std::vector<AxisValues> shapes = HeldOutCorners(problem_);
    const AxisValues* failed = nullptr;
    if (const absl::Status status = CheckShapes(shapes, failed, kMaxHeldOutElements);
        !status.ok()) {
      return Error(at, absl::StrCat("the held_out ranges allow ", ShapeName(*failed), ", at which ",
                                    status.message()));
    }
    return absl::OkStatus();
  }

  // Shapes take a weight if `weights` is not null. It stays empty if none has one.
  absl::Status ParseShapes(const Cursor& parent, std::string_view key, size_t at_most,
                           std::vector<AxisValues>& shapes,
                           std::vector<double>* weights = nullptr) {
    const Cursor list = parent.At(key);
    KC_RETURN_IF_ERROR(ExpectList(list, 1, at_most));
    const bool has_weights =
        weights != nullptr && std::ranges::find(names_.axes, kWeight) == names_.axes.end();
    std::vector<std::string> optional;
    if (has_weights) optional.emplace_back(kWeight);
    for (size_t i = 0; i < list.node->items.size(); ++i) {
      const Cursor at = list.Item(i);
      KC_RETURN_IF_ERROR(ExpectKeys(at, names_.axes, optional));
      if (has_weights && at.Has(kWeight)) {
        weights->resize(list.node->items.size(), 1);
        KC_ASSIGN_OR_RETURN((*weights)[i],
                            ReadNumber(at.At(kWeight), kMinBenchWeight, kMaxBenchWeight));
      }
      AxisValues shape;
      for (const Axis& axis : problem_.axes) {
        const Cursor value = at.At(axis.name);
        KC_ASSIGN_OR_RETURN(const int64_t size, ReadInteger(value, 1, kMaxDeclaredExtent));
        if (size % axis.multiple_of != 0) {
          return Error(value, absl::StrCat(size, " is not a multiple of ", axis.multiple_of));
        }
        if (const auto typed = ConvertScalar(axis.type, static_cast<double>(size)); !typed.ok()) {
          return Error(value, typed.status());
        }
        shape[axis.name] = size;
      }
      const AxisValues* failed = nullptr;
      if (const absl::Status status = CheckShapes({shape}, failed); !status.ok()) {
        return Error(at, status);
      }
      if (std::ranges::find(shapes, shape) != shapes.end()) {
        return Error(at, ShapeName(shape) + " occurs twice");
      }
      shapes.push_back(std::move(shape));
    }
    return absl::OkStatus();
  }

  // HeldOutProblem reads them.
  absl::Status CheckHeldOutBenchShapes(const Cursor& parent,
                                       const std::vector<AxisValues>& bench_shapes) {
    constexpr std::string_view kKey = "held_out_bench_shapes";
    if (!parent.Has(kKey)) return absl::OkStatus();
    std::vector<AxisValues> shapes;
    std::vector<double> weights;
    KC_RETURN_IF_ERROR(ParseShapes(parent, kKey, kMaxBenchShapes, shapes, &weights));
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (std::ranges::find(bench_shapes, shapes[i]) != bench_shapes.end()) {
        return Error(parent.At(kKey).Item(i), ShapeName(shapes[i]) + " is a bench shape");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ParseTargets(const Cursor& top) {
    const Cursor targets = top.At("targets");
    KC_RETURN_IF_ERROR(ExpectMapping(targets));
    if (targets.node->entries.empty()) return Error(targets, "names no target");
    if (targets.node->entries.size() > kMaxTargets) {
      return Error(targets, absl::StrCat("more than ", kMaxTargets, " targets"));
    }
    for (const auto& [key, line, value] : targets.node->entries) {
      if (key.size() > kMaxYamlNameBytes || !IsLowerName(key) || !IsToken(key)) {
        return ErrorAtLine(targets, line,
                           Quoted(key) + " is not a name of a-z, 0-9 and _ without _ in front");
      }
      KC_ASSIGN_OR_RETURN(ProblemTarget target, ParseTarget(top, targets.Child(value, key), key));
      problem_.targets.emplace(key, std::move(target));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ProblemTarget> ParseTarget(const Cursor& top, const Cursor& at,
                                            const std::string& name) {
    const bool is_cpu = name == kCpuTargetName;
    KC_RETURN_IF_ERROR(ExpectMapping(at));
    const bool is_device =
        !is_cpu && at.Has("reference") && at.At("reference").node->kind == YamlNode::Kind::kMapping;
    std::vector<std::string> required = {"reference"};
    std::vector<std::string> optional = {"space", "check_shapes", "bench_shapes",
                                         "held_out_bench_shapes"};
    if (!is_device) optional.insert(optional.begin(), "flags");
    if (!is_cpu) {
      const bool needs_oracle = is_device || name == kCudaTargetName;
      (needs_oracle ? required : optional).emplace_back("oracle");
    }
    KC_RETURN_IF_ERROR(ExpectKeys(at, required, optional));
    if (is_cpu) KC_RETURN_IF_ERROR(CheckCpuDataTypes(top));

    ProblemTarget target;
    if (is_device) {
      target.kind = CandidateKind::kDeviceCuda;
      KC_ASSIGN_OR_RETURN(target.reference, ParseDeviceProgram(at.At("reference")));
    } else {
      KC_ASSIGN_OR_RETURN(target.reference.source,
                          files_.ReadSource(at.At("reference"), "", target.reference.file));
      if (at.Has("flags")) {
        KC_ASSIGN_OR_RETURN(target.reference.flags, ReadFlags(at.At("flags")));
      }
    }
    if (at.Has("oracle")) {
      KC_ASSIGN_OR_RETURN(target.oracle, ParseDeviceProgram(at.At("oracle")));
    } else if (!top.Has("oracle")) {
      return Error(top, absl::StrCat("missing key 'oracle', which target ", name, " needs"));
    }
    target.check_shapes = problem_.check_shapes;
    if (at.Has("check_shapes")) {
      target.check_shapes.clear();
      KC_RETURN_IF_ERROR(ParseShapes(at, "check_shapes", kMaxCheckShapes, target.check_shapes));
    }
    target.bench_shapes = problem_.bench_shapes;
    target.bench_weights = problem_.bench_weights;
    if (at.Has("bench_shapes")) {
      target.bench_shapes.clear();
      target.bench_weights.clear();
      KC_RETURN_IF_ERROR(ParseShapes(at, "bench_shapes", kMaxBenchShapes, target.bench_shapes,
                                     &target.bench_weights));
    }
    KC_RETURN_IF_ERROR(CheckHeldOutBenchShapes(at, target.bench_shapes));
    if (at.Has("space")) {
      KC_ASSIGN_OR_RETURN(target.space,
                          ParseSpace(at.At("space"), {name, target.kind, &names_}, files_));
    }
    return target;
  }

  // Parses a device CUDA program: a source and its launches.
  absl::StatusOr<KernelProgram> ParseDeviceProgram(const Cursor& at) {
    KC_RETURN_IF_ERROR(ExpectKeys(at, {"file", "launches"}, {"workspace_bytes", "flags"}));
    KernelProgram program;
    KC_ASSIGN_OR_RETURN(program.source, files_.ReadSource(at.At("file"), "", program.file));
    if (at.Has("flags")) {
      KC_ASSIGN_OR_RETURN(program.flags, ReadFlags(at.At("flags")));
    }
    KC_ASSIGN_OR_RETURN(DeclaredLaunches declared, ParseLaunches(at, names_, names_.axes));
    program.launches = std::move(declared.launches);
    program.workspace_bytes = std::move(declared.workspace_bytes);
    return program;
  }

  absl::Status CheckCpuDataTypes(const Cursor& top) const {
    std::vector<std::string> allowed;
    for (const DataType dtype : kCpuDataTypes) allowed.emplace_back(Name(dtype));
    for (const char* key : {"inputs", "outputs"}) {
      const Cursor list = top.At(key);
      for (size_t i = 0; i < list.node->items.size(); ++i) {
        const Cursor at = list.Item(i).At("dtype");
        if (std::ranges::find(allowed, at.node->scalar) == allowed.end()) {
          return Error(at,
                       absl::StrCat(Quoted(at.node->scalar), " is not for target cpu, which takes ",
                                    CommaList(allowed)));
        }
      }
    }
    return absl::OkStatus();
  }

  ProblemFileReader files_;
  Problem problem_;
  DeclaredNames names_;
};

}  // namespace

absl::StatusOr<Problem> ParseProblem(std::vector<ProblemFile> files) {
  if (IsPythonTask(files)) return ParsePythonTask(std::move(files));
  GivenFiles given;
  for (ProblemFile& file : files) KC_RETURN_IF_ERROR(given.Add(std::move(file)));
  ProblemParser parser(given);
  KC_ASSIGN_OR_RETURN(Problem problem, parser.Parse());
  for (const auto& [path, content] : given.files()) {
    if (!parser.files_read().contains(path)) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", Quoted(path), " is not named by problem.yaml or a space"));
    }
  }
  return problem;
}

absl::StatusOr<std::vector<ProblemFile>> ReadProblemFolder(const std::string& path) {
  std::error_code error;
  const std::string& folder = path;
  // problem.yaml wins where a folder has both.
  if (!std::filesystem::exists(std::filesystem::path(path) / kProblemFileName, error) &&
      IsTaskPath(path)) {
    return ReadTaskFiles(path);
  }
  const std::filesystem::path canonical = std::filesystem::canonical(folder, error);
  if (error || !std::filesystem::is_directory(canonical, error)) {
    return absl::NotFoundError(absl::StrCat("no folder ", Quoted(folder, 255)));
  }
  if (!std::filesystem::exists(canonical / kProblemFileName, error)) {
    return absl::NotFoundError(
        absl::StrCat("folder ", Quoted(folder, 255), " holds no problem.yaml"));
  }
  FolderFiles source(canonical);
  ProblemParser parser(source);
  KC_ASSIGN_OR_RETURN(Problem problem, parser.Parse());
  return std::move(problem.files);
}

}  // namespace kernelcast
