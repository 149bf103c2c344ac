#include "services/worker/cuda/compiler/ptx_facts.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/base/strings.h"
#include "common/domain/launch_geometry.h"
#include "services/worker/core/control_flow.h"
#include "services/worker/cuda/compiler/occupancy.h"
#include "services/worker/virtual_gpu/text.h"

namespace kernelcast::worker {
namespace {

using virtual_gpu::IsName;
using virtual_gpu::IsSpace;
using Counts = std::unordered_map<std::string_view, double>;

int64_t NumberAt(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Removes comments and the lines that end without a semicolon.
std::string Strip(std::string_view ptx) {
  constexpr std::string_view kDirectives[] = {".loc\t",   ".loc ",   ".file\t",      ".file ",
                                              ".version", ".target", ".address_size"};
  const std::string text = virtual_gpu::WithoutComments(ptx);
  const std::string_view rest = text;
  std::string stripped;
  stripped.reserve(rest.size());
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool directive =
        rest[i] == '.' &&
        std::any_of(std::begin(kDirectives), std::end(kDirectives),
                    [&](std::string_view word) { return rest.substr(i).starts_with(word); });
    if (directive) {
      i = std::min(rest.find('\n', i), rest.size());
      stripped += '\n';
    } else {
      stripped += rest[i];
    }
  }
  return stripped;
}

struct Instruction {
  std::vector<std::string_view> parts;  // of the opcode, split at its dots
  std::string_view operands;
  bool guarded = false;

  std::string_view name() const { return parts[0]; }
  bool Has(std::string_view part) const {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  }
  bool HasPrefix(std::string_view prefix) const {
    return std::any_of(parts.begin(), parts.end(),
                       [&](std::string_view part) { return part.starts_with(prefix); });
  }
};

struct Function {
  std::vector<Instruction> instructions;
  std::unordered_map<std::string_view, size_t> labels;
  std::unordered_map<std::string_view, std::string_view> branch_targets;
};

struct Module {
  std::string text;  // the views refer to it
  std::vector<Function> functions;
  int64_t bound_threads = 0;
  int64_t bound_blocks = 0;
};

Instruction ParseInstruction(std::string_view statement) {
  Instruction instruction;
  if (statement[0] == '@') {
    instruction.guarded = true;
    size_t at = 0;
    while (at < statement.size() && !IsSpace(statement[at])) {
      ++at;
    }
    statement = Trim(statement.substr(at));
  }
  size_t end = 0;
  while (end < statement.size() && !IsSpace(statement[end]) && statement[end] != '(') {
    ++end;
  }
  std::string_view opcode = statement.substr(0, end);
  instruction.operands = Trim(statement.substr(end));
  while (!opcode.empty()) {
    const size_t dot = std::min(opcode.find('.'), opcode.size());
    if (dot > 0) {
      instruction.parts.push_back(opcode.substr(0, dot));
    }
    opcode.remove_prefix(std::min(opcode.size(), dot + 1));
  }
  return instruction;
}

// The product of the numbers, e.g. of ".maxntid 128, 2, 1".
int64_t DirectiveProduct(std::string_view header, std::string_view directive) {
  const size_t at = header.find(directive);
  if (at == std::string_view::npos) {
    return 0;
  }
  int64_t product = 1;
  std::string_view rest = header.substr(at + directive.size());
  for (int i = 0; i < 3; ++i) {
    rest = Trim(rest);
    if (rest.empty() || std::isdigit(static_cast<unsigned char>(rest[0])) == 0) {
      break;
    }
    product *= std::clamp<int64_t>(NumberAt(rest), 1, 1 << 20);
    size_t end = 0;
    while (end < rest.size() && std::isdigit(static_cast<unsigned char>(rest[end])) != 0) {
      ++end;
    }
    rest = Trim(rest.substr(end));
    if (rest.empty() || rest[0] != ',') {
      break;
    }
    rest.remove_prefix(1);
  }
  return product;
}

class Parser {
 public:
  explicit Parser(std::string_view ptx) { module_.text = Strip(ptx); }

  Module Parse() {
    const std::string_view text = module_.text;
    size_t start = 0;
    int operand_braces = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == ';' && operand_braces == 0) {
        Statement(Trim(text.substr(start, i - start)));
        start = i + 1;
      } else if (c == '{') {
        const std::string_view before = Trim(text.substr(start, i - start));
        if (scopes_ == 0 && IsFunctionHeader(before)) {
          BeginFunction(before);
          ++scopes_;
          start = i + 1;
        } else if (scopes_ > 0 && before.empty()) {
          ++scopes_;
          start = i + 1;
        } else {
          ++operand_braces;
        }
      } else if (c == '}') {
        if (operand_braces > 0) {
          --operand_braces;
        } else if (scopes_ > 0) {
          --scopes_;
          start = i + 1;
        }
      } else if (c == ':' && scopes_ > 0 && text.substr(i, 2) != "::" && text[i - 1] != ':') {
        const std::string_view label = Trim(text.substr(start, i - start));
        if (!label.empty() && std::all_of(label.begin(), label.end(), IsName)) {
          function().labels[label] = function().instructions.size();
          last_label_ = label;
          start = i + 1;
        }
      }
    }
    return std::move(module_);
  }

 private:
  Function& function() { return module_.functions.back(); }

  static bool IsFunctionHeader(std::string_view header) {
    return header.find(".entry") != std::string_view::npos ||
           header.find(".func") != std::string_view::npos;
  }

  void BeginFunction(std::string_view header) {
    module_.functions.emplace_back();
    const int64_t threads =
        std::max(DirectiveProduct(header, ".maxntid"), DirectiveProduct(header, ".reqntid"));
    module_.bound_threads = std::max(module_.bound_threads, threads);
    module_.bound_blocks =
        std::max(module_.bound_blocks, DirectiveProduct(header, ".minnctapersm"));
  }

  void Statement(std::string_view statement) {
    if (scopes_ == 0 || statement.empty()) {
      return;
    }
    if (statement.starts_with(".branchtargets")) {
      function().branch_targets[last_label_] =
          statement.substr(std::string_view(".branchtargets").size());
      return;
    }
    if (statement[0] == '.') {
      return;
    }
    Instruction instruction = ParseInstruction(statement);
    if (!instruction.parts.empty()) {
      function().instructions.push_back(std::move(instruction));
    }
  }

  Module module_;
  int scopes_ = 0;
  std::string_view last_label_;
};

std::vector<FlowStep> Flow(const Function& function) {
  std::vector<FlowStep> steps(function.instructions.size());
  const auto add_target = [&](FlowStep& step, std::string_view label) {
    const auto found = function.labels.find(Trim(label));
    if (found != function.labels.end() && found->second < steps.size()) {
      step.targets.push_back(found->second);
    }
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    const Instruction& instruction = function.instructions[i];
    FlowStep& step = steps[i];
    const std::string_view name = instruction.name();
    if (name == "bra") {
      step.branches = true;
      step.falls_through = instruction.guarded;
      add_target(step, instruction.operands);
    } else if (name == "brx") {
      step.branches = true;
      step.falls_through = instruction.guarded;
      const size_t comma = instruction.operands.rfind(',');
      const std::string_view list = comma == std::string_view::npos
                                        ? std::string_view()
                                        : Trim(instruction.operands.substr(comma + 1));
      const auto targets = function.branch_targets.find(list);
      if (targets != function.branch_targets.end()) {
        std::string_view rest = targets->second;
        while (!rest.empty()) {
          const size_t end = std::min(rest.find(','), rest.size());
          add_target(step, rest.substr(0, end));
          rest.remove_prefix(std::min(rest.size(), end + 1));
        }
      }
    } else if (name == "ret" || name == "exit" || name == "trap") {
      step.falls_through = instruction.guarded;
    }
  }
  return steps;
}

enum class Type { kNone, kPredicate, kInteger, kHalf, kHalfPair, kFloat, kFloatPair, kDouble };

struct TypeInfo {
  Type type = Type::kNone;
  int64_t bytes = 0;
};

TypeInfo InfoOf(std::string_view part) {
  if (part == "pred") return {Type::kPredicate, 0};
  if (part == "f16" || part == "bf16") return {Type::kHalf, 2};
  if (part == "f16x2" || part == "bf16x2") return {Type::kHalfPair, 4};
  if (part == "f32" || part == "tf32") return {Type::kFloat, 4};
  if (part == "f32x2") return {Type::kFloatPair, 8};
  if (part == "f64") return {Type::kDouble, 8};
  if (part.size() >= 2 && (part[0] == 's' || part[0] == 'u' || part[0] == 'b')) {
    const std::string_view bits = part.substr(1);
    if (bits == "8") return {Type::kInteger, 1};
    if (bits == "16") return {Type::kInteger, 2};
    if (bits == "32" || bits == "16x2") return {Type::kInteger, 4};
    if (bits == "64") return {Type::kInteger, 8};
    if (bits == "128") return {Type::kInteger, 16};
  }
  return {};
}

// The last type in the opcode: the type that is computed or moved.
TypeInfo LastType(const Instruction& instruction) {
  for (auto part = instruction.parts.rbegin(); part != instruction.parts.rend(); ++part) {
    const TypeInfo info = InfoOf(*part);
    if (info.type != Type::kNone) {
      return info;
    }
  }
  return {};
}

// Number of elements of a vector access.
int64_t Lanes(const Instruction& instruction) {
  return instruction.Has("v8") ? 8 : instruction.Has("v4") ? 4 : instruction.Has("v2") ? 2 : 1;
}

enum class Space { kGlobal, kShared, kLocal, kOther };

// A generic address is most often in global memory.
Space SpaceOf(const Instruction& instruction) {
  if (instruction.HasPrefix("shared")) return Space::kShared;
  if (instruction.Has("local")) return Space::kLocal;
  if (instruction.HasPrefix("param") || instruction.Has("const")) return Space::kOther;
  return Space::kGlobal;
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Counts one instruction; its weight is 16 to the power of the loops around it.
class Counter {
 public:
  explicit Counter(Counts& counts) : counts_(counts) {}

  void Count(const Instruction& instruction, double weight) {
    weight_ = weight;
    const std::string_view name = instruction.name();
    ++counts_["instructions"];
    counts_["weighted_instructions"] += weight;
    const bool branch = IsOneOf(name, {"bra", "brx"});
    if (instruction.guarded && !branch) {
      ++counts_["predicated"];
    }
    if (branch) {
      ++counts_["branches"];
    } else if (name == "call") {
      ++counts_["calls"];
    } else if (!CountMemory(instruction) && !CountSynchronisation(instruction) &&
               !CountMatrix(instruction)) {
      CountArithmetic(instruction);
    }
  }

 private:
  bool CountMemory(const Instruction& instruction) {
    const std::string_view name = instruction.name();
    if (IsOneOf(name, {"prefetch", "prefetchu", "applypriority", "discard"})) {
      ++counts_["cache_hints"];
      return true;
    }
    if (name == "cp") {
      const bool bulk = instruction.Has("bulk");
      if (instruction.Has("mbarrier") && !bulk) {
        ++counts_["mbarriers"];
      } else if (bulk && instruction.Has("prefetch")) {
        ++counts_["cache_hints"];
      } else if (!instruction.Has("commit_group") && !instruction.Has("wait_group") &&
                 !instruction.Has("wait_all")) {
        ++counts_[bulk ? "bulk_copies" : "cp_async"];
      }
      return true;
    }
    if (IsOneOf(name, {"atom", "red", "multimem"})) {
      ++counts_[SpaceOf(instruction) == Space::kShared ? "atomics_shared" : "atomics_global"];
      return true;
    }
    const bool load = name == "ld" || name == "ldu";
    if (!load && name != "st") {
      return false;
    }
    const int64_t bytes = LastType(instruction).bytes * Lanes(instruction);
    switch (SpaceOf(instruction)) {
      case Space::kGlobal: CountGlobal(instruction, load, bytes); break;
      case Space::kShared:
        ++counts_[load ? "load_shared" : "store_shared"];
        counts_[load ? "load_shared_bytes" : "store_shared_bytes"] += static_cast<double>(bytes);
        counts_["weighted_shared_bytes"] += weight_ * static_cast<double>(bytes);
        break;
      case Space::kLocal: ++counts_[load ? "load_local" : "store_local"]; break;
      case Space::kOther: break;
    }
    return true;
  }

  void CountGlobal(const Instruction& instruction, bool load, int64_t bytes) {
    static constexpr std::string_view kLoads[] = {"load_global_1", "load_global_2", "load_global_4",
                                                  "load_global_8", "load_global_16"};
    static constexpr std::string_view kStores[] = {
        "store_global_1", "store_global_2", "store_global_4", "store_global_8", "store_global_16"};
    const int bucket = bytes <= 1 ? 0 : bytes <= 2 ? 1 : bytes <= 4 ? 2 : bytes <= 8 ? 3 : 4;
    ++counts_[load ? kLoads[bucket] : kStores[bucket]];
    counts_["weighted_global_bytes"] += weight_ * static_cast<double>(bytes);
    if (load && (instruction.Has("nc") || instruction.name() == "ldu")) {
      ++counts_["load_global_readonly"];
    }
    const bool hint = std::any_of(
        instruction.parts.begin() + 1, instruction.parts.end(), [](std::string_view part) {
          return IsOneOf(part, {"ca", "cg", "cs", "lu", "cv", "wb", "wt"}) ||
                 part.starts_with("L1::") || part.starts_with("L2::");
        });
    counts_["cache_hints"] += hint ? 1 : 0;
  }

  bool CountSynchronisation(const Instruction& instruction) {
    const std::string_view name = instruction.name();
    if (name == "bar" || name == "barrier") {
      ++counts_["barriers"];
      counts_["weighted_barriers"] += weight_;
    } else if (name == "mbarrier") {
      ++counts_["mbarriers"];
    } else if (name == "shfl") {
      ++counts_["warp_shuffles"];
    } else if (IsOneOf(name, {"vote", "match", "redux"})) {
      ++counts_["warp_votes"];
    } else if (name == "membar" || name == "fence") {
      ++counts_["fences"];
    } else if (name == "setmaxnreg") {
      ++counts_["setmaxnreg"];
    } else {
      return false;
    }
    return true;
  }

  bool CountMatrix(const Instruction& instruction) {
    const std::string_view name = instruction.name();
    if (name == "mma" || (name == "wmma" && instruction.Has("mma"))) {
      ++counts_["mma_sync"];
      counts_["weighted_matrix"] += weight_;
    } else if (IsOneOf(name, {"wgmma", "tcgen05"})) {
      if (instruction.Has("mma_async") || instruction.Has("mma")) {
        ++counts_["wgmma"];
        counts_["weighted_matrix"] += weight_;
      }
    } else if (IsOneOf(name, {"ldmatrix", "stmatrix", "wmma"})) {
      ++counts_["matrix_loads"];
    } else {
      return false;
    }
    return true;
  }

  void CountArithmetic(const Instruction& instruction) {
    const std::string_view name = instruction.name();
    const Type type = LastType(instruction).type;
    if (name == "cvt") {
      ++counts_["conversions"];
      return;
    }
    if (IsOneOf(name, {"setp", "set", "selp", "slct", "testp"}) || type == Type::kPredicate) {
      ++counts_["predicates"];
    }
    if (IsOneOf(name, {"mov", "cvta", "selp", "slct", "ret", "exit", "trap", "nop", "isspacep"})) {
      return;
    }
    if (IsOneOf(name, {"rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"}) ||
        (name == "div" && type != Type::kInteger)) {
      const bool approximate = instruction.Has("approx") || instruction.Has("full") ||
                               !IsOneOf(name, {"rcp", "sqrt", "rsqrt", "div"});
      ++counts_[approximate ? "special_functions" : "float_divide"];
      counts_["weighted_special"] += weight_;
      counts_["weighted_flops"] += weight_ * (type == Type::kHalfPair ? 2 : 1);
      return;
    }
    switch (type) {
      case Type::kInteger: CountInteger(name); break;
      case Type::kHalf:
      case Type::kHalfPair:
        ++counts_[type == Type::kHalf ? "half_scalar" : "half_packed"];
        CountFlops(name, type == Type::kHalf ? 1 : 2);
        break;
      case Type::kFloat:
      case Type::kFloatPair:
        ++counts_[IsOneOf(name, {"fma", "mad"})   ? "fp32_fma"
                  : IsOneOf(name, {"add", "sub"}) ? "fp32_add"
                  : name == "mul"                 ? "fp32_multiply"
                                                  : "fp32_compare"];
        CountFlops(name, type == Type::kFloat ? 1 : 2);
        break;
      case Type::kDouble:
        ++counts_["fp64"];
        CountFlops(name, 1);
        break;
      case Type::kPredicate:
      case Type::kNone: break;
    }
  }

  void CountInteger(std::string_view name) {
    if (IsOneOf(name, {"mul", "mad", "mul24", "mad24", "madc", "dp4a", "dp2a"})) {
      ++counts_["integer_multiply"];
    } else if (name == "div" || name == "rem") {
      ++counts_["integer_divide"];
    } else if (IsOneOf(name, {"add",  "sub",  "addc", "subc", "and",  "or",    "xor",  "not",
                              "cnot", "shl",  "shr",  "shf",  "lop3", "min",   "max",  "abs",
                              "neg",  "bfe",  "bfi",  "popc", "clz",  "bfind", "brev", "prmt",
                              "sad",  "setp", "set",  "fns",  "bmsk", "szext"})) {
      ++counts_["integer"];
    }
  }

  void CountFlops(std::string_view name, int lanes) {
    const int each = IsOneOf(name, {"fma", "mad"}) ? 2 : 1;
    counts_["weighted_flops"] += weight_ * each * lanes;
  }

  Counts& counts_;
  double weight_ = 1;
};

}  // namespace

CompileFacts ExtractPtxFacts(std::string_view ptx, const Cubin& cubin,
                             std::span<const PtxasFunction> resources) {
  const Module module = Parser(ptx).Parse();
  Counts counts;
  counts["kernels"] = static_cast<double>(cubin.kernels.size());
  counts["code_bytes"] = static_cast<double>(cubin.code_bytes);
  counts["constant_bytes"] = static_cast<double>(cubin.constant_bytes);
  counts["bound_threads"] = static_cast<double>(module.bound_threads);
  counts["bound_blocks"] = static_cast<double>(module.bound_blocks);
  const auto raise = [&counts](std::string_view name, int64_t value) {
    counts[name] = std::max(counts[name], static_cast<double>(value));
  };
  for (const CubinKernel& kernel : cubin.kernels) {
    raise("registers", kernel.registers);
    raise("stack_bytes", kernel.stack_bytes);
    raise("static_shared_bytes", kernel.shared_bytes);
  }
  for (const PtxasFunction& function : resources) {
    counts["spill_store_bytes"] += static_cast<double>(function.spill_store_bytes);
    counts["spill_load_bytes"] += static_cast<double>(function.spill_load_bytes);
  }

  Counter counter(counts);
  for (const Function& function : module.functions) {
    const LoopNest nest = FindLoops(Flow(function));
    counts["loops"] += static_cast<double>(nest.loops.size());
    raise("loop_depth", nest.max_depth);
    for (size_t i = 0; i < function.instructions.size(); ++i) {
      counter.Count(function.instructions[i], std::pow(16, std::min(nest.depth[i], 8)));
      counts["inner_instructions"] += nest.inner[i] ? 1 : 0;
    }
  }
  for (const std::string_view name :
       {"weighted_instructions", "weighted_flops", "weighted_special", "weighted_global_bytes",
        "weighted_shared_bytes", "weighted_matrix", "weighted_barriers"}) {
    counts[name] = std::log2(1 + counts[name]);
  }

  CompileFacts facts;
  facts.schema = std::string(kCudaPtxSchemaId);
  size_t known = 0;
  for (const std::string_view name : (*FindFactSchema(kCudaPtxSchemaId))->names) {
    const auto found = counts.find(name);
    known += found == counts.end() ? 0 : 1;
    facts.values.push_back(found == counts.end() ? 0 : found->second);
  }
  assert(known == counts.size());  // the schema has every counted name
  static_cast<void>(known);
  return facts;
}

std::vector<LaunchShape> LaunchShapesOf(const std::vector<Launch>& launches,
                                        const std::vector<Tunable>& tunables) {
  std::vector<LaunchShape> shapes;
  for (const Launch& launch : launches) {
    const ShapelessLaunch known = WithoutShape(launch, tunables);
    shapes.push_back({launch.kernel, known.block_threads, known.shared_memory_bytes});
  }
  return shapes;
}

void AddLaunchFacts(std::span<const LaunchShape> launches, const Cubin& cubin,
                    std::string_view architecture, CompileFacts& facts) {
  const std::span<const std::string_view> names = (*FindFactSchema(kCudaPtxSchemaId))->names;
  const auto set = [&](std::string_view name, double value) {
    const auto at = std::find(names.begin(), names.end(), name);
    assert(at != names.end());
    facts.values[static_cast<size_t>(at - names.begin())] = value;
  };
  set("launches", static_cast<double>(launches.size()));
  if (launches.empty()) {
    return;
  }
  const LaunchShape& first = launches.front();
  set("launch_block_threads", static_cast<double>(first.block_threads.value_or(0)));
  set("launch_dynamic_shared_bytes", static_cast<double>(first.dynamic_shared_bytes.value_or(0)));
  const auto kernel =
      std::find_if(cubin.kernels.begin(), cubin.kernels.end(),
                   [&](const CubinKernel& candidate) { return candidate.name == first.kernel; });
  const auto limits = LimitsOf(architecture);
  if (kernel == cubin.kernels.end() || !limits || !first.block_threads ||
      !first.dynamic_shared_bytes) {
    return;
  }
  const Occupancy occupancy = ComputeOccupancy(*limits, *first.block_threads, kernel->registers,
                                               kernel->shared_bytes + *first.dynamic_shared_bytes);
  set("launch_blocks_per_sm", occupancy.blocks);
  set("launch_occupancy", occupancy.warp_share);
}

}  // namespace kernelcast::worker
