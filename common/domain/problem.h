#ifndef KERNELCAST_COMMON_DOMAIN_PROBLEM_H_
#define KERNELCAST_COMMON_DOMAIN_PROBLEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
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
  // C type of the kernel argument when the axis is passed to a launch.
  ScalarType type = ScalarType::kInt64;
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
// Integers from `low` to `high` inclusive. Both are expressions over the axes.
struct Integers {
  Expression low;
  Expression high;
};
struct Constant {
  double value = 0;
};
// exp of a normally distributed value.
struct LogNormal {
  double mean = 0;  // mean of the logarithm; `stddev` too
  double stddev = 1;
};
// Density proportional to x^-exponent over [low, high], both above 0.
struct PowerLaw {
  double exponent = 2;
  double low = 1;
  double high = 1000;
};
// Integers from `low` to `high` inclusive. The k-th has a probability proportional to k^-exponent.
struct Zipf {
  double exponent = 1;
  Expression low;
  Expression high;
};
// Elements of the tensor's dtype, from a file of the problem.
struct FileValues {
  std::string path;
  // Little-endian, without a header. Shared, so that copies of a problem do not copy it.
  std::shared_ptr<const std::string> elements;
  // If true, a case starts at a random element and wraps around at the end of the file. If false,
  // it starts at the first element, and the file has enough elements for every shape.
  bool random_start = true;
};
using InitDistribution =
    std::variant<Normal, Uniform, Integers, Constant, LogNormal, PowerLaw, Zipf, FileValues>;

// Rounding of drawn values. Floating point only.
struct Quantisation {
  double step = 0;                    // round to multiples of it; 0: none
  std::optional<DataType> precision;  // round to values of this narrower type
};

struct Tolerance {
  double atol = 0;
  double rtol = 0;
  double normwise = 0;
  // Whether atol is multiplied by the root mean square of the expected values, if that is above 1.
  bool scaled = true;
  // Rules of other projects' tasks. Whether an element agrees within the larger of the two bounds
  // instead of within their sum.
  bool larger_of_both = false;
  // Share of the elements that must agree. Each must be written, and finite, even so.
  double matched_ratio = 1;
  // Largest error of any element; 0: unlimited.
  double max_error = 0;
  // Infinities that agree with the same infinity.
  enum class Infinities { kBoth, kNegative, kNone };
  Infinities infinities = Infinities::kBoth;
  // Whether NaN agrees with an expected NaN. For tasks with a checker of their own.
  bool nan_agrees = false;
  // Whether an output of zeros is wrong where not all expected values are zero.
  bool not_all_zero = false;
  // The reference's own error against float64: the largest relative to the root mean square of the
  // expected values, and the norm of the error relative to theirs.
  struct OwnError {
    double largest = 0;
    double normwise = 0;
  };
  // Where it is known, an output also agrees whose error against float64 is at most kOwnErrors
  // times that. It is compared with the reference, whose own error is allowed in addition.
  std::optional<OwnError> own_error = {};
};

// The factor with which FlashAttention's tests compare kernels with PyTorch, for all dtypes.
inline constexpr double kOwnErrors = 2;

// Expressions over the axes. Each one that is set replaces the constant.
struct ToleranceExpressions {
  std::optional<Expression> atol;
  std::optional<Expression> rtol;
  std::optional<Expression> normwise;
};

struct TensorSpec {
  std::string name;
  DataType dtype = DataType::kFloat32;
  std::vector<Expression> shape;
  // Inputs only.
  InitDistribution init;
  Quantisation quantisation;
  std::vector<Adversarial> adversarial;
  // Outputs only. ToleranceAt combines the two.
  Tolerance tolerance;
  ToleranceExpressions tolerance_expressions;
};

// A template of a space: a source that becomes a candidate when its tunables get values.
struct SpaceTemplate {
  std::string name;
  std::string description;
  CandidateKind kind = CandidateKind::kHostNative;
  std::string file;    // as written in the space file
  std::string source;  // its content
  struct Dimension {
    std::string name;
    std::vector<std::string> values;
  };
  // In the order of the file. If there are several flag sets, the last dimension is "FLAGS"; its
  // values are indices into flag_sets.
  std::vector<Dimension> dimensions;
  std::vector<std::vector<std::string>> flag_sets;  // at least one
  std::vector<Expression> constraints;
  // Device programs only. Expressions over axes and the tunables that have only integer values.
  std::vector<Launch> launches;
  std::string workspace_bytes;  // empty: none
  // Device Triton only, for each launch: the tunables that give its num_warps and num_stages.
  // Empty: the launch has the value.
  struct TritonTunables {
    std::string num_warps;
    std::string num_stages;
  };
  std::vector<TritonTunables> triton_tunables;
};

// A point of a space: a template and one value index per dimension.
struct SpacePoint {
  int template_index = 0;
  std::vector<int> values;
  // clang-tidy 14 mistakes the generated comparison with 0 for a null pointer.
  friend auto operator<=>(const SpacePoint&,
                          const SpacePoint&) = default;  // NOLINT(modernize-use-nullptr)
};

struct Space {
  std::string target;
  std::vector<SpaceTemplate> templates;
};

// Whether the point exists and satisfies the template's constraints. A constraint is satisfied if
// it is finite and not zero.
bool Admits(const Space& space, const SpacePoint& point);
// Advances to the template's lexicographically next point, admitted or not. After the last point it
// wraps to the first and returns false.
bool NextPoint(const SpaceTemplate& space_template, SpacePoint& point);
// Every admitted point in lexicographic order, at most `limit`.
std::vector<SpacePoint> EnumeratePoints(const Space& space, size_t limit = 1'000'000);
// The candidate of a point: source, flags, tunables, launches, `problem_id`, `origin`
// ("template:NAME") and id. The tunables are TEMPLATE followed by the template's dimensions. The
// point must exist.
Candidate CandidateFromPoint(const Space& space, const SpacePoint& point,
                             const std::string& problem_id);

inline constexpr std::string_view kCpuTargetName = "cpu";
inline constexpr std::string_view kCudaTargetName = "cuda";

// A program that belongs to a problem: a reference or an oracle.
struct KernelProgram {
  std::string file;    // as written in problem.yaml
  std::string source;  // its content
  std::vector<std::string> flags;
  std::vector<Launch> launches;  // empty: host-native
  std::string workspace_bytes;   // empty: none
};

struct ProblemTarget {
  // Kind of the reference and of the candidates that the space generates.
  CandidateKind kind = CandidateKind::kHostNative;
  KernelProgram reference;
  // Device CUDA in double precision: floating-point outputs are written as float64, inputs and
  // integer outputs as declared. Absent: the problem's oracle is used.
  std::optional<KernelProgram> oracle;
  std::optional<Space> space;
  // Shapes of the target, or the problem's shapes if it has none of its own.
  std::vector<AxisValues> check_shapes;
  std::vector<AxisValues> bench_shapes;
  // Weights of the bench shapes in the speedup, as declared. Empty: all are equal.
  std::vector<double> bench_weights = {};
};

struct ProblemFile {
  std::string path;
  std::string content;
};

// A task of another project: Python code that defines a PyTorch reference and its inputs.
struct PythonTask {
  enum class Format { kKernelBench, kFlashInferBench, kSolExecBench, kGpuMode, kGpuModeEval };
  // One way to call the reference.
  struct Case {
    AxisValues axes;  // different in every case
    // The rule for floating-point outputs, where the format has one for all dtypes.
    std::optional<Tolerance> tolerance;
  };
  Format format = Format::kKernelBench;
  // The names that a candidate's source defines, such as "ModelNew". One, except for kGpuModeEval.
  std::vector<std::string> entries;
  std::string file;    // of the reference, for messages
  std::string source;  // of the reference
  // Further input of the format's reader in the sandbox, as JSON; empty for KernelBench. `cases` is
  // an array in the order of the cases below.
  std::string details;
  std::vector<Case> cases;
  // Whether candidates are also compared with the reference under torch.compile.
  bool compiled_baseline = false;
  // Whether only the format's rules decide about floating-point outputs.
  bool task_rules_only = false;
  // A call of the reference whose values are known, of a problem that has its tensors.
  struct Call {
    AxisValues axes;
    std::vector<std::string> inputs;   // elements, in the order of the problem's inputs
    std::vector<std::string> outputs;  // of floating-point outputs as float64
    std::vector<Tolerance> tolerances;
  };
  // Small ones, which a worker without a GPU adds. Shared, so that copies of a problem do not copy
  // them. Null: there are none.
  std::shared_ptr<const std::vector<Call>> calls;
};

// An operation to optimise, as parsed from problem.yaml and the files that it names. Immutable once
// parsed.
struct Problem {
  std::string problem_id;
  std::string name;
  std::string title;
  std::string family;
  std::string description;
  std::vector<Axis> axes;
  // Empty if the problem is a task: its code defines them.
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::optional<PythonTask> task;
  // Host-native source. Empty only if every target has its own oracle, or the problem is a task.
  std::string oracle_source;
  std::map<std::string, ProblemTarget, std::less<>> targets;
  // Shapes for targets without their own. To run a target, use the shapes in ProblemTarget.
  std::vector<AxisValues> check_shapes;
  std::vector<AxisValues> bench_shapes;
  std::vector<double> bench_weights = {};
  std::optional<Expression> flops;
  std::optional<Expression> bytes;
  // All files of the problem, sorted by path.
  std::vector<ProblemFile> files;
};

// The target of candidates that name none, if no workers are known: cpu, or the first target of a
// problem without cpu.
const std::string& DefaultTarget(const Problem& problem);

// Bounds of a declared weight of a bench shape.
inline constexpr double kMinBenchWeight = 0.001;
inline constexpr double kMaxBenchWeight = 1000;

// The weights of `count` shapes, which sum to 1: in the proportion of `declared`, or equal if there
// are not `count` of them.
std::vector<double> NormalizedWeights(std::span<const double> declared, size_t count);
// The weights of the target's bench shapes.
std::vector<double> BenchWeights(const ProblemTarget& target);

inline constexpr int64_t kMaxProblemBytes = 3 << 20;
// Where a problem is measured may have too little memory for several of them.
inline constexpr int64_t kMaxTensorElements = int64_t{1} << 33;
// At the corners of the held-out ranges. Shapes are drawn from them, so that the largest should fit
// on small devices.
inline constexpr int64_t kMaxHeldOutElements = int64_t{1} << 28;

// "p_" and 32 hex digits over the files, sorted by path.
std::string ProblemId(const std::vector<ProblemFile>& files);

// Parses a problem. The files must be a Python task (python_task.h), or exactly problem.yaml and
// the files that it and its spaces name. All check and bench shapes, and the corners of the
// held-out ranges, must evaluate to legal tensor shapes. INVALID_ARGUMENT: "problem.yaml:12:
// outputs[0].dtype: 'float31' is not one of
// ...".
[[nodiscard]] absl::StatusOr<Problem> ParseProblem(std::vector<ProblemFile> files);

// Reads the files of a Python task (task_files.h), or problem.yaml and the files that it names
// (oracle, references, spaces, templates), sorted by path, for ParseProblem. NOT_FOUND: no such
// folder or file. INVALID_ARGUMENT as for ParseProblem, or a path or link leaves the folder.
[[nodiscard]] absl::StatusOr<std::vector<ProblemFile>> ReadProblemFolder(const std::string& path);

// Sizes of a tensor for the given axes. Each is in [1, 2^40], and their product is at most
// `max_elements`.
[[nodiscard]] absl::StatusOr<std::vector<int64_t>> TensorShape(
    const TensorSpec& tensor, const AxisValues& axes, int64_t max_elements = kMaxTensorElements);

// Tolerance of an output at a shape. INVALID_ARGUMENT: an expression has no value at the shape, or
// one that is not allowed.
[[nodiscard]] absl::StatusOr<Tolerance> ToleranceAt(const TensorSpec& output,
                                                    const AxisValues& axes);

// Maximum tolerances. With a tolerance of 1 or more, an output of zeros would pass.
inline constexpr double kMaxTolerance = 0.5;
inline constexpr double kMaxIntegerTolerance = 1e6;

// Corners of the box of axis ranges from which held-out shapes are drawn.
std::vector<AxisValues> HeldOutCorners(const Problem& problem);

// The reference of a target as a candidate, so that it is compiled and described like any other.
// NOT_FOUND: the problem has no reference for the target.
[[nodiscard]] absl::StatusOr<Candidate> ReferenceCandidate(const Problem& problem,
                                                           std::string_view target);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_PROBLEM_H_
