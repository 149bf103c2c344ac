// ParseProblem and ReadProblemFolder: one parser over two sources of files. Every error names the
// file, the line, the field and what is allowed.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status.h"
#include "common/domain/problem.h"
#include "common/domain/python_task.h"
#include "common/domain/task_files.h"
#include "common/domain/tensor_parser.h"
#include "common/domain/text.h"
#include "common/domain/yaml_cursor.h"
#include "common/domain/yaml_tree.h"

namespace kernelcast {
namespace {

constexpr std::string_view kProblemFileName = "problem.yaml";
constexpr int64_t kMaxDeclaredExtent = int64_t{1} << 40;
constexpr size_t kMaxPathBytes = 255;
constexpr size_t kMaxTitleBytes = 200;
constexpr size_t kMaxDescriptionBytes = 16 << 10;
constexpr size_t kMaxArgumentBytes = 1024;
constexpr size_t kMaxAxes = 10;
constexpr size_t kMaxTensors = 16;
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxCheckShapes = 64;
constexpr size_t kMaxBenchShapes = 8;
constexpr size_t kMaxTargets = 32;
constexpr size_t kMaxTemplates = 256;
constexpr size_t kMaxDimensions = 32;
constexpr size_t kMaxValues = 1024;
constexpr size_t kMaxFlagSets = 64;
// Maximum size of the lines before a template, with kMaxDimensions names and values of
// kMaxYamlNameBytes.
constexpr int64_t kMaxPrologueBytes = 8 << 10;
constexpr size_t kMaxConstraints = 32;
constexpr int64_t kMaxPoints = 1'000'000;
// Points times constraints. Bounds the time to list a space to a few seconds.
constexpr int64_t kMaxConstraintChecks = 4'000'000;
// Maximum number of points to try when checking that constraints admit any.
constexpr int kConstraintTrials = 20'000;
// Maximum FLOPs and bytes of one call. Far more than tensors of the largest size need, and small
// enough for the times computed from them.
constexpr double kMaxDeclaredWork = 1e18;
// dtypes that the C entry on a cpu can use without an additional library.
constexpr DataType kCpuDataTypes[] = {DataType::kFloat64, DataType::kFloat32, DataType::kInt64,
                                      DataType::kInt32};

// Source of the contents of a problem's files.
class FileSource {
 public:
  virtual ~FileSource() = default;
  // The error describes the file without naming it.
  [[nodiscard]] virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
};

absl::StatusOr<std::vector<std::string>> ReadFlags(const Cursor& at) {
  KC_RETURN_IF_ERROR(ExpectList(at, 0, kMaxFlags));
  std::vector<std::string> flags;
  for (size_t i = 0; i < at.node->items.size(); ++i) {
    KC_ASSIGN_OR_RETURN(std::string flag, ReadText(at.Item(i), 255));
    if (!IsFlagShaped(flag)) {
      return Error(at.Item(i), Quoted(flag) + " is not one compiler flag such as -ffast-math");
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

// Checks that a path is relative, '/'-separated, and needs no quoting in a shell, a #line or a URL.
absl::Status CheckRelativePath(std::string_view path) {
  const auto invalid = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("path ", Quoted(path), " ", why));
  };
  if (path.empty()) return invalid("is empty");
  if (path.size() > kMaxPathBytes) {
    return invalid(absl::StrCat("is longer than ", kMaxPathBytes, " bytes"));
  }
  if (path[0] == '/') return invalid("is absolute; it must be relative to the problem's folder");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part == "..") return invalid("leaves the problem's folder");
    if (part.empty() || part == ".") return invalid("has an empty or '.' part");
    begin = end + 1;
  }
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-+/").find(c) != std::string_view::npos;
    if (!plain) return invalid("has a character other than letters, digits and _ . - + /");
  }
  return absl::OkStatus();
}

std::string ShapeName(const AxisValues& shape) {
  std::string text;
  for (const auto& [axis, value] : shape) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", axis, "=", value);
  }
  return text;
}

class ProblemParser {
 public:
  explicit ProblemParser(FileSource& source) : source_(source) {}

  // `files_read()` is valid even after a failure.
  absl::StatusOr<Problem> Parse() {
    const std::string file(kProblemFileName);
    const absl::StatusOr<std::string> content = ReadWhole(file);
    if (!content.ok()) {
      return absl::Status(content.status().code(),
                          absl::StrCat(file, ": ", content.status().message()));
    }
    KC_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(file, *content));
    const Cursor top{&file, &root, "", root.line};
    KC_RETURN_IF_ERROR(ParseTop(top));
    for (const auto& [path, text] : files_) problem_.files.push_back({path, text});
    problem_.problem_id = ProblemId(problem_.files);
    return std::move(problem_);
  }

  const std::map<std::string, std::string>& files_read() const { return files_; }

 private:
  // Reads a file once. The error does not name it.
  absl::StatusOr<std::string> ReadWhole(const std::string& path) {
    if (const auto known = files_.find(path); known != files_.end()) return known->second;
    KC_ASSIGN_OR_RETURN(std::string content, source_.Read(path));
    total_bytes_ += static_cast<int64_t>(content.size());
    if (total_bytes_ > kMaxProblemBytes) {
      return absl::InvalidArgumentError(absl::StrCat("the files of the problem have more than ",
                                                     kMaxProblemBytes, " bytes in all"));
    }
    files_[path] = content;
    return content;
  }

  // Reads the file that a value names, relative to `folder` ("" or ending in '/').
  absl::StatusOr<std::string> ReadNamedFile(const Cursor& at, const std::string& folder,
                                            std::string& path) {
    KC_ASSIGN_OR_RETURN(const std::string name, ReadText(at, kMaxPathBytes));
    path = folder + name;
    if (const absl::Status status = CheckRelativePath(name); !status.ok()) return Error(at, status);
    if (const absl::Status status = CheckRelativePath(path); !status.ok()) return Error(at, status);
    absl::StatusOr<std::string> content = ReadWhole(path);
    if (!content.ok()) {
      const absl::Status error =
          Error(at, absl::StrCat("file ", Quoted(path), ": ", content.status().message()));
      return absl::Status(content.status().code(), error.message());
    }
    return content;
  }

  absl::StatusOr<std::string> ReadSourceFile(const Cursor& at, const std::string& folder,
                                             std::string& path,
                                             int64_t max_bytes = kMaxSourceBytes) {
    KC_ASSIGN_OR_RETURN(std::string source, ReadNamedFile(at, folder, path));
    const std::string file = "file " + Quoted(path);
    if (source.empty()) return Error(at, file + " is empty");
    if (static_cast<int64_t>(source.size()) > max_bytes) {
      return Error(at, absl::StrCat(file, " has ", source.size(), " bytes; at most ", max_bytes,
                                    " are allowed"));
    }
    if (!IsSourceText(source)) return Error(at, file + " is not UTF-8 text without NUL");
    return source;
  }

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
      KC_ASSIGN_OR_RETURN(problem_.flops, ReadExpression(top.At("flops"), axis_names_));
    }
    if (top.Has("bytes")) {
      KC_ASSIGN_OR_RETURN(problem_.bytes, ReadExpression(top.At("bytes"), axis_names_));
    }
    KC_RETURN_IF_ERROR(CheckHeldOutCorners(top));
    KC_RETURN_IF_ERROR(ParseShapes(top, "check_shapes", kMaxCheckShapes, problem_.check_shapes));
    KC_RETURN_IF_ERROR(ParseShapes(top, "bench_shapes", kMaxBenchShapes, problem_.bench_shapes));
    KC_RETURN_IF_ERROR(CheckHeldOutBenchShapes(top, problem_.bench_shapes));
    if (top.Has("oracle")) {
      std::string oracle_path;
      KC_ASSIGN_OR_RETURN(problem_.oracle_source,
                          ReadSourceFile(top.At("oracle"), "", oracle_path));
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
      axis_names_.push_back(axis.name);
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
        KC_ASSIGN_OR_RETURN(Expression extent, ReadExpression(shape.Item(d), axis_names_));
        tensor.shape.push_back(std::move(extent));
      }
      if (is_input) {
        const auto read = [this](const Cursor& file, std::string& path) {
          return ReadNamedFile(file, "", path);
        };
        KC_RETURN_IF_ERROR(ParseInit(at.At("init"), axis_names_, read, tensor));
        KC_RETURN_IF_ERROR(ParseAdversarial(at, tensor));
      } else {
        KC_RETURN_IF_ERROR(ParseTolerance(at, axis_names_, tensor));
      }
      tensors.push_back(std::move(tensor));
    }
    return absl::OkStatus();
  }

  absl::Status ParseTensorName(const Cursor& at, TensorSpec& tensor) {
    KC_ASSIGN_OR_RETURN(tensor.name, ReadText(at, kMaxYamlNameBytes));
    KC_RETURN_IF_ERROR(CheckVariableName(at, at.line, tensor.name));
    if (std::ranges::find(axis_names_, tensor.name) != axis_names_.end()) {
      return Error(at, Quoted(tensor.name) + " is the name of an axis");
    }
    if (tensor.name == kWorkspaceArgument) return Error(at, "'workspace' is reserved");
    if (!tensor_names_.insert(tensor.name).second) {
      return Error(at, Quoted(tensor.name) + " is the name of an earlier tensor");
    }
    return absl::OkStatus();
  }

  // Checks that the problem can run at the shapes. On failure `failed` is the first bad shape; the
  // error has no position. Iterates over tensors in the outer loop, which keeps each tensor's
  // expressions compiled.
  absl::Status CheckShapes(const std::vector<AxisValues>& shapes, const AxisValues*& failed) const {
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
        KC_RETURN_IF_ERROR(each_shape(
            [&](const AxisValues& shape) { return TensorShape(tensor, shape).status(); }));
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
    if (const absl::Status status = CheckShapes(shapes, failed); !status.ok()) {
      return Error(at, absl::StrCat("the held_out ranges allow ", ShapeName(*failed), ", at which ",
                                    status.message()));
    }
    return absl::OkStatus();
  }

  absl::Status ParseShapes(const Cursor& parent, std::string_view key, size_t at_most,
                           std::vector<AxisValues>& shapes) {
    const Cursor list = parent.At(key);
    KC_RETURN_IF_ERROR(ExpectList(list, 1, at_most));
    for (size_t i = 0; i < list.node->items.size(); ++i) {
      const Cursor at = list.Item(i);
      KC_RETURN_IF_ERROR(ExpectKeys(at, axis_names_, {}));
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
    KC_RETURN_IF_ERROR(ParseShapes(parent, kKey, kMaxBenchShapes, shapes));
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
                          ReadSourceFile(at.At("reference"), "", target.reference.file));
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
    if (at.Has("bench_shapes")) {
      target.bench_shapes.clear();
      KC_RETURN_IF_ERROR(ParseShapes(at, "bench_shapes", kMaxBenchShapes, target.bench_shapes));
    }
    KC_RETURN_IF_ERROR(CheckHeldOutBenchShapes(at, target.bench_shapes));
    if (at.Has("space")) {
      KC_ASSIGN_OR_RETURN(target.space, ParseSpace(at.At("space"), name, target.kind));
    }
    return target;
  }

  // Parses a device CUDA program: a source and its launches.
  absl::StatusOr<KernelProgram> ParseDeviceProgram(const Cursor& at) {
    KC_RETURN_IF_ERROR(ExpectKeys(at, {"file", "launches"}, {"workspace_bytes", "flags"}));
    KernelProgram program;
    KC_ASSIGN_OR_RETURN(program.source, ReadSourceFile(at.At("file"), "", program.file));
    if (at.Has("flags")) {
      KC_ASSIGN_OR_RETURN(program.flags, ReadFlags(at.At("flags")));
    }
    KC_RETURN_IF_ERROR(ParseLaunches(at, axis_names_, program.launches, program.workspace_bytes));
    return program;
  }

  // Parses `launches` and `workspace_bytes` of a mapping, with expressions over `names`.
  absl::Status ParseLaunches(const Cursor& parent, const std::vector<std::string>& names,
                             std::vector<Launch>& launches, std::string& workspace_bytes) const {
    if (parent.Has("workspace_bytes")) {
      KC_ASSIGN_OR_RETURN(workspace_bytes, ReadExpressionText(parent.At("workspace_bytes"), names));
    }
    const Cursor list = parent.At("launches");
    KC_RETURN_IF_ERROR(ExpectList(list, 1, kMaxLaunches));
    for (size_t i = 0; i < list.node->items.size(); ++i) {
      const Cursor at = list.Item(i);
      KC_RETURN_IF_ERROR(ExpectKeys(at, {"kernel", "grid", "block", "arguments"},
                                    {"shared_memory_bytes", "cluster"}));
      Launch launch;
      KC_ASSIGN_OR_RETURN(launch.kernel, ReadText(at.At("kernel"), kMaxYamlNameBytes));
      if (!IsIdentifier(launch.kernel)) {
        return Error(at.At("kernel"), Quoted(launch.kernel) + " is not the name of a kernel");
      }
      KC_ASSIGN_OR_RETURN(launch.grid, ReadExtent(at.At("grid"), 1, names));
      KC_ASSIGN_OR_RETURN(launch.block, ReadExtent(at.At("block"), 1, names));
      if (at.Has("cluster")) {
        KC_ASSIGN_OR_RETURN(launch.cluster, ReadExtent(at.At("cluster"), 0, names));
      }
      if (at.Has("shared_memory_bytes")) {
        KC_ASSIGN_OR_RETURN(launch.shared_memory_bytes,
                            ReadExpressionText(at.At("shared_memory_bytes"), names));
      }
      const Cursor arguments = at.At("arguments");
      KC_RETURN_IF_ERROR(ExpectList(arguments, 0, kMaxLaunchArguments));
      for (size_t j = 0; j < arguments.node->items.size(); ++j) {
        KC_ASSIGN_OR_RETURN(std::string argument,
                            ReadArgument(arguments.Item(j), names, !workspace_bytes.empty()));
        launch.arguments.push_back(std::move(argument));
      }
      launches.push_back(std::move(launch));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<std::string> ReadExpressionText(const Cursor& at,
                                                        const std::vector<std::string>& names) {
    KC_ASSIGN_OR_RETURN(const Expression expression, ReadExpression(at, names));
    return expression.text();
  }

  static absl::StatusOr<std::vector<std::string>> ReadExtent(
      const Cursor& at, size_t at_least, const std::vector<std::string>& names) {
    KC_RETURN_IF_ERROR(ExpectList(at, at_least, 3));
    std::vector<std::string> extent;
    for (size_t i = 0; i < at.node->items.size(); ++i) {
      KC_ASSIGN_OR_RETURN(std::string text, ReadExpressionText(at.Item(i), names));
      extent.push_back(std::move(text));
    }
    return extent;
  }

  absl::StatusOr<std::string> ReadArgument(const Cursor& at, const std::vector<std::string>& names,
                                           bool has_workspace) const {
    KC_ASSIGN_OR_RETURN(std::string text, ReadText(at, kMaxArgumentBytes));
    const absl::StatusOr<LaunchArgument> argument = ParseLaunchArgument(text);
    if (!argument.ok()) return Error(at, argument.status());
    if (argument->kind == LaunchArgument::Kind::kName) {
      const std::string& name = argument->name;
      if (tensor_names_.contains(name) ||
          std::ranges::find(axis_names_, name) != axis_names_.end()) {
        return text;
      }
      std::vector<std::string> known(tensor_names_.begin(), tensor_names_.end());
      known.insert(known.end(), axis_names_.begin(), axis_names_.end());
      known.emplace_back(kWorkspaceArgument);
      return Error(at, absl::StrCat(Quoted(text), " is not one of ", CommaList(known),
                                    ", or an expression with a type such as 3:int or 0.5:float"));
    }
    if (argument->kind == LaunchArgument::Kind::kWorkspace && !has_workspace) {
      return Error(at, Quoted(text) + " needs the key workspace_bytes");
    }
    const absl::Status expression = CheckArgumentExpression(*argument, names);
    return expression.ok() ? absl::StatusOr<std::string>(text) : Error(at, expression);
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

  absl::StatusOr<Space> ParseSpace(const Cursor& space_at, const std::string& target,
                                   CandidateKind kind) {
    std::string file;
    KC_ASSIGN_OR_RETURN(const std::string content, ReadNamedFile(space_at, "", file));
    KC_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(file, content));
    const Cursor top{&file, &root, "", root.line};
    KC_RETURN_IF_ERROR(ExpectKeys(top, {"schema", "target", "templates"}, {}));
    KC_RETURN_IF_ERROR(ReadInteger(top.At("schema"), 1, 1).status());
    Space space;
    space.kind = kind;
    KC_ASSIGN_OR_RETURN(space.target, ReadLowerName(top.At("target")));
    if (space.target != target) {
      return Error(top.At("target"), absl::StrCat(Quoted(space.target), " is not the target '",
                                                  target, "' that names this file"));
    }
    const size_t slash = file.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : file.substr(0, slash + 1);
    const Cursor list = top.At("templates");
    KC_RETURN_IF_ERROR(ExpectList(list, 1, kMaxTemplates));
    std::set<std::string> names;
    int64_t points = 0;
    int64_t checks = 0;
    int trials = kConstraintTrials;
    for (size_t i = 0; i < list.node->items.size(); ++i) {
      const Cursor at = list.Item(i);
      KC_ASSIGN_OR_RETURN(SpaceTemplate parsed, ParseTemplate(at, folder, kind));
      if (!names.insert(parsed.name).second) {
        return Error(at.At("name"), Quoted(parsed.name) + " is the name of an earlier template");
      }
      int64_t size = 1;
      for (const SpaceTemplate::Dimension& dimension : parsed.dimensions) {
        size =
            std::min<int64_t>(size * static_cast<int64_t>(dimension.values.size()), kMaxPoints + 1);
      }
      points += size;
      if (points > kMaxPoints) {
        return Error(at, absl::StrCat("the space has more than ", kMaxPoints, " points"));
      }
      checks += size * static_cast<int64_t>(parsed.constraints.size());
      if (checks > kMaxConstraintChecks) {
        return Error(at, absl::StrCat("more than ", kMaxConstraintChecks,
                                      " points times constraints in the space"));
      }
      space.templates.push_back(std::move(parsed));
      KC_RETURN_IF_ERROR(CheckSatisfiable(at, space, static_cast<int>(i), trials));
    }
    return space;
  }

  absl::StatusOr<SpaceTemplate> ParseTemplate(const Cursor& at, const std::string& folder,
                                              CandidateKind kind) {
    const bool is_device = kind == CandidateKind::kDeviceCuda;
    std::vector<std::string> required = {"name", "file"};
    std::vector<std::string> optional = {"description", "tunables", "flags", "constraints"};
    if (is_device) {
      required.emplace_back("launches");
      optional.emplace_back("workspace_bytes");
    }
    KC_RETURN_IF_ERROR(ExpectKeys(at, required, optional));
    SpaceTemplate parsed;
    KC_ASSIGN_OR_RETURN(parsed.name, ReadLowerName(at.At("name")));
    // The name becomes the value of a tunable.
    if (!IsIdentifier(parsed.name)) {
      return Error(at.At("name"), Quoted(parsed.name) + " does not begin with a letter");
    }
    if (at.Has("description")) {
      KC_ASSIGN_OR_RETURN(parsed.description, ReadText(at.At("description"), kMaxDescriptionBytes));
    }
    std::string path;
    KC_ASSIGN_OR_RETURN(parsed.source, ReadSourceFile(at.At("file"), folder, path,
                                                      kMaxSourceBytes - kMaxPrologueBytes));
    parsed.file = path.substr(folder.size());
    if (at.Has("tunables")) {
      KC_RETURN_IF_ERROR(ParseTunables(at.At("tunables"), is_device, parsed));
    }
    KC_RETURN_IF_ERROR(ParseFlagSets(at, parsed));
    const std::vector<std::string> numeric = NumericTunables(parsed);
    if (at.Has("constraints")) {
      KC_RETURN_IF_ERROR(ParseConstraints(at.At("constraints"), numeric, parsed));
    }
    if (is_device) {
      std::vector<std::string> names = axis_names_;
      names.insert(names.end(), numeric.begin(), numeric.end());
      KC_RETURN_IF_ERROR(ParseLaunches(at, names, parsed.launches, parsed.workspace_bytes));
    }
    return parsed;
  }

  absl::Status ParseTunables(const Cursor& at, bool is_device, SpaceTemplate& parsed) const {
    KC_RETURN_IF_ERROR(ExpectMapping(at));
    if (at.node->entries.size() > kMaxDimensions) {
      return Error(at, absl::StrCat(at.node->entries.size(), " tunables; at most ", kMaxDimensions,
                                    " are allowed"));
    }
    for (const auto& [key, line, value] : at.node->entries) {
      KC_RETURN_IF_ERROR(CheckVariableName(at, line, key));
      if (key == "FLAGS" || key == "TEMPLATE") {
        return ErrorAtLine(at, line, Quoted(key) + " is reserved");
      }
      if (is_device && std::ranges::find(axis_names_, key) != axis_names_.end()) {
        return ErrorAtLine(at, line, Quoted(key) + " is the name of an axis");
      }
      const Cursor values = at.Child(value, key);
      KC_RETURN_IF_ERROR(ExpectList(values, 1, kMaxValues));
      SpaceTemplate::Dimension dimension;
      dimension.name = key;
      std::set<std::string> seen;
      for (size_t i = 0; i < values.node->items.size(); ++i) {
        const Cursor item = values.Item(i);
        KC_ASSIGN_OR_RETURN(std::string text, ReadText(item, kMaxYamlNameBytes));
        if (!IsDecimalInteger(text) && !IsIdentifier(text)) {
          return Error(item, Quoted(text) + " is neither a decimal integer nor an identifier");
        }
        if (!seen.insert(text).second) return Error(item, Quoted(text) + " occurs twice");
        dimension.values.push_back(std::move(text));
      }
      parsed.dimensions.push_back(std::move(dimension));
    }
    return absl::OkStatus();
  }

  absl::Status ParseFlagSets(const Cursor& template_at, SpaceTemplate& parsed) {
    if (!template_at.Has("flags")) {
      parsed.flag_sets.emplace_back();
      return absl::OkStatus();
    }
    const Cursor at = template_at.At("flags");
    KC_RETURN_IF_ERROR(ExpectList(at, 1, kMaxFlagSets));
    for (size_t i = 0; i < at.node->items.size(); ++i) {
      KC_ASSIGN_OR_RETURN(std::vector<std::string> flags, ReadFlags(at.Item(i)));
      if (std::ranges::find(parsed.flag_sets, flags) != parsed.flag_sets.end()) {
        return Error(at.Item(i), "repeats an earlier set of flags");
      }
      parsed.flag_sets.push_back(std::move(flags));
    }
    if (parsed.flag_sets.size() > 1) {
      SpaceTemplate::Dimension dimension;
      dimension.name = "FLAGS";
      for (size_t i = 0; i < parsed.flag_sets.size(); ++i) {
        dimension.values.push_back(absl::StrCat(i));
      }
      parsed.dimensions.push_back(std::move(dimension));
    }
    return absl::OkStatus();
  }

  // Tunables that have only integer values, and so can be used in expressions.
  static std::vector<std::string> NumericTunables(const SpaceTemplate& parsed) {
    std::vector<std::string> numeric;
    for (const SpaceTemplate::Dimension& dimension : parsed.dimensions) {
      if (std::ranges::all_of(dimension.values,
                              [](const std::string& value) { return IsDecimalInteger(value); })) {
        numeric.push_back(dimension.name);
      }
    }
    return numeric;
  }

  static absl::Status ParseConstraints(const Cursor& at, const std::vector<std::string>& numeric,
                                       SpaceTemplate& parsed) {
    KC_RETURN_IF_ERROR(ExpectList(at, 0, kMaxConstraints));
    for (size_t i = 0; i < at.node->items.size(); ++i) {
      KC_ASSIGN_OR_RETURN(Expression constraint, ReadExpression(at.Item(i), numeric));
      parsed.constraints.push_back(std::move(constraint));
    }
    return absl::OkStatus();
  }

  // Checks that some point of the template is admitted. If `trials` run out, the template is
  // accepted.
  static absl::Status CheckSatisfiable(const Cursor& at, const Space& space, int template_index,
                                       int& trials) {
    const SpaceTemplate& parsed = space.templates[template_index];
    if (parsed.constraints.empty()) return absl::OkStatus();
    SpacePoint point{.template_index = template_index,
                     .values = std::vector<int>(parsed.dimensions.size(), 0)};
    do {
      if (trials-- <= 0 || Admits(space, point)) return absl::OkStatus();
    } while (NextPoint(parsed, point));
    return Error(at.At("constraints"), "no point satisfies them");
  }

  FileSource& source_;
  Problem problem_;
  std::map<std::string, std::string> files_;
  int64_t total_bytes_ = 0;
  std::vector<std::string> axis_names_;
  std::set<std::string> tensor_names_;
};

// Files sent with the call.
class GivenFiles final : public FileSource {
 public:
  [[nodiscard]] absl::Status Add(ProblemFile file) {
    KC_RETURN_IF_ERROR(CheckRelativePath(file.path));
    const std::string path = file.path;
    if (!files_.emplace(path, std::move(file.content)).second) {
      return absl::InvalidArgumentError(absl::StrCat("file ", Quoted(path), " occurs twice"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Read(const std::string& path) override {
    const auto found = files_.find(path);
    if (found == files_.end()) return absl::InvalidArgumentError("is missing");
    return found->second;
  }

  const std::map<std::string, std::string>& files() const { return files_; }

 private:
  std::map<std::string, std::string> files_;
};

// Files of a folder on disk.
class FolderFiles final : public FileSource {
 public:
  explicit FolderFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  absl::StatusOr<std::string> Read(const std::string& path) override {
    std::error_code error;
    const std::filesystem::path resolved = std::filesystem::canonical(folder_ / path, error);
    if (error) return absl::NotFoundError("does not exist");
    // A link may lead outside the folder even if the path does not.
    const auto [inside, unused] =
        std::mismatch(folder_.begin(), folder_.end(), resolved.begin(), resolved.end());
    if (inside != folder_.end()) {
      return absl::InvalidArgumentError("leaves the problem's folder");
    }
    if (!std::filesystem::is_regular_file(resolved, error)) {
      return absl::InvalidArgumentError("is not a regular file");
    }
    std::ifstream stream(resolved, std::ios::binary);
    std::string content;
    char buffer[16384];
    while (stream.read(buffer, sizeof(buffer)) || stream.gcount() > 0) {
      content.append(buffer, static_cast<size_t>(stream.gcount()));
      if (static_cast<int64_t>(content.size()) > kMaxProblemBytes) {
        return absl::InvalidArgumentError(
            absl::StrCat("has more than ", kMaxProblemBytes, " bytes"));
      }
    }
    if (!stream.eof()) return absl::NotFoundError("cannot be read");
    return content;
  }

 private:
  std::filesystem::path folder_;  // canonical
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
