#include "services/worker/cpu/assembly_facts.h"

#include <algorithm>
#include <bitset>
#include <cassert>
#include <charconv>
#include <cmath>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "services/worker/core/control_flow.h"
#include "services/worker/native/assembly_text.h"

namespace kernelcast::worker {
namespace {

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}
bool EndsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}
bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && IsSpace(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

enum class Kind {
  kOther,
  kFloatAdd,
  kFloatMultiply,
  kFloatDivideSqrt,
  kFloatFma,
  kFloatCompare,
  kReciprocal,
  kPackedInteger,
  kScalarInteger,
  kIntegerMultiplyDivide,
  kConversion,
  kShuffle,
  kBroadcast,
  kGather,
  kScatter,
  kMove,
  kBranch,
  kJump,
  kCall,
  kPrefetch,
};

bool IsFloatArithmetic(Kind kind) {
  return kind == Kind::kFloatAdd || kind == Kind::kFloatMultiply ||
         kind == Kind::kFloatDivideSqrt || kind == Kind::kFloatFma || kind == Kind::kFloatCompare ||
         kind == Kind::kReciprocal;
}

enum class CallKind { kMath, kMemory, kAllocation, kOther };

struct Instruction {
  Kind kind = Kind::kOther;
  CallKind call = CallKind::kOther;
  bool packed = false;
  bool float64 = false;
  bool masked = false;
  bool aligned_move = false;
  bool unaligned_move = false;
  bool nontemporal = false;
  bool stack_access = false;
  bool accumulates = false;
  int accumulator = -1;
  int vector_bytes = 0;  // of the registers used
  int load_bytes = 0;
  int store_bytes = 0;
  int64_t frame_bytes = 0;
  std::string_view jump_target;
  bool returns = false;
  int depth = 0;
  bool inner = false;

  int lanes() const { return packed && vector_bytes > 0 ? vector_bytes / (float64 ? 8 : 4) : 1; }
  double flops() const {
    if (!IsFloatArithmetic(kind)) {
      return 0;
    }
    return static_cast<double>(lanes()) * (kind == Kind::kFloatFma ? 2 : 1);
  }
};

// The memory operand, the register operands and the destination of an instruction.
struct Operands {
  std::vector<std::string_view> all;
  std::string_view memory;
  bool memory_is_last = false;

  std::string_view destination() const { return all.empty() ? std::string_view() : all.back(); }
};

Operands SplitOperands(std::string_view text) {
  Operands operands;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      const std::string_view operand = Trim(text.substr(start, i - start));
      if (!operand.empty()) {
        operands.all.push_back(operand);
      }
      start = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    }
  }
  for (size_t i = 0; i < operands.all.size(); ++i) {
    if (Contains(operands.all[i], "(")) {
      operands.memory = operands.all[i];
      operands.memory_is_last = i + 1 == operands.all.size();
    }
  }
  return operands;
}

int VectorBytes(std::string_view operand) {
  if (Contains(operand, "%zmm")) {
    return 64;
  }
  if (Contains(operand, "%ymm")) {
    return 32;
  }
  return Contains(operand, "%xmm") ? 16 : 0;
}

// Returns the number of the vector register that the operand starts with, or -1.
int VectorRegister(std::string_view operand) {
  if (operand.size() < 5 || operand[0] != '%' || operand.substr(2, 2) != "mm") {
    return -1;
  }
  int number = -1;
  const std::string_view digits = operand.substr(4);
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number >= 0 && number < 32 ? number : -1;
}

int GeneralBytes(std::string_view mnemonic, const Operands& operands) {
  if (StartsWith(mnemonic, "movz") || StartsWith(mnemonic, "movs")) {
    // movzbl, movslq, ...: the first letter after the stem is the width read.
    const char from = mnemonic.size() > 4 ? mnemonic[4] : 'q';
    return from == 'b' ? 1 : from == 'w' ? 2 : from == 'l' ? 4 : 8;
  }
  for (const std::string_view operand : operands.all) {
    if (StartsWith(operand, "%r")) {
      return EndsWith(operand, "d") ? 4 : 8;
    }
    if (StartsWith(operand, "%e")) {
      return 4;
    }
  }
  const char suffix = mnemonic.empty() ? 'q' : mnemonic.back();
  return suffix == 'b' ? 1 : suffix == 'w' ? 2 : suffix == 'l' ? 4 : 8;
}

CallKind ClassifyCall(std::string_view target) {
  const size_t at = target.find('@');
  std::string_view name = target.substr(0, at);
  if (StartsWith(name, "*")) {
    name.remove_prefix(1);
  }
  if (StartsWith(name, "_ZGV")) {
    return CallKind::kMath;
  }
  static const std::set<std::string_view> kMemory = {"memcpy", "memmove", "memset",
                                                     "memcmp", "memchr",  "strlen"};
  static const std::set<std::string_view> kAllocation = {"malloc",
                                                         "calloc",
                                                         "realloc",
                                                         "free",
                                                         "aligned_alloc",
                                                         "posix_memalign",
                                                         "_Znwm",
                                                         "_ZdlPvm",
                                                         "_ZdlPv",
                                                         "_Znam",
                                                         "_ZdaPv",
                                                         "_ZnwmSt11align_val_t",
                                                         "_ZdlPvmSt11align_val_t"};
  static const std::set<std::string_view> kMath = {
      "exp",   "exp2", "expm1", "exp10",  "log",    "log2",      "log10", "log1p",     "pow",
      "sin",   "cos",  "tan",   "asin",   "acos",   "atan",      "atan2", "sinh",      "cosh",
      "tanh",  "erf",  "erfc",  "tgamma", "lgamma", "sqrt",      "cbrt",  "hypot",     "fmod",
      "floor", "ceil", "round", "trunc",  "rint",   "nearbyint", "lrint", "llrint",    "lround",
      "fmin",  "fmax", "fma",   "ldexp",  "frexp",  "sincos",    "modf",  "remainder", "scalbn"};
  if (kMemory.count(name) > 0) {
    return CallKind::kMemory;
  }
  if (kAllocation.count(name) > 0) {
    return CallKind::kAllocation;
  }
  if (StartsWith(name, "__") && EndsWith(name, "_finite")) {
    return CallKind::kMath;
  }
  if (kMath.count(name) > 0 ||
      (EndsWith(name, "f") && kMath.count(name.substr(0, name.size() - 1)) > 0)) {
    return CallKind::kMath;
  }
  return CallKind::kOther;
}

// Mnemonic of an SSE or AVX float instruction without its "v" and its type, e.g. "add" for
// "vaddps". Empty for other instructions.
struct FloatForm {
  std::string_view stem;
  bool packed = false;
  bool float64 = false;
};

FloatForm ParseFloatForm(std::string_view mnemonic) {
  FloatForm form;
  std::string_view rest = mnemonic;
  if (StartsWith(rest, "v")) {
    rest.remove_prefix(1);
  }
  if (rest.size() < 3) {
    return form;
  }
  const std::string_view type = rest.substr(rest.size() - 2);
  if (type != "ps" && type != "pd" && type != "ss" && type != "sd") {
    return form;
  }
  form.packed = type[0] == 'p';
  form.float64 = type[1] == 'd';
  form.stem = rest.substr(0, rest.size() - 2);
  return form;
}

Kind ClassifyFloat(std::string_view stem) {
  if (stem == "add" || stem == "sub" || stem == "addsub" || stem == "hadd" || stem == "hsub" ||
      stem == "reduce" || stem == "scalef") {
    return Kind::kFloatAdd;
  }
  if (stem == "mul" || stem == "dp") {
    return Kind::kFloatMultiply;
  }
  if (stem == "div" || stem == "sqrt") {
    return Kind::kFloatDivideSqrt;
  }
  if (StartsWith(stem, "fmadd") || StartsWith(stem, "fmsub") || StartsWith(stem, "fnmadd") ||
      StartsWith(stem, "fnmsub")) {
    return Kind::kFloatFma;
  }
  if (stem == "min" || stem == "max" || stem == "comi" || stem == "ucomi" || stem == "range" ||
      stem == "round" || stem == "rndscale" || stem == "getexp" || stem == "getmant" ||
      StartsWith(stem, "cmp") || StartsWith(stem, "blend") || StartsWith(stem, "fixupimm")) {
    return Kind::kFloatCompare;
  }
  if (StartsWith(stem, "rcp") || StartsWith(stem, "rsqrt")) {
    return Kind::kReciprocal;
  }
  if (StartsWith(stem, "unpck") || StartsWith(stem, "shuf") || StartsWith(stem, "perm") ||
      StartsWith(stem, "insert") || StartsWith(stem, "extract") || stem == "movhl" ||
      stem == "movlh" || stem == "movh" || stem == "movl" || stem == "movshdup" ||
      stem == "compress" || stem == "expand") {
    return Kind::kShuffle;
  }
  if (StartsWith(stem, "gather")) {
    return Kind::kGather;
  }
  if (StartsWith(stem, "scatter")) {
    return Kind::kScatter;
  }
  if (StartsWith(stem, "broadcast")) {
    return Kind::kBroadcast;
  }
  if (StartsWith(stem, "and") || StartsWith(stem, "or") || StartsWith(stem, "xor") ||
      StartsWith(stem, "test")) {
    return Kind::kPackedInteger;
  }
  if (StartsWith(stem, "mov") || stem == "maskmov" || stem == "lddqu") {
    return Kind::kMove;
  }
  return Kind::kOther;
}

Kind ClassifyGeneral(std::string_view mnemonic) {
  if (StartsWith(mnemonic, "imul") || StartsWith(mnemonic, "mul") || StartsWith(mnemonic, "idiv") ||
      StartsWith(mnemonic, "div")) {
    return Kind::kIntegerMultiplyDivide;
  }
  static const std::set<std::string_view> kStems = {
      "add",    "sub",  "lea",  "inc",  "dec",  "neg",   "not",  "and",  "or",    "xor",
      "shl",    "sal",  "shr",  "sar",  "rol",  "ror",   "cmp",  "test", "sbb",   "adc",
      "bsf",    "bsr",  "sarx", "shlx", "shrx", "andn",  "bt",   "bzhi", "lzcnt", "tzcnt",
      "popcnt", "rorx", "mulx", "pext", "pdep", "bextr", "blsr", "bswap"};
  std::string_view stem = mnemonic;
  if (kStems.count(stem) > 0) {
    return Kind::kScalarInteger;
  }
  if (!stem.empty() && Contains("bwlq", stem.substr(stem.size() - 1))) {
    stem.remove_suffix(1);
    if (kStems.count(stem) > 0) {
      return Kind::kScalarInteger;
    }
  }
  if (StartsWith(mnemonic, "set") || StartsWith(mnemonic, "cmov")) {
    return Kind::kScalarInteger;
  }
  return StartsWith(mnemonic, "mov") ? Kind::kMove : Kind::kOther;
}

Kind ClassifyVectorInteger(std::string_view rest) {
  if (StartsWith(rest, "pgather")) {
    return Kind::kGather;
  }
  if (StartsWith(rest, "pscatter")) {
    return Kind::kScatter;
  }
  if (StartsWith(rest, "pbroadcast") || StartsWith(rest, "broadcast")) {
    return Kind::kBroadcast;
  }
  if (StartsWith(rest, "pshuf") || StartsWith(rest, "punpck") || StartsWith(rest, "perm") ||
      StartsWith(rest, "pinsr") || StartsWith(rest, "pextr") || StartsWith(rest, "palign") ||
      StartsWith(rest, "valign") || StartsWith(rest, "align") || StartsWith(rest, "insert") ||
      StartsWith(rest, "extract") || StartsWith(rest, "pack") || StartsWith(rest, "shuf") ||
      StartsWith(rest, "pcompress") || StartsWith(rest, "pexpand")) {
    return Kind::kShuffle;
  }
  if (StartsWith(rest, "pmovsx") || StartsWith(rest, "pmovzx")) {
    return Kind::kConversion;
  }
  if (StartsWith(rest, "mov") || StartsWith(rest, "pmaskmov") || StartsWith(rest, "lddqu")) {
    return Kind::kMove;
  }
  return StartsWith(rest, "p") ? Kind::kPackedInteger : Kind::kOther;
}

void AddMemory(std::string_view mnemonic, const Operands& operands, int bytes,
               Instruction& instruction) {
  if (operands.memory.empty() || bytes == 0) {
    return;
  }
  instruction.stack_access =
      Contains(operands.memory, "(%rsp") || Contains(operands.memory, "(%rbp");
  const bool compare = StartsWith(mnemonic, "cmp") || StartsWith(mnemonic, "test") ||
                       Contains(mnemonic, "comi") || StartsWith(mnemonic, "bt");
  if (operands.memory_is_last && operands.all.size() > 1 && !compare) {
    instruction.store_bytes = bytes;
    const bool plain_move = instruction.kind == Kind::kMove || instruction.kind == Kind::kScatter ||
                            instruction.kind == Kind::kShuffle ||
                            instruction.kind == Kind::kConversion || StartsWith(mnemonic, "set");
    if (!plain_move) {
      instruction.load_bytes = bytes;  // read-modify-write
    }
  } else {
    instruction.load_bytes = bytes;
  }
}

Instruction ParseInstruction(std::string_view mnemonic, std::string_view rest) {
  Instruction instruction;
  if (mnemonic[0] == 'j' || StartsWith(mnemonic, "loop")) {
    instruction.kind = mnemonic == "jmp" ? Kind::kJump : Kind::kBranch;
    instruction.jump_target = Trim(rest);
    return instruction;
  }
  if (StartsWith(mnemonic, "call")) {
    instruction.kind = Kind::kCall;
    instruction.call = ClassifyCall(Trim(rest));
    return instruction;
  }
  if (StartsWith(mnemonic, "prefetch")) {
    instruction.kind = Kind::kPrefetch;
    return instruction;
  }
  instruction.returns = StartsWith(mnemonic, "ret") || mnemonic == "ud2";
  if (StartsWith(mnemonic, "nop") || StartsWith(mnemonic, "ret") || StartsWith(mnemonic, "push") ||
      StartsWith(mnemonic, "pop") || mnemonic == "vzeroupper" || mnemonic == "leave" ||
      mnemonic == "endbr64" || mnemonic == "ud2") {
    return instruction;
  }

  const Operands operands = SplitOperands(rest);
  for (const std::string_view operand : operands.all) {
    instruction.vector_bytes = std::max(instruction.vector_bytes, VectorBytes(operand));
    instruction.masked |= Contains(operand, "{%k");
  }
  const bool vector = instruction.vector_bytes > 0;
  const std::string_view bare = mnemonic[0] == 'v' ? mnemonic.substr(1) : mnemonic;

  if (vector && StartsWith(bare, "cvt")) {
    instruction.kind = Kind::kConversion;
    instruction.packed = Contains(bare.substr(3), "p") || Contains(bare, "dq2");
    const int bytes = !instruction.packed ? (EndsWith(bare, "q") || Contains(bare, "sd2") ? 8 : 4)
                                          : instruction.vector_bytes;
    AddMemory(mnemonic, operands, bytes, instruction);
    return instruction;
  }
  if (!vector) {
    instruction.kind = ClassifyGeneral(mnemonic);
    if ((StartsWith(mnemonic, "sub") || StartsWith(mnemonic, "add")) &&
        operands.destination() == "%rsp" && StartsWith(operands.all.front(), "$")) {
      const std::string_view digits = operands.all.front().substr(1);
      int64_t bytes = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
      instruction.frame_bytes = StartsWith(mnemonic, "sub") ? bytes : -bytes;
    }
    if (!StartsWith(mnemonic, "lea")) {
      AddMemory(mnemonic, operands, GeneralBytes(mnemonic, operands), instruction);
    }
    return instruction;
  }

  const FloatForm form = ParseFloatForm(mnemonic);
  int memory_bytes = instruction.vector_bytes;
  if (!form.stem.empty()) {
    instruction.kind = ClassifyFloat(form.stem);
    instruction.packed = form.packed;
    instruction.float64 = form.float64;
    if (!form.packed || Contains(operands.memory, "{1to") || instruction.kind == Kind::kBroadcast) {
      memory_bytes = form.float64 ? 8 : 4;
    }
    instruction.aligned_move = StartsWith(form.stem, "mova") && form.packed;
    instruction.unaligned_move = StartsWith(form.stem, "movu");
    instruction.nontemporal = StartsWith(form.stem, "movnt");
    const int destination = VectorRegister(operands.destination());
    const bool sums = instruction.kind == Kind::kFloatAdd ||
                      instruction.kind == Kind::kFloatCompare ||
                      instruction.kind == Kind::kFloatMultiply;
    if (destination >= 0 && instruction.kind == Kind::kFloatFma) {
      instruction.accumulates =
          Contains(form.stem, "231") || Contains(form.stem, "132") || Contains(form.stem, "213");
    } else if (destination >= 0 && sums) {
      for (size_t i = 0; i + 1 < operands.all.size(); ++i) {
        instruction.accumulates |= VectorRegister(operands.all[i]) == destination;
      }
      instruction.accumulates |= mnemonic[0] != 'v';  // two-operand form
    }
    if (instruction.accumulates) {
      instruction.accumulator = destination;
    }
  } else {
    instruction.kind = ClassifyVectorInteger(bare);
    instruction.packed = true;
    if (bare == "movq" || bare == "movd") {
      memory_bytes = bare == "movq" ? 8 : 4;
      instruction.packed = false;
    } else if (instruction.kind == Kind::kBroadcast) {
      memory_bytes = EndsWith(bare, "q") ? 8 : EndsWith(bare, "d") ? 4 : memory_bytes;
    } else if (StartsWith(bare, "extract") || StartsWith(bare, "insert")) {
      memory_bytes = Contains(bare, "64x4") || Contains(bare, "32x8") ? 32 : 16;
    }
    instruction.aligned_move = StartsWith(bare, "movdqa");
    instruction.unaligned_move = StartsWith(bare, "movdqu");
    instruction.nontemporal = StartsWith(bare, "movnt");
  }
  AddMemory(mnemonic, operands, memory_bytes, instruction);
  return instruction;
}

// The instructions of a file, with loops marked.
class Listing {
 public:
  explicit Listing(std::string_view assembly) {
    size_t start = 0;
    while (start < assembly.size()) {
      size_t end = assembly.find('\n', start);
      if (end == std::string_view::npos) {
        end = assembly.size();
      }
      AddLine(assembly.substr(start, end - start));
      start = end + 1;
    }
    EndFunction();
  }

  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<Loop>& loops() const { return loops_; }
  int functions() const { return functions_; }
  int labels() const { return labels_count_; }
  int max_depth() const { return max_depth_; }
  size_t vector_registers() const { return vector_registers_.count(); }

 private:
  void AddLine(std::string_view line) {
    const size_t comment = line.find('#');
    line = Trim(line.substr(0, comment));
    if (line.empty()) {
      return;
    }
    if (line.back() == ':') {
      const std::string_view label = line.substr(0, line.size() - 1);
      if (StartsWith(label, ".L")) {
        labels_[label] = instructions_.size();
        ++labels_count_;
      } else {
        EndFunction();
      }
      return;
    }
    if (line[0] == '.') {
      return;
    }
    if (line[0] == '{') {  // encoding hint of the instruction
      AddLine(line.substr(std::min(line.find('}'), line.size() - 1) + 1));
      return;
    }
    size_t space = 0;
    while (space < line.size() && !IsSpace(line[space])) {
      ++space;
    }
    const std::string_view mnemonic = line.substr(0, space);
    const std::string_view rest = Trim(line.substr(space));
    if (mnemonic == "rep" || mnemonic == "lock" || mnemonic == "notrack" || mnemonic == "bnd" ||
        (IsInstructionPrefix(mnemonic) && !rest.empty())) {
      AddLine(rest);
      return;
    }
    instructions_.push_back(ParseInstruction(mnemonic, rest));
    for (size_t at = rest.find("mm"); at != std::string_view::npos; at = rest.find("mm", at + 1)) {
      if (at >= 2 && rest[at - 2] == '%') {
        const int number = VectorRegister(rest.substr(at - 2));
        if (number >= 0) {
          vector_registers_.set(static_cast<size_t>(number));
        }
      }
    }
  }

  // Finds the loops of the function that ends here.
  void EndFunction() {
    const size_t start = function_start_;
    function_start_ = instructions_.size();
    if (start == instructions_.size()) {
      return;
    }
    ++functions_;
    std::vector<FlowStep> steps(instructions_.size() - start);
    for (size_t i = start; i < instructions_.size(); ++i) {
      const Instruction& instruction = instructions_[i];
      FlowStep& step = steps[i - start];
      step.branches = instruction.kind == Kind::kBranch || instruction.kind == Kind::kJump;
      step.falls_through = instruction.kind != Kind::kJump && !instruction.returns;
      const auto target = labels_.find(instruction.jump_target);
      if (target != labels_.end() && target->second >= start &&
          target->second < instructions_.size()) {
        step.targets.push_back(target->second - start);
      }
    }
    LoopNest nest = FindLoops(steps);
    max_depth_ = std::max(max_depth_, nest.max_depth);
    for (size_t i = 0; i < steps.size(); ++i) {
      instructions_[start + i].depth = nest.depth[i];
      instructions_[start + i].inner = nest.inner[i];
    }
    for (Loop& loop : nest.loops) {
      loop.head += start;
      for (size_t& i : loop.instructions) {
        i += start;
      }
      loops_.push_back(std::move(loop));
    }
  }

  std::vector<Instruction> instructions_;
  std::vector<Loop> loops_;
  std::unordered_map<std::string_view, size_t> labels_;
  std::bitset<32> vector_registers_;
  size_t function_start_ = 0;
  int functions_ = 0;
  int labels_count_ = 0;
  int max_depth_ = 0;
};

using Counts = std::unordered_map<std::string_view, double>;

void CountArithmetic(const Instruction& instruction, Counts& counts) {
  const bool packed = instruction.packed;
  switch (instruction.kind) {
    case Kind::kFloatAdd: ++counts[packed ? "packed_float_add" : "scalar_float_add"]; break;
    case Kind::kFloatMultiply:
      ++counts[packed ? "packed_float_multiply" : "scalar_float_multiply"];
      break;
    case Kind::kFloatDivideSqrt:
      ++counts[packed ? "packed_float_divide_sqrt" : "scalar_float_divide_sqrt"];
      break;
    case Kind::kFloatFma: ++counts[packed ? "packed_float_fma" : "scalar_float_fma"]; break;
    case Kind::kFloatCompare:
      ++counts[packed ? "packed_float_compare" : "scalar_float_compare"];
      break;
    case Kind::kReciprocal: ++counts["reciprocal_estimates"]; break;
    case Kind::kPackedInteger: ++counts["packed_integer"]; break;
    case Kind::kScalarInteger: ++counts["scalar_integer"]; break;
    case Kind::kIntegerMultiplyDivide: ++counts["integer_multiply_divide"]; break;
    case Kind::kConversion: ++counts["conversions"]; break;
    case Kind::kShuffle: ++counts["shuffles"]; break;
    case Kind::kBroadcast: ++counts["broadcasts"]; break;
    case Kind::kGather: ++counts["gathers"]; break;
    case Kind::kScatter: ++counts["scatters"]; break;
    case Kind::kBranch: ++counts["conditional_branches"]; break;
    case Kind::kJump: ++counts["jumps"]; break;
    case Kind::kPrefetch: ++counts["prefetches"]; break;
    case Kind::kCall:
      ++counts["calls"];
      if (instruction.call == CallKind::kMath) {
        ++counts["calls_math"];
      } else if (instruction.call == CallKind::kMemory) {
        ++counts["calls_memory"];
      } else if (instruction.call == CallKind::kAllocation) {
        ++counts["calls_allocation"];
      }
      break;
    case Kind::kMove:
    case Kind::kOther: break;
  }
}

void CountMemory(const Instruction& instruction, Counts& counts) {
  static constexpr std::string_view kLoads[] = {"loads_4", "loads_8", "loads_16", "loads_32",
                                                "loads_64"};
  static constexpr std::string_view kStores[] = {"stores_4", "stores_8", "stores_16", "stores_32",
                                                 "stores_64"};
  const auto bucket = [](int bytes) {
    return bytes <= 4 ? 0 : bytes <= 8 ? 1 : bytes <= 16 ? 2 : bytes <= 32 ? 3 : 4;
  };
  if (instruction.load_bytes > 0) {
    ++counts[kLoads[bucket(instruction.load_bytes)]];
  }
  if (instruction.store_bytes > 0) {
    ++counts[kStores[bucket(instruction.store_bytes)]];
  }
  counts["aligned_vector_moves"] += instruction.aligned_move ? 1 : 0;
  counts["unaligned_vector_moves"] += instruction.unaligned_move ? 1 : 0;
  counts["nontemporal_stores"] += instruction.nontemporal ? 1 : 0;
  counts["stack_accesses"] += instruction.stack_access ? 1 : 0;
  counts["masked_operations"] += instruction.masked ? 1 : 0;
}

void CountInner(const Instruction& instruction, Counts& counts) {
  ++counts["inner_instructions"];
  counts["inner_flops"] += instruction.flops();
  if (IsFloatArithmetic(instruction.kind)) {
    ++counts["inner_float_instructions"];
    counts["inner_packed_share"] += instruction.packed ? 1 : 0;
    counts["inner_fma_share"] += instruction.kind == Kind::kFloatFma ? 1 : 0;
    counts["inner_vector_bytes"] += instruction.packed    ? instruction.vector_bytes
                                    : instruction.float64 ? 8
                                                          : 4;
  }
  counts["inner_divide_sqrt"] += instruction.kind == Kind::kFloatDivideSqrt ? 1 : 0;
  counts["inner_loads"] += instruction.load_bytes > 0 ? 1 : 0;
  counts["inner_stores"] += instruction.store_bytes > 0 ? 1 : 0;
  counts["inner_load_bytes"] += instruction.load_bytes;
  counts["inner_store_bytes"] += instruction.store_bytes;
  counts["inner_stack_accesses"] += instruction.stack_access ? 1 : 0;
  switch (instruction.kind) {
    case Kind::kGather:
    case Kind::kScatter: ++counts["inner_gathers"]; break;
    case Kind::kShuffle:
    case Kind::kBroadcast: ++counts["inner_shuffles"]; break;
    case Kind::kConversion: ++counts["inner_conversions"]; break;
    case Kind::kScalarInteger:
    case Kind::kIntegerMultiplyDivide:
    case Kind::kPackedInteger: ++counts["inner_integer"]; break;
    case Kind::kBranch:
    case Kind::kJump: ++counts["inner_branches"]; break;
    case Kind::kCall:
      ++counts["inner_calls"];
      counts["inner_calls_math"] += instruction.call == CallKind::kMath ? 1 : 0;
      break;
    default: break;
  }
}

}  // namespace

CompileFacts ExtractAssemblyFacts(std::string_view assembly, int64_t text_bytes) {
  const Listing listing(assembly);
  Counts counts;
  counts["text_bytes"] = static_cast<double>(text_bytes);
  counts["instructions"] = static_cast<double>(listing.instructions().size());
  counts["functions"] = listing.functions();
  counts["labels"] = listing.labels();
  counts["loops"] = static_cast<double>(listing.loops().size());
  counts["loop_depth"] = listing.max_depth();
  counts["vector_registers"] = static_cast<double>(listing.vector_registers());

  double float_instructions = 0;
  for (const Instruction& instruction : listing.instructions()) {
    CountArithmetic(instruction, counts);
    CountMemory(instruction, counts);
    if (instruction.inner) {
      CountInner(instruction, counts);
    }
    double& widest = counts["widest_vector_bytes"];
    widest = std::max(widest, static_cast<double>(instruction.vector_bytes));
    double& frame = counts["frame_bytes"];
    frame = std::max(frame, static_cast<double>(instruction.frame_bytes));
    if (IsFloatArithmetic(instruction.kind)) {
      ++float_instructions;
      counts["float64_share"] += instruction.float64 ? 1 : 0;
    }
    const double weight = std::pow(16, std::min(instruction.depth, 8));
    counts["weighted_instructions"] += weight;
    counts["weighted_flops"] += weight * instruction.flops();
    counts["weighted_bytes"] += weight * (instruction.load_bytes + instruction.store_bytes);
    counts["weighted_calls"] += instruction.kind == Kind::kCall ? weight : 0;
    counts["weighted_divide_sqrt"] += instruction.kind == Kind::kFloatDivideSqrt ? weight : 0;
  }
  for (const Loop& loop : listing.loops()) {
    if (!loop.inner) {
      continue;
    }
    ++counts["inner_loops"];
    double& largest = counts["inner_largest"];
    largest = std::max(largest, static_cast<double>(loop.instructions.size()));
    std::bitset<32> accumulators;
    for (const size_t i : loop.instructions) {
      const int accumulator = listing.instructions()[i].accumulator;
      if (accumulator >= 0) {
        accumulators.set(static_cast<size_t>(accumulator));
      }
    }
    counts["inner_accumulators"] += static_cast<double>(accumulators.count());
  }

  const auto divide = [&counts](std::string_view name, double by) {
    double& value = counts[name];
    value = by > 0 ? value / by : 0;
  };
  const double inner_bytes = counts["inner_load_bytes"] + counts["inner_store_bytes"];
  const double inner_instructions = counts["inner_instructions"];
  const double inner_floats = counts["inner_float_instructions"];
  counts["inner_flops_per_byte"] = counts["inner_flops"];
  counts["inner_flops_per_instruction"] = counts["inner_flops"];
  counts["inner_bytes_per_instruction"] = inner_bytes;
  divide("inner_flops_per_byte", inner_bytes);
  divide("inner_flops_per_instruction", inner_instructions);
  divide("inner_bytes_per_instruction", inner_instructions);
  divide("inner_packed_share", inner_floats);
  divide("inner_fma_share", inner_floats);
  divide("inner_vector_bytes", inner_floats);
  divide("float64_share", float_instructions);
  for (const std::string_view name : {"weighted_instructions", "weighted_flops", "weighted_bytes",
                                      "weighted_calls", "weighted_divide_sqrt"}) {
    counts[name] = std::log2(1 + counts[name]);
  }

  CompileFacts facts;
  facts.schema = std::string(kCpuAssemblySchemaId);
  for (const std::string_view name : (*FindFactSchema(kCpuAssemblySchemaId))->names) {
    facts.values.push_back(counts[name]);
  }
  assert(counts.size() == facts.values.size());  // the schema has every counted name
  return facts;
}

}  // namespace kernelcast::worker
