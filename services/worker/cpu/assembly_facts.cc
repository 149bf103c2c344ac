#include "services/worker/cpu/assembly_facts.h"

#include <algorithm>
#include <bitset>
#include <cassert>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/base/strings.h"
#include "services/worker/core/control_flow.h"
#include "services/worker/cpu/x86_instruction.h"
#include "services/worker/native/assembly_text.h"

namespace kernelcast::worker {
namespace {

using x86::CallKind;
using x86::Instruction;
using x86::Kind;

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
      if (label.starts_with(".L")) {
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
    while (space < line.size() && !absl::ascii_isspace(static_cast<unsigned char>(line[space]))) {
      ++space;
    }
    const std::string_view mnemonic = line.substr(0, space);
    const std::string_view rest = Trim(line.substr(space));
    if (mnemonic == "rep" || mnemonic == "lock" || mnemonic == "notrack" || mnemonic == "bnd" ||
        (IsInstructionPrefix(mnemonic) && !rest.empty())) {
      AddLine(rest);
      return;
    }
    instructions_.push_back(x86::ParseInstruction(mnemonic, rest));
    for (size_t at = rest.find("mm"); at != std::string_view::npos; at = rest.find("mm", at + 1)) {
      if (at >= 2 && rest[at - 2] == '%') {
        const int number = x86::VectorRegister(rest.substr(at - 2));
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
  if (x86::IsFloatArithmetic(instruction.kind)) {
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
    if (x86::IsFloatArithmetic(instruction.kind)) {
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
