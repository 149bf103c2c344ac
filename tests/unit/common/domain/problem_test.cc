#include "common/domain/problem.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "tests/unit/common/domain/problem_files.h"

namespace kernelcast {
namespace {

using Catch::Matchers::Equals;

TensorSpec Tensor(const std::vector<std::string>& shape) {
  TensorSpec tensor;
  tensor.name = std::string("x");
  for (const std::string& extent : shape) {
    tensor.shape.push_back(*Expression::Parse(extent, {"rows", "cols"}));
  }
  return tensor;
}

TEST_CASE("Every dtype is found by its name", "[problem]") {
  const std::vector<std::pair<DataType, int64_t>> dtypes = {
      {DataType::kFloat64, 8},  {DataType::kFloat32, 4},    {DataType::kFloat16, 2},
      {DataType::kBfloat16, 2}, {DataType::kFloat8E4m3, 1}, {DataType::kFloat8E5m2, 1},
      {DataType::kInt64, 8},    {DataType::kInt32, 4},      {DataType::kInt8, 1},
      {DataType::kUint8, 1}};
  std::set<std::string> names;
  for (const auto& [dtype, bytes] : dtypes) {
    CAPTURE(std::string(Name(dtype)));
    CHECK(names.insert(std::string(Name(dtype))).second);
    CHECK(*ParseDataType(Name(dtype)) == dtype);
    CHECK(SizeBytes(dtype) == bytes);
    CHECK(IsFloat(dtype) == (Name(dtype).find("float") != std::string_view::npos));
  }
  CHECK(ParseDataType("double").status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Adversarial distributions have names", "[problem]") {
  CHECK(Name(Adversarial::kLarge) == "large");
  CHECK(Name(Adversarial::kEqualRows) == "equal_rows");
  CHECK(Name(Adversarial::kZeros) == "zeros");
  CHECK(Name(Adversarial::kExtreme) == "extreme");
}

TEST_CASE("Tensor shapes follow the axes", "[problem]") {
  const AxisValues axes = {{"rows", 7}, {"cols", 128}};
  CHECK(*TensorShape(Tensor({"rows", "cols / 2", "3"}), axes) == std::vector<int64_t>{7, 64, 3});
  CHECK(TensorShape(Tensor({"rows"}), {{"cols", 1}}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(TensorShape(Tensor({"rows", "cols - 128"}), axes).status().message()),
             Equals("x.shape[1]: expression 'cols - 128' is 0, not a whole number from 1 to "
                    "1099511627776"));
}

TEST_CASE("Tensors have a bounded number of elements", "[problem]") {
  CHECK(TensorShape(Tensor({"rows", "cols"}), {{"rows", 1 << 17}, {"cols", 1 << 16}}).ok());
  CHECK_THAT(std::string(
                 TensorShape(Tensor({"rows", "cols"}), {{"rows", 1 << 17}, {"cols", (1 << 16) + 1}})
                     .status()
                     .message()),
             Equals("x.shape: 131072 x 65537 is more than 8589934592 elements"));
  const int64_t huge = int64_t{1} << 40;
  // Products that fit in 64 bits once they wrap.
  CHECK_THAT(std::string(TensorShape(Tensor({"rows", "rows", "rows", "rows"}), {{"rows", huge}})
                             .status()
                             .message()),
             Equals("x.shape: 1099511627776 is more than 8589934592 elements"));
  const int64_t wide = int64_t{1} << 28;
  CHECK_THAT(std::string(TensorShape(Tensor({"rows", "rows", "rows", "rows"}), {{"rows", wide}})
                             .status()
                             .message()),
             Equals("x.shape: 268435456 x 268435456 is more than 8589934592 elements"));
  CHECK_FALSE(TensorShape(Tensor({"rows * rows"}), {{"rows", huge}}).ok());
}

TEST_CASE("A problem's id does not depend on file order", "[problem]") {
  std::vector<ProblemFile> files = AsFiles(SmallProblem());
  const std::string id = ProblemId(files);
  CHECK(id.size() == 34);
  CHECK(id.substr(0, 2) == "p_");
  std::ranges::reverse(files);
  CHECK(ProblemId(files) == id);
  files[0].content.push_back(' ');
  CHECK(ProblemId(files) != id);
  files = AsFiles(SmallProblem());
  files[0].path.push_back('x');
  CHECK(ProblemId(files) != id);
}

TEST_CASE("A reference is converted to a candidate", "[problem]") {
  const Problem problem = *ParseProblem(AsFiles(SmallProblem()));
  const absl::StatusOr<Candidate> reference = ReferenceCandidate(problem, "cpu");
  REQUIRE(reference.ok());
  CHECK(reference->problem_id == problem.problem_id);
  CHECK(reference->target == "cpu");
  CHECK(reference->kind == CandidateKind::kHostNative);
  CHECK(reference->source == "// reference\n");
  CHECK(reference->flags == std::vector<std::string>{"-O2"});
  CHECK(reference->origin == "reference");
  CHECK(reference->candidate_id == CandidateId(*reference));
  CHECK(ValidateCandidate(*reference).ok());

  const Problem device = *ParseProblem(AsFiles(SmallCudaProblem()));
  const absl::StatusOr<Candidate> kernel = ReferenceCandidate(device, "cuda");
  REQUIRE(kernel.ok());
  CHECK(kernel->kind == CandidateKind::kDeviceCuda);
  CHECK(kernel->launches == device.targets.at("cuda").reference.launches);
  CHECK(kernel->candidate_id == CandidateId(*kernel));
  CHECK(ValidateCandidate(*kernel).ok());

  const absl::Status missing = ReferenceCandidate(problem, "h100").status();
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(missing.message()),
             Equals("problem scale has no reference for target 'h100'; it has cpu"));
}

}  // namespace
}  // namespace kernelcast
