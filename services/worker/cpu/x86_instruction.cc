#include "services/worker/cpu/x86_instruction.h"

#include <charconv>
#include <set>
#include <vector>

#include "common/base/strings.h"

namespace kernelcast::worker::x86 {
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

}  // namespace

bool IsFloatArithmetic(Kind kind) {
  return kind == Kind::kFloatAdd || kind == Kind::kFloatMultiply ||
         kind == Kind::kFloatDivideSqrt || kind == Kind::kFloatFma || kind == Kind::kFloatCompare ||
         kind == Kind::kReciprocal;
}

double Instruction::flops() const {
  if (!IsFloatArithmetic(kind)) {
    return 0;
  }
  return static_cast<double>(lanes()) * (kind == Kind::kFloatFma ? 2 : 1);
}

int VectorRegister(std::string_view operand) {
  if (operand.size() < 5 || operand[0] != '%' || operand.substr(2, 2) != "mm") {
    return -1;
  }
  int number = -1;
  const std::string_view digits = operand.substr(4);
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number >= 0 && number < 32 ? number : -1;
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

}  // namespace kernelcast::worker::x86
