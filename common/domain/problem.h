#ifndef KERNELCAST_COMMON_DOMAIN_PROBLEM_H_
#define KERNELCAST_COMMON_DOMAIN_PROBLEM_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/expression.h"

namespace kernelcast {

enum class DataType {
  kFloat64,
  kFloat32,
  kFloat16,
  kBfloat16,
  kFloat8E4m3,
  kFloat8E5m2,
  kInt64,
  kInt32,
  kInt8,
  kUint8,
};

int64_t SizeBytes(DataType dtype);
bool IsFloat(DataType dtype);
std::string_view Name(DataType dtype);  // "float32"
[[nodiscard]] absl::StatusOr<DataType> ParseDataType(std::string_view name);

// One value per axis.
using AxisValues = std::map<std::string, int64_t, std::less<>>;

struct Axis {
  std::string name;
  int64_t held_out_low = 1;
  int64_t held_out_high = 64;
  int64_t multiple_of = 1;
};

enum class Adversarial { kLarge, kEqualRows, kZeros, kExtreme };
std::string_view Name(Adversarial distribution);  // "equal_rows"

struct Normal {
  double mean = 0;
  double stddev = 1;
};
struct Uniform {
  double low = 0;
  double high = 1;
};
// From `low` to `high` inclusive, both over the axes.
struct Integers {
  Expression low;
  Expression high;
};
struct Constant {
  double value = 0;
};
using InitDistribution = std::variant<Normal, Uniform, Integers, Constant>;

struct Tolerance {
  double atol = 0;
  double rtol = 0;
  double normwise = 0;
};

struct TensorSpec {
  std::string name;
  DataType dtype = DataType::kFloat32;
  std::vector<Expression> shape;
  // Inputs only.
  InitDistribution init;
  std::vector<Adversarial> adversarial;
  // Outputs only.
  Tolerance tolerance;
};

// A template of a space: a source that becomes a candidate once its tunables have values.
struct SpaceTemplate {
  std::string name;
  std::string description;
  std::string file;    // as written in the space file
  std::string source;  // its content
  struct Dimension {
    std::string name;
    std::vector<std::string> values;
  };
  // In the order of the file; where there are several flag sets they come last as the dimension
  // "FLAGS", whose values are indices into flag_sets.
  std::vector<Dimension> dimensions;
  std::vector<std::vector<std::string>> flag_sets;  // at least one
  std::vector<Expression> constraints;
  // Device CUDA only, over axes and the tunables that only have integer values.
  std::vector<Launch> launches;
  std::string workspace_bytes;  // empty: none
};

// A point: a template and one value index per dimension.
struct SpacePoint {
  int template_index = 0;
  std::vector<int> values;
  // clang-tidy 14 takes the comparison with 0 that this makes for a null pointer.
  friend auto operator<=>(const SpacePoint&,
                          const SpacePoint&) = default;  // NOLINT(modernize-use-nullptr)
};

struct Space {
  std::string target;
  CandidateKind kind = CandidateKind::kHostNative;
  std::vector<SpaceTemplate> templates;
};

// Whether the point exists and satisfies the template's constraints: each is finite and not zero.
bool Admits(const Space& space, const SpacePoint& point);
// Steps to the template's lexicographically next point, admitted or not. False after the last, and
// the point is then the first again.
bool NextPoint(const SpaceTemplate& space_template, SpacePoint& point);
// Every admitted point, in lexicographic order. At most `limit`.
std::vector<SpacePoint> EnumeratePoints(const Space& space, size_t limit = 1'000'000);
// Source, flags, tunables and launches of a point; `problem_id` and `origin` ("template:NAME") are
// set, the id too. The tunables are the template's dimensions, preceded by TEMPLATE. The point must
// exist.
Candidate CandidateFromPoint(const Space& space, const SpacePoint& point,
                             const std::string& problem_id);

inline constexpr std::string_view kCpuTargetName = "cpu";
inline constexpr std::string_view kCudaTargetName = "cuda";

// A program that comes with a problem: a reference or an oracle.
struct KernelProgram {
  std::string file;    // as written in problem.yaml
  std::string source;  // its content
  std::vector<std::string> flags;
  std::vector<Launch> launches;  // empty: host-native
  std::string workspace_bytes;   // empty: none
};

struct ProblemTarget {
  // Of the reference, and of the candidates that the space makes.
  CandidateKind kind = CandidateKind::kHostNative;
  KernelProgram reference;
  // Device CUDA in double precision: floating-point outputs are written as float64, inputs and
  // integer outputs are as declared. Absent: the problem's own oracle.
  std::optional<KernelProgram> oracle;
  std::optional<Space> space;
  // The target's own, or else the problem's.
  std::vector<AxisValues> check_shapes;
  std::vector<AxisValues> bench_shapes;
};

struct ProblemFile {
  std::string path;
  std::string content;
};

// An operation to make fast, as parsed from problem.yaml and the files that it names. Immutable
// once parsed.
struct Problem {
  std::string problem_id;
  std::string name;
  std::string title;
  std::string family;
  std::string description;
  std::vector<Axis> axes;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  // Host-native; empty only where every target has an oracle of its own.
  std::string oracle_source;
  std::map<std::string, ProblemTarget, std::less<>> targets;
  // Of targets that do not bring their own: what runs on a target uses ProblemTarget's.
  std::vector<AxisValues> check_shapes;
  std::vector<AxisValues> bench_shapes;
  std::optional<Expression> flops;
  std::optional<Expression> bytes;
  // Everything that the problem consists of, sorted by path.
  std::vector<ProblemFile> files;
};

inline constexpr int64_t kMaxProblemBytes = 3 << 20;
inline constexpr int64_t kMaxTensorElements = int64_t{1} << 28;

// "p_" and 32 hex digits over the files, sorted by path.
std::string ProblemId(const std::vector<ProblemFile>& files);

// INVALID_ARGUMENT of the form "problem.yaml:12: outputs[0].dtype: 'float31' is not one of ...".
// The files must be problem.yaml and those that it and its spaces name, no more and no less. All
// check and bench shapes, and the corners of the held-out ranges, evaluate to legal tensor shapes.
[[nodiscard]] absl::StatusOr<Problem> ParseProblem(std::vector<ProblemFile> files);

// Reads problem.yaml and just the files that it names (oracle, references, spaces, templates),
// sorted by path; ParseProblem accepts what it returns. NOT_FOUND: no such folder or file.
// INVALID_ARGUMENT as ParseProblem, and where a path or a link leaves the folder.
[[nodiscard]] absl::StatusOr<std::vector<ProblemFile>> ReadProblemFolder(const std::string& folder);

// Sizes of a tensor for given axes; each in [1, 2^40], their product at most kMaxTensorElements.
[[nodiscard]] absl::StatusOr<std::vector<int64_t>> TensorShape(const TensorSpec& tensor,
                                                               const AxisValues& axes);

// The corners of the box of axis ranges that held-out shapes are drawn from.
std::vector<AxisValues> HeldOutCorners(const Problem& problem);

// The reference of a target as a candidate, so that it is compiled and described like any other.
// NOT_FOUND: the problem has no reference for the target.
[[nodiscard]] absl::StatusOr<Candidate> ReferenceCandidate(const Problem& problem,
                                                           std::string_view target);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_PROBLEM_H_
