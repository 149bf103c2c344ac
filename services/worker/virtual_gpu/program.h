#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PROGRAM_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PROGRAM_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The program that the virtual GPU executes: kernels with their instructions bound to handlers.

namespace kernelcast::worker::virtual_gpu {

class Warp;
struct Instruction;
using Handler = void (*)(Warp&, const Instruction&);

inline constexpr int kWarpLanes = 32;

// Category under which an instruction is counted.
enum class Kind : uint8_t {
  kMove,
  kInteger,
  kFloat32,
  kFloat64,
  kHalf,
  kConversion,
  kSpecial,
  kPredicate,
  kShuffle,
  kVote,
  kMatrix,
  kMatrixLoad,
  kControl,
  kBarrier,
  kFence,
  kLoadGlobal,
  kStoreGlobal,
  kLoadShared,
  kStoreShared,
  kLoadLocal,
  kStoreLocal,
  kLoadParameter,
  kAtomicGlobal,
  kAtomicShared,
  kAsyncCopy,
  kOther,
};
inline constexpr int kKinds = static_cast<int>(Kind::kOther) + 1;

// Units of a multiprocessor that execute instructions.
enum class Pipe : uint8_t {
  kNone,
  kFloat32,
  kInteger,
  kFloat64,
  kHalf,
  kSpecial,
  kConversion,
  kShuffle,
  kMemory,
  kTensor,
  kControl,
};
inline constexpr int kPipes = static_cast<int>(Pipe::kControl) + 1;

// The type of the factors of a matrix product.
enum class MatrixType : uint8_t { kHalf, kTf32, kFloat8, kInteger8, kFloat64, kOther };
inline constexpr int kMatrixTypes = static_cast<int>(MatrixType::kOther) + 1;

// kArgument: arguments and results of device functions.
enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParameter, kConstant, kArgument };

// Layout of values in the register file of a warp: a mask, or 32 lanes of 4 or 8 bytes.
enum class SlotClass : uint8_t { kPredicate, kWord, kLong };

struct Slot {
  SlotClass kind = SlotClass::kWord;
  bool is_float = false;
  uint32_t offset = 0;  // bytes from the start of the register file
};

// A slot with a fixed initial value.
struct SlotValue {
  enum class Source : uint8_t {
    kImmediate,
    kThreadX,
    kThreadY,
    kThreadZ,
    kBlockSizeX,
    kBlockSizeY,
    kBlockSizeZ,
    kBlockX,
    kBlockY,
    kBlockZ,
    kGridX,
    kGridY,
    kGridZ,
    kLane,
    kWarpIndex,
    kWarpsInBlock,
    kMultiprocessor,
    kMultiprocessors,
    kMaskEqual,
    kMaskLess,
    kMaskLessEqual,
    kMaskGreater,
    kMaskGreaterEqual,
    kDynamicShared,
    kTotalShared,
    kClusterBlocks,
    kClusterRank,
    kClock,
    kZero,
  };
  uint16_t slot = 0;
  Source source = Source::kImmediate;
  uint64_t bits = 0;
};

enum class Flow : uint8_t { kNext, kBranch, kExit, kBarrier, kWaitAsync };

// How a barrier reduces a predicate over all threads; stored in the code of its instruction.
enum class BarrierReduction : uint8_t { kNone, kCount, kAll, kAny };

// Instruction::driver of comparisons of integers, until the loops that they control are known.
inline constexpr int32_t kComparesIntegers = -2;

struct Instruction {
  Handler execute = nullptr;  // null for kBranch and kExit
  Flow flow = Flow::kNext;
  Kind kind = Kind::kOther;
  Pipe pipe = Pipe::kNone;
  bool guard_negated = false;
  int32_t guard = -1;  // slot of a predicate, or -1
  int32_t target = -1;
  int32_t reconverge = -1;  // of branches: where the paths meet; -1: at the end
  // For forward branches: ptxas predicates the instructions up to the target instead.
  bool predicated = false;
  int32_t loop = -1;    // of backward branches: index into Kernel::loops
  int32_t driver = -1;  // of comparisons that control a loop
  // Registers in Kernel::operands: written ones first, then read ones.
  uint32_t operands = 0;
  uint16_t writes = 0;
  uint16_t reads = 0;
  // Further parameters of the handler.
  Space space = Space::kGeneric;
  uint8_t bytes = 0;   // of one element of an access, or of a type
  uint8_t lanes = 1;   // elements of a vector access
  uint8_t code = 0;    // comparison, rounding, shuffle mode and so on
  uint8_t detail = 0;  // a second such parameter
  MatrixType matrix = MatrixType::kOther;
  int64_t immediate = 0;
  // The 1-based index of the lane mask operand of a warp-level operation; 0: none.
  uint8_t mask_operand = 0;
  bool is_atomic = false;
  bool result_unused = false;           // of an atomic
  bool uniform_address = false;         // of an atomic: provably the same for all lanes
  uint8_t shared_width = 0;             // of accesses that may go to shared memory: bytes
  bool hidden_synchronisation = false;  // orders threads in a way that the checker does not track
  bool orders_blocks = false;           // other blocks can wait for its effect, or it can wait
  // Why values may differ from a GPU's once it is executed; null: they do not.
  const char* approximates = nullptr;
  int32_t line = 0;         // of the PTX
  int32_t source_line = 0;  // of the source, from ".loc"; 0: unknown
  double flops = 0;         // of a matrix product, by the whole warp
  float issue = 1;          // issue slots: the approximate number of machine instructions
  float latency = 4;
};

// A loop: instructions from `head` to the branch `end` that leads back there.
struct LoopInfo {
  int32_t head = 0;
  int32_t end = 0;
  std::vector<uint16_t> carried;  // integer registers carried from one iteration to the next
  std::vector<int32_t> drivers;   // indices of the comparisons that its branches depend on
};

struct ParameterInfo {
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct Kernel {
  std::string name;
  // Empty, or the reason why the kernel is not covered: an unknown instruction, too large,
  // malformed.
  std::string not_covered;
  std::vector<ParameterInfo> parameters;
  int64_t parameter_bytes = 0;
  int64_t shared_bytes = 0;  // static
  int64_t local_bytes = 0;   // per thread
  int64_t dynamic_shared_at = 0;
  // Bytes per thread for arguments and results of device functions, which are inlined.
  int64_t argument_bytes = 0;
  std::vector<Slot> slots;
  std::vector<SlotValue> values;
  int64_t register_bytes = 0;
  std::vector<Instruction> instructions;
  std::vector<uint16_t> operands;  // slots
  std::vector<LoopInfo> loops;
  int32_t drivers = 0;
};

// A variable of the module with its initial bytes; the rest is zero.
struct ModuleVariable {
  uint64_t address = 0;
  int64_t bytes = 0;
  std::string initial;
};

struct Program {
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<ModuleVariable> variables;
  std::string text;  // the PTX, without comments

  const Kernel* Find(std::string_view name) const;
};

// Addresses of the windows for generic addresses. Buffers are elsewhere.
inline constexpr uint64_t kSharedWindow = 0x0000'7c00'0000'0000;
inline constexpr uint64_t kLocalWindow = 0x0000'7d00'0000'0000;
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 24;
inline constexpr uint64_t kModuleBase = 0x0000'7e00'0000'0000;

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PROGRAM_H_
