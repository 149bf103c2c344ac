#include "common/domain/facts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace kernelcast {
namespace {

struct Fact {
  std::string_view name;
  std::string_view meaning;
};

// "Inner" loops contain no other loop. "Weighted" counts an instruction 16 times for each enclosing
// loop and takes log2(1 + the sum).
constexpr Fact kCpuAssemblyFacts[] = {
    {"instructions", "instructions in the whole file"},
    {"text_bytes", "bytes of machine code"},
    {"functions", "functions that were not inlined"},
    {"labels", "labels inside functions: about the number of basic blocks"},
    {"conditional_branches", "conditional jumps"},
    {"jumps", "unconditional jumps"},
    {"calls", "calls of any kind"},
    {"calls_math", "calls of mathematical functions"},
    {"calls_memory", "calls of memcpy and its kin"},
    {"calls_allocation", "calls that allocate or free memory"},
    {"scalar_float_add", "scalar float additions and subtractions"},
    {"scalar_float_multiply", "scalar float multiplications"},
    {"scalar_float_divide_sqrt", "scalar float divisions and square roots"},
    {"scalar_float_fma", "scalar fused multiply-adds"},
    {"scalar_float_compare", "scalar float comparisons, minima and maxima"},
    {"packed_float_add", "packed float additions and subtractions"},
    {"packed_float_multiply", "packed float multiplications"},
    {"packed_float_divide_sqrt", "packed float divisions and square roots"},
    {"packed_float_fma", "packed fused multiply-adds"},
    {"packed_float_compare", "packed float comparisons, minima, maxima and blends"},
    {"reciprocal_estimates", "approximate reciprocals and reciprocal square roots"},
    {"float64_share", "share of float arithmetic that is in double precision"},
    {"packed_integer", "packed integer and bitwise operations"},
    {"scalar_integer", "scalar integer arithmetic, logic and address computation"},
    {"integer_multiply_divide", "scalar integer multiplications and divisions"},
    {"conversions", "conversions between number types"},
    {"shuffles", "permutations, unpacks, inserts and extracts"},
    {"broadcasts", "broadcasts of one element"},
    {"gathers", "gather loads"},
    {"scatters", "scatter stores"},
    {"masked_operations", "operations under a mask register"},
    {"loads_4", "loads of at most 4 bytes"},
    {"loads_8", "loads of 8 bytes"},
    {"loads_16", "loads of 16 bytes"},
    {"loads_32", "loads of 32 bytes"},
    {"loads_64", "loads of 64 bytes"},
    {"stores_4", "stores of at most 4 bytes"},
    {"stores_8", "stores of 8 bytes"},
    {"stores_16", "stores of 16 bytes"},
    {"stores_32", "stores of 32 bytes"},
    {"stores_64", "stores of 64 bytes"},
    {"aligned_vector_moves", "vector moves that demand alignment"},
    {"unaligned_vector_moves", "vector moves that do not"},
    {"nontemporal_stores", "stores that bypass the caches"},
    {"prefetches", "prefetches"},
    {"stack_accesses", "memory operands on the stack: spills and local arrays"},
    {"frame_bytes", "largest stack frame"},
    {"vector_registers", "distinct vector registers in use"},
    {"widest_vector_bytes", "widest vector register in use"},
    {"loops", "loops: backward jumps with different heads"},
    {"loop_depth", "deepest nesting of loops"},
    {"inner_loops", "loops that contain no other loop"},
    {"inner_instructions", "instructions in inner loops"},
    {"inner_largest", "instructions in the largest inner loop"},
    {"inner_flops", "float operations in inner loops, by element"},
    {"inner_float_instructions", "float instructions in inner loops"},
    {"inner_packed_share", "share of those that are packed"},
    {"inner_fma_share", "share of those that are fused multiply-adds"},
    {"inner_vector_bytes", "mean width of float instructions in inner loops"},
    {"inner_divide_sqrt", "divisions and square roots in inner loops"},
    {"inner_loads", "loads in inner loops"},
    {"inner_stores", "stores in inner loops"},
    {"inner_load_bytes", "bytes loaded in inner loops"},
    {"inner_store_bytes", "bytes stored in inner loops"},
    {"inner_gathers", "gathers and scatters in inner loops"},
    {"inner_shuffles", "shuffles and broadcasts in inner loops"},
    {"inner_conversions", "conversions in inner loops"},
    {"inner_integer", "integer instructions in inner loops, scalar and packed"},
    {"inner_branches", "jumps in inner loops"},
    {"inner_calls", "calls in inner loops"},
    {"inner_calls_math", "calls of mathematical functions in inner loops"},
    {"inner_stack_accesses", "stack accesses in inner loops"},
    {"inner_accumulators", "registers that inner loops accumulate float values in"},
    {"inner_flops_per_byte", "inner_flops / bytes loaded and stored there"},
    {"inner_flops_per_instruction", "inner_flops / inner_instructions"},
    {"inner_bytes_per_instruction", "bytes loaded and stored / inner_instructions"},
    {"weighted_instructions", "all instructions, weighted by loop depth"},
    {"weighted_flops", "float operations by element, weighted by loop depth"},
    {"weighted_bytes", "bytes loaded and stored, weighted by loop depth"},
    {"weighted_calls", "calls, weighted by loop depth"},
    {"weighted_divide_sqrt", "divisions and square roots, weighted by loop depth"},
};

// Values of one launch, over all of its blocks.
constexpr Fact kCudaSimulationFacts[] = {
    {"blocks", "blocks of the grid"},
    {"block_warps", "warps of a block"},
    {"resident_blocks", "blocks that a multiprocessor holds at a time"},
    {"waves", "blocks / (multiprocessors * resident_blocks)"},
    {"sampled_blocks", "blocks that were executed"},
    {"sampled_warps", "warps that were executed, of all those blocks"},
    {"executed_instructions", "instructions that were executed, by warps"},
    {"inferred_share",
     "share of the instructions of sampled warps that were inferred from earlier iterations of "
     "their loops"},
    {"instructions", "PTX instructions that the launch executes, by warps"},
    {"active_lane_share", "share of the lanes that were active"},
    {"issue_slots", "machine instructions that these become, about"},
    {"integer", "integer arithmetic and logic"},
    {"float32", "arithmetic in float32"},
    {"float64", "arithmetic in float64"},
    {"half", "arithmetic in float16 and bfloat16, single or in pairs"},
    {"conversions", "conversions between number types"},
    {"special_functions", "divisions, roots, exponentials and the like"},
    {"predicates", "comparisons and selections"},
    {"moves", "moves"},
    {"shuffles", "shuffles"},
    {"votes", "votes, matches and reductions over a warp"},
    {"control", "branches and ends"},
    {"barriers", "barriers of a block, by warps, and operations on mbarriers"},
    {"fences", "memory fences"},
    {"matrix_products", "mma, wmma and wgmma"},
    {"matrix_loads", "ldmatrix, stmatrix and loads and stores of wmma"},
    {"branches", "branches, by warps"},
    {"divergent_share", "share of the branches at which a warp's lanes part"},
    {"float32_operations", "operations in float32, by active lanes; a fused multiply-add is two"},
    {"float64_operations", "the same in float64"},
    {"half_operations", "the same in float16 and bfloat16"},
    {"matrix_operations_half", "operations of matrix products of float16 or bfloat16"},
    {"matrix_operations_tf32", "operations of matrix products of tf32"},
    {"matrix_operations_float8", "operations of matrix products of float8"},
    {"matrix_operations_integer8", "operations of matrix products of 8-bit integers"},
    {"matrix_operations_float64", "operations of matrix products of float64"},
    {"matrix_group_share", "share of the operations of matrix products that wgmma makes"},
    {"load_requests_1", "loads from global memory of 1 byte a lane, by warps"},
    {"load_sectors_1", "sectors of 32 bytes for each of these"},
    {"load_requests_2", "loads from global memory of 2 bytes a lane, by warps"},
    {"load_sectors_2", "sectors of 32 bytes for each of these"},
    {"load_requests_4", "loads from global memory of 4 bytes a lane, by warps"},
    {"load_sectors_4", "sectors of 32 bytes for each of these"},
    {"load_requests_8", "loads from global memory of 8 bytes a lane, by warps"},
    {"load_sectors_8", "sectors of 32 bytes for each of these"},
    {"load_requests_16", "loads from global memory of 16 bytes a lane, by warps"},
    {"load_sectors_16", "sectors of 32 bytes for each of these"},
    {"store_requests_1", "stores to global memory of 1 byte a lane, by warps"},
    {"store_sectors_1", "sectors for each of these"},
    {"store_requests_2", "stores to global memory of 2 bytes a lane, by warps"},
    {"store_sectors_2", "sectors for each of these"},
    {"store_requests_4", "stores to global memory of 4 bytes a lane, by warps"},
    {"store_sectors_4", "sectors for each of these"},
    {"store_requests_8", "stores to global memory of 8 bytes a lane, by warps"},
    {"store_sectors_8", "sectors for each of these"},
    {"store_requests_16", "stores to global memory of 16 bytes a lane, by warps"},
    {"store_sectors_16", "sectors for each of these"},
    {"load_efficiency", "bytes that lanes load from global memory / bytes of the sectors"},
    {"store_efficiency", "the same for stores"},
    {"local_sectors", "sectors of local memory"},
    {"shared_load_requests", "loads from shared memory, by warps"},
    {"shared_load_wavefronts", "times that shared memory is read for each of these"},
    {"shared_load_conflicts", "the same / what it would be without bank conflicts"},
    {"shared_store_requests", "stores to shared memory, by warps"},
    {"shared_store_wavefronts",
     "times that shared memory is written for each of these and of asynchronous copies"},
    {"shared_store_conflicts", "the same / what it would be without bank conflicts"},
    {"shared_bytes_moved", "bytes that lanes read from and write to shared memory"},
    {"async_copies", "asynchronous copies to shared memory, by warps"},
    {"async_bytes", "bytes of these"},
    {"global_atomics", "atomics on global memory, by lanes"},
    {"global_atomic_requests", "the same, by warps"},
    {"global_atomic_depth", "lanes of a request that want the same address, at most, on average"},
    {"global_atomic_hottest",
     "requests of atomics for the most wanted line of 128 bytes, of all blocks"},
    {"shared_atomics", "atomics on shared memory, by lanes"},
    {"shared_atomic_requests", "the same, by warps"},
    {"shared_atomic_depth", "lanes of a request that want the same address, at most, on average"},
    {"shared_atomic_hottest", "atomics on the most wanted address, of a block"},
    {"unique_bytes", "bytes of global memory that the launch touches, each counted once"},
    {"dram_bytes", "bytes that memory has to move, about"},
    {"l2_bytes", "bytes that the second-level cache has to move, about"},
    {"l2_reuse", "share of those that need not come from or go to memory"},
    {"loads_in_flight", "loads of warps that are under way on a multiprocessor, on average"},
    {"bytes_in_flight", "bytes of their sectors"},
    {"block_cycles", "cycles that one block takes by its dependencies alone"},
    {"dram_ns", "time that memory would take alone"},
    {"l2_ns", "time that the second-level cache would take alone"},
    {"load_store_ns", "time that first-level caches and shared memory would take alone"},
    {"issue_ns", "time that issuing instructions would take alone"},
    {"float32_ns", "time that arithmetic in float32 would take alone"},
    {"integer_ns", "time that integer arithmetic would take alone"},
    {"float64_ns", "time that arithmetic in float64 would take alone"},
    {"half_ns", "time that arithmetic in half precision would take alone"},
    {"special_ns", "time that special functions would take alone"},
    {"conversion_ns", "time that conversions would take alone"},
    {"tensor_ns", "time that matrix products would take alone"},
    {"atomics_ns", "time that atomics would take alone"},
    {"latency_ns", "time that latencies, with as many blocks at a time as fit would take alone"},
    {"estimated_ns", "time of the launch, of all these together"},
};

// PTX counts are of instructions as written, summed over all kernels. "Weighted" is defined as for
// kCpuAssemblyFacts.
constexpr Fact kCudaPtxFacts[] = {
    {"kernels", "kernels in the cubin"},
    {"registers", "registers per thread, largest of the kernels"},
    {"spill_store_bytes", "bytes of spill stores, all kernels"},
    {"spill_load_bytes", "bytes of spill loads, all kernels"},
    {"stack_bytes", "local memory per thread, largest of the kernels"},
    {"static_shared_bytes", "static shared memory per block, largest of the kernels"},
    {"constant_bytes", "bytes of constant banks, all kernels"},
    {"code_bytes", "bytes of machine code, all kernels"},
    {"bound_threads",
     "threads per block that launch bounds declare, largest of the kernels; 0 where none does"},
    {"bound_blocks",
     "resident blocks that launch bounds declare, largest of the kernels; 0 where none does"},
    {"instructions", "PTX instructions"},
    {"fp32_fma", "fused multiply-adds in float32"},
    {"fp32_add", "additions and subtractions in float32"},
    {"fp32_multiply", "multiplications in float32"},
    {"fp32_compare", "minima, maxima, comparisons, absolute values and negations in float32"},
    {"half_scalar", "arithmetic on one float16 or bfloat16"},
    {"half_packed", "arithmetic on pairs of float16 or bfloat16"},
    {"fp64", "arithmetic in float64"},
    {"float_divide", "float divisions and square roots that are not approximate"},
    {"special_functions",
     "approximate reciprocals, roots, exponentials, logarithms, sines and tanh"},
    {"integer", "integer additions, logic, shifts and comparisons"},
    {"integer_multiply", "integer multiplications and multiply-adds"},
    {"integer_divide", "integer divisions and remainders"},
    {"conversions", "conversions between number types"},
    {"predicates", "instructions that set or combine predicates, and selections"},
    {"predicated", "instructions other than branches that run under a predicate"},
    {"branches", "branches"},
    {"calls", "calls"},
    {"loops", "loops: backward branches with different heads"},
    {"loop_depth", "deepest nesting of loops"},
    {"inner_instructions", "instructions in loops that contain no other loop"},
    {"barriers", "barriers of a block, a warp or a cluster"},
    {"mbarriers", "operations on mbarrier objects"},
    {"warp_shuffles", "shuffles between the lanes of a warp"},
    {"warp_votes", "votes, matches and reductions over a warp"},
    {"atomics_global", "atomics and reductions on global memory"},
    {"atomics_shared", "atomics and reductions on shared memory"},
    {"fences", "memory fences"},
    {"load_global_1", "global loads of 1 byte"},
    {"load_global_2", "global loads of 2 bytes"},
    {"load_global_4", "global loads of 4 bytes"},
    {"load_global_8", "global loads of 8 bytes"},
    {"load_global_16", "global loads of 16 bytes or more"},
    {"load_global_readonly", "global loads by the read-only path"},
    {"store_global_1", "global stores of 1 byte"},
    {"store_global_2", "global stores of 2 bytes"},
    {"store_global_4", "global stores of 4 bytes"},
    {"store_global_8", "global stores of 8 bytes"},
    {"store_global_16", "global stores of 16 bytes or more"},
    {"cache_hints", "loads, stores and prefetches that carry a cache hint or prefetch"},
    {"load_shared", "loads from shared memory"},
    {"load_shared_bytes", "bytes of them"},
    {"store_shared", "stores to shared memory"},
    {"store_shared_bytes", "bytes of them"},
    {"load_local", "loads from local memory"},
    {"store_local", "stores to local memory"},
    {"cp_async", "asynchronous copies from global to shared memory by a thread"},
    {"bulk_copies", "bulk and tensor copies"},
    {"mma_sync", "matrix multiplications of a warp: mma.sync and wmma.mma"},
    {"wgmma", "matrix multiplications of a warp group"},
    {"matrix_loads", "ldmatrix, stmatrix and wmma loads and stores"},
    {"setmaxnreg", "changes of the register budget of a warp"},
    {"weighted_instructions", "all instructions, weighted by loop depth"},
    {"weighted_flops",
     "float operations, weighted by loop depth; a fused multiply-add is two, a pair counts twice, "
     "matrix multiplications not"},
    {"weighted_special", "float_divide and special_functions, weighted by loop depth"},
    {"weighted_global_bytes", "bytes of global loads and stores, weighted by loop depth"},
    {"weighted_shared_bytes", "bytes of shared loads and stores, weighted by loop depth"},
    {"weighted_matrix", "matrix multiplications, weighted by loop depth"},
    {"weighted_barriers", "barriers, weighted by loop depth"},
    {"launches", "launches of the candidate"},
    {"launch_block_threads", "threads per block of the first launch; 0 where that depends on axes"},
    {"launch_dynamic_shared_bytes",
     "dynamic shared memory of the first launch; 0 where that depends on axes"},
    {"launch_blocks_per_sm",
     "blocks of the first launch that fit on a multiprocessor of the architecture; 0 where the two "
     "before are not known"},
    {"launch_occupancy", "share of the multiprocessor's warps that those blocks fill"},
};

template <size_t N>
constexpr auto Names(const Fact (&facts)[N]) {
  std::array<std::string_view, N> names;
  for (size_t i = 0; i < N; ++i) {
    names[i] = facts[i].name;
  }
  return names;
}

template <size_t N>
constexpr auto Meanings(const Fact (&facts)[N]) {
  std::array<std::string_view, N> meanings;
  for (size_t i = 0; i < N; ++i) {
    meanings[i] = facts[i].meaning;
  }
  return meanings;
}

constexpr auto kCpuAssemblyNames = Names(kCpuAssemblyFacts);
constexpr auto kCpuAssemblyMeanings = Meanings(kCpuAssemblyFacts);

constexpr Fact kPythonSourceFacts[] = {
    {"lines", "lines that are not empty"},          {"bytes", "bytes of the source"},
    {"functions", "functions and methods"},         {"loops", "for and while statements"},
    {"torch_uses", "occurrences of torch. and F."},
};

constexpr auto kPythonSourceNames = Names(kPythonSourceFacts);
constexpr auto kPythonSourceMeanings = Meanings(kPythonSourceFacts);

constexpr auto kCudaPtxNames = Names(kCudaPtxFacts);
constexpr auto kCudaPtxMeanings = Meanings(kCudaPtxFacts);

constexpr auto kCudaSimulationNames = Names(kCudaSimulationFacts);
constexpr auto kCudaSimulationMeanings = Meanings(kCudaSimulationFacts);

constexpr FactSchema kSimulationSchemas[] = {
    {kCudaSimulationSchemaId, kCudaSimulationNames, kCudaSimulationMeanings},
};

constexpr FactSchema kSchemas[] = {
    {kCpuAssemblySchemaId, kCpuAssemblyNames, kCpuAssemblyMeanings},
    {kCudaPtxSchemaId, kCudaPtxNames, kCudaPtxMeanings},
    {kPythonSourceSchemaId, kPythonSourceNames, kPythonSourceMeanings},
};

absl::StatusOr<const FactSchema*> Find(std::span<const FactSchema> schemas, const char* what,
                                       std::string_view id) {
  std::string known;
  for (const FactSchema& schema : schemas) {
    if (schema.id == id) {
      return &schema;
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(schema.id));
  }
  return absl::NotFoundError(
      absl::StrCat("no ", what, " schema '", std::string(id), "'; there is ", known));
}

absl::Status CheckValues(const FactSchema& schema, const std::vector<double>& values) {
  const std::span<const std::string_view> names = schema.names;
  if (values.size() != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat("facts of schema ", std::string(schema.id),
                                                   " have ", names.size(), " values, not ",
                                                   values.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return absl::InvalidArgumentError(absl::StrCat("fact ", std::string(names[i]), " of schema ",
                                                     std::string(schema.id),
                                                     " is not a finite number"));
    }
  }
  return absl::OkStatus();
}

// Indexed by FindingKind.
constexpr Fact kFindings[] = {
    {"shared_race", "two threads access a word of shared memory without a barrier between"},
    {"shared_out_of_bounds", "an access beyond the block's shared memory"},
    {"shared_uninitialised", "shared memory is read before any thread has written it"},
    {"local_out_of_bounds", "an access beyond the thread's local memory"},
    {"local_uninitialised", "local memory is read before it is written"},
    {"global_out_of_bounds", "an access outside its tensor, the workspace or its variable"},
    {"global_uninitialised", "an output or the workspace is read before it is written"},
    {"misaligned", "an address that is no multiple of the size of its access"},
    {"wrong_mask", "the mask of a warp-level operation is not that of the lanes that execute it"},
    {"missed_barrier", "threads of the block never reach a barrier that others wait at"},
    {"wrong_value", "an output differs from the oracle's by far more than its tolerance"},
    {"not_written", "elements of an output are never written"},
    {"global_race", "two blocks write different values to an output, and nothing orders them"},
};
static_assert(std::size(kFindings) == kFindingKinds);

absl::Status ValidateSimulation(const ShapeSimulation& simulation) {
  const auto schema = FindSimulationSchema(simulation.schema);
  if (!schema.ok()) {
    return absl::InvalidArgumentError(schema.status().message());
  }
  if (simulation.launches.size() > kMaxSimulatedLaunches) {
    return absl::InvalidArgumentError(absl::StrCat("simulation of ", simulation.launches.size(),
                                                   " launches; at most ", kMaxSimulatedLaunches,
                                                   " are allowed"));
  }
  if (!simulation.findings_schema.empty() && simulation.findings_schema != kCudaFindingsSchemaId &&
      simulation.findings_schema != kCudaFaultsSchemaId) {
    return absl::InvalidArgumentError(
        absl::StrCat("no findings schema '", simulation.findings_schema, "'; there is ",
                     std::string(kCudaFaultsSchemaId), ", ", std::string(kCudaFindingsSchemaId)));
  }
  if (simulation.not_compared.size() > kMaxFindingDetail) {
    return absl::InvalidArgumentError("a text about outputs not compared that is too long");
  }
  for (const LaunchSimulation& launch : simulation.launches) {
    if (launch.findings.size() > kMaxFindings) {
      return absl::InvalidArgumentError(absl::StrCat(launch.findings.size(), " findings; at most ",
                                                     kMaxFindings, " are allowed"));
    }
    for (const Finding& finding : launch.findings) {
      if (simulation.findings_schema.empty()) {
        return absl::InvalidArgumentError("findings without a findings schema");
      }
      if (finding.detail.size() > kMaxFindingDetail || finding.count < 1) {
        return absl::InvalidArgumentError("a finding without a count, or whose text is too long");
      }
    }
    if (!launch.not_covered.empty() && launch.values.empty()) continue;
    const absl::Status checked = CheckValues(**schema, launch.values);
    if (!checked.ok()) return checked;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const FactSchema*> FindFactSchema(std::string_view id) {
  return Find(kSchemas, "fact", id);
}

absl::StatusOr<const FactSchema*> FindSimulationSchema(std::string_view id) {
  return Find(kSimulationSchemas, "simulation", id);
}

std::string_view FindingName(FindingKind kind) { return kFindings[static_cast<size_t>(kind)].name; }
std::string_view FindingMeaning(FindingKind kind) {
  return kFindings[static_cast<size_t>(kind)].meaning;
}

std::span<const FactSchema> AllFactSchemas() { return kSchemas; }

bool IsWrongOutput(FindingKind kind) {
  return kind == FindingKind::kWrongValue || kind == FindingKind::kNotWritten;
}

bool OutputsAgreed(const ShapeSimulation& simulation) {
  if (simulation.findings_schema != kCudaFindingsSchemaId || !simulation.not_compared.empty()) {
    return false;
  }
  return std::all_of(
      simulation.launches.begin(), simulation.launches.end(), [](const LaunchSimulation& launch) {
        return std::none_of(launch.findings.begin(), launch.findings.end(),
                            [](const Finding& finding) { return IsWrongOutput(finding.kind); });
      });
}

absl::Status ValidateFacts(const CompileFacts& facts) {
  const auto schema = FindFactSchema(facts.schema);
  if (!schema.ok()) {
    return absl::InvalidArgumentError(schema.status().message());
  }
  const absl::Status checked = CheckValues(**schema, facts.values);
  if (!checked.ok()) return checked;
  if (facts.simulations.size() > kMaxSimulations) {
    return absl::InvalidArgumentError(absl::StrCat("facts of ", facts.simulations.size(),
                                                   " simulations; at most ", kMaxSimulations,
                                                   " are allowed"));
  }
  for (const ShapeSimulation& simulation : facts.simulations) {
    const absl::Status valid = ValidateSimulation(simulation);
    if (!valid.ok()) return valid;
  }
  return absl::OkStatus();
}

}  // namespace kernelcast
