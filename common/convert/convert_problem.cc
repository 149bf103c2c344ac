#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/convert/convert.h"
#include "common/convert/fields.h"
#include "common/domain/python_task.h"

namespace kernelcast {
constexpr auto Pairs(DataType) {
  return std::to_array<std::pair<DataType, v1::DataType>>({
      {DataType::kFloat64, v1::DATA_TYPE_FLOAT64},
      {DataType::kFloat32, v1::DATA_TYPE_FLOAT32},
      {DataType::kFloat16, v1::DATA_TYPE_FLOAT16},
      {DataType::kBfloat16, v1::DATA_TYPE_BFLOAT16},
      {DataType::kFloat8E4m3, v1::DATA_TYPE_FLOAT8_E4M3},
      {DataType::kFloat8E5m2, v1::DATA_TYPE_FLOAT8_E5M2},
      {DataType::kInt64, v1::DATA_TYPE_INT64},
      {DataType::kInt32, v1::DATA_TYPE_INT32},
      {DataType::kInt8, v1::DATA_TYPE_INT8},
      {DataType::kUint8, v1::DATA_TYPE_UINT8},
  });
}

namespace {

using convert_internal::EnumToProto;
using convert_internal::Utf8;

v1::TensorSpec TensorToProto(const TensorSpec& tensor) {
  v1::TensorSpec proto;
  proto.set_name(Utf8(tensor.name));
  proto.set_dtype(EnumToProto(tensor.dtype));
  for (const Expression& size : tensor.shape) {
    proto.add_shape(Utf8(size.text()));
  }
  return proto;
}

}  // namespace

v1::ProblemDefinition ToProto(const Problem& problem) {
  v1::ProblemDefinition proto;
  proto.set_problem_id(Utf8(problem.problem_id));
  proto.set_name(Utf8(problem.name));
  proto.set_title(Utf8(problem.title));
  proto.set_family(Utf8(problem.family));
  proto.set_description(Utf8(problem.description));
  if (problem.task) proto.set_task_format(std::string(Name(problem.task->format)));
  for (const Axis& axis : problem.axes) {
    v1::Axis* const added = proto.add_axes();
    added->set_name(Utf8(axis.name));
    added->set_held_out_low(axis.held_out_low);
    added->set_held_out_high(axis.held_out_high);
    added->set_multiple_of(axis.multiple_of);
    added->set_type(std::string(Name(axis.type)));
  }
  for (const TensorSpec& input : problem.inputs) {
    *proto.add_inputs() = TensorToProto(input);
  }
  for (const TensorSpec& output : problem.outputs) {
    v1::TensorSpec* const added = proto.add_outputs();
    *added = TensorToProto(output);
    v1::Tolerance* const tolerance = added->mutable_tolerance();
    tolerance->set_atol(output.tolerance.atol);
    tolerance->set_rtol(output.tolerance.rtol);
    tolerance->set_normwise(output.tolerance.normwise);
    const ToleranceExpressions& expressions = output.tolerance_expressions;
    if (expressions.atol) tolerance->set_atol_expression(Utf8(expressions.atol->text()));
    if (expressions.rtol) tolerance->set_rtol_expression(Utf8(expressions.rtol->text()));
    if (expressions.normwise) {
      tolerance->set_normwise_expression(Utf8(expressions.normwise->text()));
    }
  }
  for (const AxisValues& shape : problem.check_shapes) {
    *proto.add_check_shapes() = WriteFields<v1::AxisValues>(shape);
  }
  for (const AxisValues& shape : problem.bench_shapes) {
    *proto.add_bench_shapes() = WriteFields<v1::AxisValues>(shape);
  }
  if (!problem.bench_weights.empty()) {
    const std::vector<double> weights =
        NormalizedWeights(problem.bench_weights, problem.bench_shapes.size());
    proto.mutable_bench_weights()->Assign(weights.begin(), weights.end());
  }
  for (const auto& [name, target] : problem.targets) {
    proto.add_targets(Utf8(name));
    if (target.space.has_value()) {
      (*proto.mutable_space_points())[Utf8(name)] = EnumeratePoints(*target.space).size();
    }
  }
  return proto;
}

v1::Problem ProblemFilesToProto(const Problem& problem) {
  v1::Problem proto;
  proto.set_problem_id(Utf8(problem.problem_id));
  for (const ProblemFile& file : problem.files) {
    v1::SourceFile* const added = proto.add_files();
    added->set_path(Utf8(file.path));
    added->set_content(file.content);
  }
  return proto;
}

absl::StatusOr<ProblemContent> ContentFromProto(const v1::Problem& proto) {
  ProblemContent content;
  content.files.reserve(proto.files_size());
  for (const v1::SourceFile& file : proto.files()) {
    content.files.push_back({file.path(), file.content()});
    // An id that is given is that of the files as they are.
    if (proto.problem_id().empty()) DropByteOrderMark(content.files.back().content);
  }
  content.problem_id = ProblemId(content.files);
  if (!proto.problem_id().empty() && proto.problem_id() != content.problem_id) {
    return absl::InvalidArgumentError(absl::StrCat("problem_id: '", proto.problem_id(),
                                                   "' is not the hash of the files, which is '",
                                                   content.problem_id, "'"));
  }
  return content;
}

absl::StatusOr<Problem> ProblemFromProto(const v1::Problem& proto) {
  KC_ASSIGN_OR_RETURN(ProblemContent content, ContentFromProto(proto));
  return ParseProblem(std::move(content.files));
}

}  // namespace kernelcast
