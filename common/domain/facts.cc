#include "common/domain/facts.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace kernelcast {
namespace {

struct Fact {
  std::string_view name;
  std::string_view meaning;
};

// "Inner" loops are those that contain no other loop. "Weighted" counts an instruction 16 times for
// each loop around it and takes log2(1 + the sum).
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

// PTX counts are of instructions as written, summed over all kernels. "Weighted" as above.
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

constexpr auto kCudaPtxNames = Names(kCudaPtxFacts);
constexpr auto kCudaPtxMeanings = Meanings(kCudaPtxFacts);

constexpr FactSchema kSchemas[] = {
    {kCpuAssemblySchemaId, kCpuAssemblyNames, kCpuAssemblyMeanings},
    {kCudaPtxSchemaId, kCudaPtxNames, kCudaPtxMeanings},
};

}  // namespace

absl::StatusOr<const FactSchema*> FindFactSchema(std::string_view id) {
  std::string known;
  for (const FactSchema& schema : kSchemas) {
    if (schema.id == id) {
      return &schema;
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(schema.id));
  }
  return absl::NotFoundError(
      absl::StrCat("no fact schema '", std::string(id), "'; there is ", known));
}

std::span<const FactSchema> AllFactSchemas() { return kSchemas; }

absl::Status ValidateFacts(const CompileFacts& facts) {
  const auto schema = FindFactSchema(facts.schema);
  if (!schema.ok()) {
    return absl::InvalidArgumentError(schema.status().message());
  }
  const std::span<const std::string_view> names = (*schema)->names;
  if (facts.values.size() != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat("facts of schema ", facts.schema, " have ",
                                                   names.size(), " values, not ",
                                                   facts.values.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!std::isfinite(facts.values[i])) {
      return absl::InvalidArgumentError(absl::StrCat("fact ", std::string(names[i]), " of schema ",
                                                     facts.schema, " is not a finite number"));
    }
  }
  return absl::OkStatus();
}

}  // namespace kernelcast
