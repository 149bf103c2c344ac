#include "services/worker/virtual_gpu/bind/instructions.h"

// The table of instructions. Issue slots and latencies, which the binders set, approximate the
// machine code that ptxas generates for sm_80 to sm_90.

namespace kernelcast::worker::virtual_gpu {

// The binders, by the file that defines them.
using BindFunction = bool(const Opcode&, const Operands&, Decoder&);
// arithmetic.cc
BindFunction BindArithmetic;
// integer.cc
BindFunction BindCarry;
// packed_integer.cc
BindFunction BindDotProduct;
BindFunction BindVideo;
// floating_point.cc
BindFunction BindCopySign;
BindFunction BindDivision;
BindFunction BindSpecial;
BindFunction BindTest;
// bits.cc
BindFunction BindBitCount;
BindFunction BindBitExtract;
BindFunction BindBitInsert;
BindFunction BindBitMask;
BindFunction BindFindNthSet;
BindFunction BindFunnelShift;
BindFunction BindLogic;
BindFunction BindLookup;
BindFunction BindPermute;
BindFunction BindShift;
// comparison.cc
BindFunction BindComparison;
BindFunction BindSelection;
// conversion.cc
BindFunction BindConversion;
// move.cc
BindFunction BindCreatePolicy;
BindFunction BindIsInSpace;
BindFunction BindMove;
BindFunction BindWindow;
// warp_level.cc
BindFunction BindActiveMask;
BindFunction BindElection;
BindFunction BindMatch;
BindFunction BindReduction;
BindFunction BindShuffle;
BindFunction BindVote;
// synchronisation.cc
BindFunction BindBarrier;
BindFunction BindFence;
BindFunction BindMemoryBarrier;
BindFunction BindNothing;
// load_store.cc
BindFunction BindCacheHint;
BindFunction BindLoadStore;
// atomic.cc
BindFunction BindAtomic;
// async_copy.cc
BindFunction BindCopy;
// matrix.cc
BindFunction BindFragments;
BindFunction BindMatrix;
BindFunction BindMatrixLoad;

namespace {

// One row per instruction; the unit test of the table has a worked value for each.
constexpr InstructionEntry kInstructions[] = {
    // Arithmetic
    {"add", BindArithmetic},
    {"sub", BindArithmetic},
    {"mul", BindArithmetic},
    {"mad", BindArithmetic},
    {"fma", BindArithmetic},
    {"min", BindArithmetic},
    {"max", BindArithmetic},
    {"neg", BindArithmetic},
    {"abs", BindArithmetic},
    {"rem", BindArithmetic},
    {"sad", BindArithmetic},
    {"addc", BindCarry},
    {"subc", BindCarry},
    {"madc", BindCarry},
    {"dp2a", BindDotProduct},
    {"dp4a", BindDotProduct},
    {"vadd2", BindVideo},
    {"vadd4", BindVideo},
    {"vsub2", BindVideo},
    {"vsub4", BindVideo},
    {"vabsdiff2", BindVideo},
    {"vabsdiff4", BindVideo},
    {"vavrg2", BindVideo},
    {"vavrg4", BindVideo},
    {"vmin2", BindVideo},
    {"vmin4", BindVideo},
    {"vmax2", BindVideo},
    {"vmax4", BindVideo},
    // Floating point
    {"div", BindDivision},
    {"copysign", BindCopySign},
    {"testp", BindTest},
    {"rcp", BindSpecial},
    {"sqrt", BindSpecial},
    {"rsqrt", BindSpecial},
    {"ex2", BindSpecial},
    {"lg2", BindSpecial},
    {"sin", BindSpecial},
    {"cos", BindSpecial},
    {"tanh", BindSpecial},
    // Bits
    {"and", BindLogic},
    {"or", BindLogic},
    {"xor", BindLogic},
    {"not", BindLogic},
    {"cnot", BindLogic},
    {"brev", BindLogic},
    {"shl", BindShift},
    {"shr", BindShift},
    {"shf", BindFunnelShift},
    {"popc", BindBitCount},
    {"clz", BindBitCount},
    {"bfind", BindBitCount},
    {"bfe", BindBitExtract},
    {"bfi", BindBitInsert},
    {"bmsk", BindBitMask},
    {"szext", BindBitMask},
    {"fns", BindFindNthSet},
    {"prmt", BindPermute},
    {"lop3", BindLookup},
    // Comparisons, moves and conversions
    {"setp", BindComparison},
    {"set", BindComparison},
    {"selp", BindSelection},
    {"mov", BindMove},
    {"cvta", BindWindow},
    {"isspacep", BindIsInSpace},
    {"createpolicy", BindCreatePolicy},
    {"cvt", BindConversion},
    // Between the lanes of a warp
    {"shfl", BindShuffle},
    {"vote", BindVote},
    {"match", BindMatch},
    {"redux", BindReduction},
    {"activemask", BindActiveMask},
    {"elect", BindElection},
    // Synchronisation
    {"bar", BindBarrier},
    {"barrier", BindBarrier},
    {"membar", BindFence},
    {"fence", BindFence},
    {"mbarrier", BindMemoryBarrier},
    {"nanosleep", BindNothing},
    {"setmaxnreg", BindNothing},
    {"griddepcontrol", BindNothing},
    // Memory
    {"ld", BindLoadStore},
    {"ldu", BindLoadStore},
    {"st", BindLoadStore},
    {"atom", BindAtomic},
    {"red", BindAtomic},
    {"cp", BindCopy},
    {"prefetch", BindCacheHint},
    {"prefetchu", BindCacheHint},
    {"discard", BindCacheHint},
    {"applypriority", BindCacheHint},
    // Matrices
    {"mma", BindMatrix},
    {"wgmma", BindMatrix},
    {"wmma", BindFragments},
    {"ldmatrix", BindMatrixLoad},
    {"stmatrix", BindMatrixLoad},
};

}  // namespace

std::span<const InstructionEntry> Instructions() { return kInstructions; }

bool Bind(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  for (const InstructionEntry& entry : kInstructions) {
    if (entry.name == opcode.name()) return entry.bind(opcode, operands, decoder);
  }
  return Refuse(decoder, "not known");
}

}  // namespace kernelcast::worker::virtual_gpu
