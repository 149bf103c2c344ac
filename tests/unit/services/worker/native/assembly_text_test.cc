#include "services/worker/native/assembly_text.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::worker {
namespace {

std::string Canonical(const std::string& text) {
  const auto canonical = CanonicalAssembly(text);
  INFO(canonical.status().ToString());
  REQUIRE(canonical.ok());
  return *canonical;
}

TEST_CASE("Compiler output is parsed verbatim without comments") {
  CHECK(
      Canonical("\t.file\t\"kernel.cc\"\n"
                "# GNU C++20 \"(Debian) isn't; /* an */ instruction\"\n"
                "\t.text\n\t.p2align 4,,10\n\t.globl\tkernelcast_run\n"
                "\t.type\tkernelcast_run, @function\nkernelcast_run:\n"
                "\t.cfi_startproc\n.L2:\tvaddps\t(%rdi), %ymm1, %ymm2  # spill\n\tjne .L2\n\tret\n"
                "\t.section\t.rodata.str1.1,\"aMS\",@progbits,1\n.LC0:\n\t.string\t\"a;b#\\\"c\"\n"
                "\t.section\t.note.GNU-stack,\"\",@progbits\n") ==
      "\t.file\t\"kernel.cc\"\n\t.text\n\t.p2align 4,,10\n\t.globl\tkernelcast_run\n"
      "\t.type\tkernelcast_run, @function\nkernelcast_run:\n"
      "\t.cfi_startproc\n.L2:\n\tvaddps\t(%rdi), %ymm1, %ymm2\n\tjne .L2\n\tret\n"
      "\t.section\t.rodata.str1.1,\"aMS\",@progbits,1\n.LC0:\n\t.string\t\"a;b#\\\"c\"\n"
      "\t.section\t.note.GNU-stack,\"\",@progbits\n");
}

TEST_CASE("Statements on one line are parsed separately and inline assembly loops are found") {
  CHECK(Canonical("f: nop; vmulps %ymm0, %ymm0, %ymm0\n") ==
        ".Lf:\n\tnop\n\tvmulps %ymm0, %ymm0, %ymm0\n");
  CHECK(Canonical("1: nop\n1: nop; jne 1b; jmp 1f\n1:\n") ==
        ".L1_1:\n\tnop\n.L1_2:\n\tnop\n\tjne .L1_2\n\tjmp .L1_3\n.L1_3:\n");
  CHECK(Canonical("again: nop\n\tjne again\n\tcall other\n") ==
        ".Lagain:\n\tnop\n\tjne .Lagain\n\tcall other\n");
}

TEST_CASE("Thread-local variables and named encodings are accepted") {
  CHECK(CanonicalAssembly("\tdata16\tleaq\tx@tlsgd(%rip), %rdi\n\t.value\t0x6666\n\trex64\n"
                          "\tcall\t__tls_get_addr@PLT\n\t{vex} vpdpbusd %ymm0, %ymm1, %ymm2\n")
            .ok());
}

TEST_CASE("Assembly that compilers do not produce is refused") {
  for (const std::string text :
       {// Files, macros and conditions in every notation that the assembler accepts.
        ".incbin \"/x\"", "\t.INCLUDE \"/x\"", ".inc/**/bin \"/x\"", ".inc/* a\nb */bin \"/x\"",
        "a: .incbin \"/x\"", "nop; .incbin \"/x\"", "nop;.in\\\ncbin \"/x\"", ".macro m",
        "a: .irp x", ".rept 9", ".altmacro", ".if 1", ".print \"x\"", ".reloc a, b", ".symver a, b",
        "#NO_APP\n\tnop", ".intel_syntax noprefix", ".att_syntax noprefix",
        // Code from elsewhere, or run at load time.
        ".type f, @gnu_indirect_function", ".section .preinit_array", ".section .init,\"ax\"",
        ".section .gnu.lto_.opts,\"e\",@progbits", ".section .mine,\"aw\"", ".subsection 1",
        ".section .text.a,\"awx\",@progbits", ".section .data,\"awx\",@progbits",
        ".section .rodata,\"ax\"", ".section .note.GNU-stack,\"x\",@progbits", ".text 1",
        ".section \".te\\170t\"", ".section .data,\"a?x\"",
        // Machine code as data, or notation that hides an instruction.
        ".byte 0x90", ".text\n\t.long 1", ".text\n\t.ascii \"x\"", ".p2align 4,0xc3",
        ".balignl 16,0x12345678", ".org 9", ". = 9", ".set ., 9", ".set r, %zmm0", "r = %zmm0",
        "VADDPS %ymm0, %ymm0, %ymm0", "{sae} nop", "nop \"x\"", "vaddps 'a, %xmm0",
        ".data\n\tvaddps %ymm0, %ymm0, %ymm0", "nop\x01", "nop / nop", "\"f\": nop",
        // Unterminated text.
        ".ascii \"abc", ".string \"a\\", "{vex", "{vex}"}) {
    INFO(text);
    CHECK(absl::IsInvalidArgument(CanonicalAssembly(text).status()));
  }
}

}  // namespace
}  // namespace kernelcast::worker
