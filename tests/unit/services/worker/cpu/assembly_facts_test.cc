#include "services/worker/cpu/assembly_facts.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

namespace kernelcast::worker {
namespace {

std::map<std::string, double> Facts(std::string_view assembly, int64_t text_bytes = 100) {
  const CompileFacts facts = ExtractAssemblyFacts(assembly, text_bytes);
  CHECK(ValidateFacts(facts).ok());
  const FactSchema& schema = **FindFactSchema(facts.schema);
  std::map<std::string, double> by_name;
  for (size_t i = 0; i < schema.names.size(); ++i) {
    by_name[std::string(schema.names[i])] = facts.values[i];
  }
  return by_name;
}

// A function with an outer loop, an inner vector loop and a scalar tail, as g++ writes it.
constexpr const char* kNested = R"(	.file	"kernel.cc"
	.text
	.p2align 4
	.globl	kernelcast_run
	.type	kernelcast_run, @function
kernelcast_run:
.LFB0:
	.cfi_startproc
	pushq	%rbp
	subq	$136, %rsp
	xorl	%eax, %eax
.L4:
	vxorps	%xmm0, %xmm0, %xmm0
	xorl	%edx, %edx
.L3:
	vmovups	(%rdi,%rdx), %ymm1
	vfmadd231ps	32(%rdi,%rdx), %ymm1, %ymm0
	vmovups	%ymm0, (%rsi,%rdx)
	addq	$64, %rdx
	cmpq	%rcx, %rdx
	jne	.L3
	vaddss	%xmm0, %xmm1, %xmm1
	vdivss	%xmm2, %xmm1, %xmm1
	vmovss	%xmm1, 8(%rsp)
	call	expf@PLT
	incq	%rax
	cmpq	%r8, %rax
	jne	.L4
	call	malloc@PLT
	call	memcpy@PLT
	call	something@PLT
	addq	$136, %rsp
	popq	%rbp
	ret
	.cfi_endproc
)";

TEST_CASE("Empty input has facts too") {
  for (const auto& [name, value] : Facts("", 0)) {
    INFO(name);
    CHECK(value == 0);
  }
}

TEST_CASE("Loops are reported with their depth and innermost contents") {
  auto facts = Facts(kNested);
  CHECK(facts["functions"] == 1);
  CHECK(facts["loops"] == 2);
  CHECK(facts["loop_depth"] == 2);
  CHECK(facts["inner_loops"] == 1);
  CHECK(facts["inner_instructions"] == 6);
  CHECK(facts["inner_largest"] == 6);
  CHECK(facts["inner_loads"] == 2);
  CHECK(facts["inner_stores"] == 1);
  CHECK(facts["inner_load_bytes"] == 64);
  CHECK(facts["inner_store_bytes"] == 32);
  CHECK(facts["inner_flops"] == 16);
  CHECK(facts["inner_fma_share"] == 1);
  CHECK(facts["inner_packed_share"] == 1);
  CHECK(facts["inner_vector_bytes"] == 32);
  CHECK(facts["inner_accumulators"] == 1);
  CHECK(facts["inner_branches"] == 1);
  CHECK(facts["inner_calls"] == 0);
  CHECK(facts["inner_flops_per_byte"] == Approx(16.0 / 96));
  CHECK(facts["weighted_instructions"] > 10);
}

TEST_CASE("Instructions are counted by kind") {
  auto facts = Facts(kNested, 321);
  CHECK(facts["text_bytes"] == 321);
  CHECK(facts["instructions"] == 24);
  CHECK(facts["calls"] == 4);
  CHECK(facts["calls_math"] == 1);
  CHECK(facts["calls_memory"] == 1);
  CHECK(facts["calls_allocation"] == 1);
  CHECK(facts["packed_float_fma"] == 1);
  CHECK(facts["scalar_float_add"] == 1);
  CHECK(facts["scalar_float_divide_sqrt"] == 1);
  CHECK(facts["conditional_branches"] == 2);
  CHECK(facts["frame_bytes"] == 136);
  CHECK(facts["stack_accesses"] == 1);
  CHECK(facts["stores_4"] == 1);
  CHECK(facts["stores_32"] == 1);
  CHECK(facts["loads_32"] == 2);
  CHECK(facts["widest_vector_bytes"] == 32);
  CHECK(facts["vector_registers"] == 3);
  CHECK(facts["unaligned_vector_moves"] == 2);
  CHECK(facts["float64_share"] == 0);
}

TEST_CASE("A backward jump to shared code does not count as a loop") {
  // The tail of the first branch is placed after the second and jumps back to the common end.
  auto facts = Facts(R"(f:
	testl	%edi, %edi
	je	.L2
	movl	$1, %eax
.L3:
	addl	$1, %eax
	ret
.L2:
	movl	$2, %eax
	jmp	.L3
)");
  CHECK(facts["loops"] == 0);
  CHECK(facts["loop_depth"] == 0);
  CHECK(facts["jumps"] == 1);
}

TEST_CASE("Two backward jumps to one head are one loop") {
  auto facts = Facts(R"(f:
.L2:
	addl	$1, %eax
	testl	%eax, %edi
	je	.L2
	addl	$2, %eax
	cmpl	%eax, %esi
	jne	.L2
	ret
)");
  CHECK(facts["loops"] == 1);
  CHECK(facts["inner_instructions"] == 6);
}

TEST_CASE("Labels are local to their function") {
  auto facts = Facts("f:\n.L2:\n\tincq %rax\n\tret\ng:\n\tjmp .L2\n");
  CHECK(facts["functions"] == 2);
  CHECK(facts["loops"] == 0);
}

TEST_CASE("Kinds of vector work are distinguished") {
  auto facts = Facts(R"(f:
	vgatherdps	%ymm3, (%rdi,%ymm1,4), %ymm0
	vpermilps	$27, %ymm0, %ymm1
	vbroadcastss	(%rdi), %zmm2
	vcvtdq2ps	%ymm1, %ymm2
	vcvtsi2sdq	%rax, %xmm1, %xmm1
	vrsqrt14ps	%zmm1, %zmm2
	vsqrtpd	%ymm1, %ymm2
	vmaxps	%zmm0, %zmm1, %zmm0
	vpaddd	%ymm0, %ymm1, %ymm2
	vmovaps	%ymm0, 64(%rsi)
	vmovntps	%ymm0, (%rsi)
	prefetcht0	512(%rdi)
	vaddps	(%rdi), %zmm1, %zmm2{%k1}
	vaddps	(%rdi){1to16}, %zmm1, %zmm2
	imulq	%rax, %rdx
	mulsd	%xmm0, %xmm1
)");
  CHECK(facts["gathers"] == 1);
  CHECK(facts["shuffles"] == 1);
  CHECK(facts["broadcasts"] == 1);
  CHECK(facts["conversions"] == 2);
  CHECK(facts["reciprocal_estimates"] == 1);
  CHECK(facts["packed_float_divide_sqrt"] == 1);
  CHECK(facts["packed_float_compare"] == 1);
  CHECK(facts["packed_integer"] == 1);
  CHECK(facts["aligned_vector_moves"] == 1);
  CHECK(facts["nontemporal_stores"] == 1);
  CHECK(facts["prefetches"] == 1);
  CHECK(facts["masked_operations"] == 1);
  CHECK(facts["packed_float_add"] == 2);
  CHECK(facts["loads_64"] == 1);
  CHECK(facts["loads_4"] == 2);
  CHECK(facts["integer_multiply_divide"] == 1);
  CHECK(facts["scalar_float_multiply"] == 1);
  CHECK(facts["widest_vector_bytes"] == 64);
  CHECK(facts["float64_share"] == Approx(2.0 / 6));
}

TEST_CASE("Any text in place of assembly is handled") {
  for (const char* text :
       {"garbage", "\t\t\n:\n", "f:\n\tcall\n", "\tjmp\n", "x:\n\tvaddps\n", "f:\n\tvfmadd ,,,(\n",
        "f:\n\trep\n", "\tmov (((\n", ".L1:\n\tjmp .L1\n", "f:\n\tv\n", "f:\n\tcvt %xmm\n"}) {
    INFO(text);
    Facts(text);
  }
}

}  // namespace
}  // namespace kernelcast::worker
