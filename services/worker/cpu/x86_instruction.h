#ifndef KERNELCAST_SERVICES_WORKER_CPU_X86_INSTRUCTION_H_
#define KERNELCAST_SERVICES_WORKER_CPU_X86_INSTRUCTION_H_

#include <cstdint>
#include <string_view>

// Instructions of x86-64 assembly in AT&T syntax. All functions are pure.
namespace kernelcast::worker::x86 {

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

enum class CallKind { kMath, kMemory, kAllocation, kOther };

// Effects of one instruction. Views point into the text.
struct Instruction {
  Kind kind = Kind::kOther;
  CallKind call = CallKind::kOther;
  bool packed = false;
  bool float64 = false;
  bool masked = false;  // writes under an AVX-512 mask
  bool aligned_move = false;
  bool unaligned_move = false;
  bool nontemporal = false;
  bool stack_access = false;
  bool accumulates = false;  // its destination is also an operand
  int accumulator = -1;      // the number of that vector register; -1: none
  int vector_bytes = 0;      // of the registers used
  int load_bytes = 0;
  int store_bytes = 0;
  int64_t frame_bytes = 0;
  std::string_view jump_target;
  bool returns = false;
  int depth = 0;       // the number of loops around it
  bool inner = false;  // in an innermost loop

  int lanes() const { return packed && vector_bytes > 0 ? vector_bytes / (float64 ? 8 : 4) : 1; }
  double flops() const;
};

// Whether instructions of this kind compute with floating-point numbers.
bool IsFloatArithmetic(Kind kind);

// Parses one instruction. An unknown mnemonic is of kind kOther.
Instruction ParseInstruction(std::string_view mnemonic, std::string_view operands);

// Returns the number of the vector register that the operand starts with, or -1.
int VectorRegister(std::string_view operand);

}  // namespace kernelcast::worker::x86

#endif  // KERNELCAST_SERVICES_WORKER_CPU_X86_INSTRUCTION_H_
