#include "services/worker/cuda/compiler/ptx_facts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "tests/unit/services/worker/cuda/compiler/compiled.h"

namespace kernelcast::worker {
namespace {

double Value(const CompileFacts& facts, std::string_view name) {
  const auto names = (*FindFactSchema(kCudaPtxSchemaId))->names;
  const auto at = std::find(names.begin(), names.end(), name);
  INFO(name);
  REQUIRE(at != names.end());
  return facts.values.at(static_cast<size_t>(at - names.begin()));
}

CompileFacts OfBody(const std::string& body) {
  const CompileFacts facts = ExtractPtxFacts(
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(\n.param .u64 "
      "k_param_0\n)\n{\n" +
          body + "\nret;\n}\n",
      Cubin(), {});
  CHECK(ValidateFacts(facts).ok());
  return facts;
}

TEST_CASE("Instructions are counted by kind") {
  const CompileFacts facts = OfBody(R"(
    .reg .f32 %f<9>;
    ld.param.u64 %rd1, [k_param_0];
    cvta.to.global.u64 %rd2, %rd1;
    fma.rn.f32 %f1, %f2, %f3, %f4;
    fma.rn.ftz.f32 %f1, %f2, %f3, %f4;
    add.f32 %f1, %f2, %f3; sub.f32 %f1, %f2, %f3;
    mul.f32 %f1, %f2, %f3;
    max.f32 %f1, %f2, %f3;
    add.f64 %fd1, %fd2, %fd3;
    {add.f16 %rs1,%rs2,%rs3;
}
    { fma.rn.f16x2 %r1,%r2,%r3,%r4; }
    div.rn.f32 %f1, %f2, %f3;
    div.approx.f32 %f1, %f2, %f3;
    ex2.approx.ftz.f32 %f1, %f2;
    mad.lo.s32 %r1, %r2, %r3, %r4;
    mul.wide.u32 %rd1, %r1, %r2;
    rem.s32 %r1, %r2, %r3;
    shl.b32 %r1, %r2, 3;
    cvt.f32.f16 %f1, %rs1;
    setp.lt.s32 %p1, %r1, %r2;
    and.pred %p1, %p2, %p3;
    selp.f32 %f1, %f2, %f3, %p1;
    @%p1 add.s32 %r1, %r2, %r3;  // guarded
    /* sub.f32 is not here */
  )");
  CHECK(Value(facts, "fp32_fma") == 2);
  CHECK(Value(facts, "fp32_add") == 2);
  CHECK(Value(facts, "fp32_multiply") == 1);
  CHECK(Value(facts, "fp32_compare") == 1);
  CHECK(Value(facts, "fp64") == 1);
  CHECK(Value(facts, "half_scalar") == 1);
  CHECK(Value(facts, "half_packed") == 1);
  CHECK(Value(facts, "float_divide") == 1);
  CHECK(Value(facts, "special_functions") == 2);
  CHECK(Value(facts, "integer_multiply") == 2);
  CHECK(Value(facts, "integer_divide") == 1);
  CHECK(Value(facts, "integer") == 3);
  CHECK(Value(facts, "conversions") == 1);
  CHECK(Value(facts, "predicates") == 3);
  CHECK(Value(facts, "predicated") == 1);
  CHECK(Value(facts, "instructions") == 24);
  // 2 fma, 4 others, 1 double, 1 half, 2 * 2 of the pair, 3 divisions and exponentials.
  CHECK(Value(facts, "weighted_flops") == Approx(std::log2(1 + 4 + 4 + 1 + 1 + 4 + 3)));
  CHECK(Value(facts, "weighted_special") == Approx(2));
  CHECK(Value(facts, "loops") == 0);
}

TEST_CASE("Memory accesses are counted by space and width") {
  const CompileFacts facts = OfBody(R"(
    ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
    ld.global.u8 %rs1, [%rd1];
    ld.global.cs.v2.u32 {%r1, %r2}, [%rd1];
    ld.u16 %rs1, [%rd1];
    st.global.v2.f64 [%rd1], {%fd1, %fd2};
    st.global.b32 [%rd1+4], %r1;
    ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r5];
    st.shared::cta.f32 [%r5], %f1;
    ld.local.f32 %f1, [%rd1];
    st.local.f32 [%rd1], %f1;
    ld.const.f32 %f1, [%rd1];
    atom.global.add.f32 %f1, [%rd1], %f2;
    red.shared.add.u32 [%r1], 1;
    prefetch.global.L2 [%rd1];
    cp.async.cg.shared.global [%r1], [%rd1], 16;
    cp.async.commit_group;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
    membar.gl;
    fence.proxy.async;
  )");
  CHECK(Value(facts, "load_global_16") == 1);
  CHECK(Value(facts, "load_global_readonly") == 1);
  CHECK(Value(facts, "load_global_8") == 1);
  CHECK(Value(facts, "load_global_2") == 1);
  CHECK(Value(facts, "load_global_1") == 1);
  CHECK(Value(facts, "load_global_4") == 0);
  CHECK(Value(facts, "store_global_16") == 1);
  CHECK(Value(facts, "store_global_4") == 1);
  CHECK(Value(facts, "cache_hints") == 2);
  CHECK(Value(facts, "load_shared") == 1);
  CHECK(Value(facts, "load_shared_bytes") == 16);
  CHECK(Value(facts, "store_shared_bytes") == 4);
  CHECK(Value(facts, "load_local") == 1);
  CHECK(Value(facts, "store_local") == 1);
  CHECK(Value(facts, "atomics_global") == 1);
  CHECK(Value(facts, "atomics_shared") == 1);
  CHECK(Value(facts, "cp_async") == 1);
  CHECK(Value(facts, "bulk_copies") == 1);
  CHECK(Value(facts, "fences") == 2);
  CHECK(Value(facts, "weighted_global_bytes") == Approx(std::log2(1 + 16 + 1 + 8 + 2 + 16 + 4)));
  CHECK(Value(facts, "weighted_shared_bytes") == Approx(std::log2(1 + 20)));
}

TEST_CASE("Warp, barrier and matrix instructions are counted") {
  const CompileFacts facts = OfBody(R"(
    bar.sync 0;
    barrier.cluster.arrive;
    bar.warp.sync -1;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1;
    vote.sync.ballot.b32 %r1, %p1, -1;
    redux.sync.add.s32 %r1, %r2, -1;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};
    wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1,%r2}, [%rd1], %r3;
    wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f1};
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r5];
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    setmaxnreg.inc.sync.aligned.u32 232;
  )");
  CHECK(Value(facts, "barriers") == 3);
  CHECK(Value(facts, "mbarriers") == 1);
  CHECK(Value(facts, "warp_shuffles") == 1);
  CHECK(Value(facts, "warp_votes") == 2);
  CHECK(Value(facts, "mma_sync") == 2);
  CHECK(Value(facts, "wgmma") == 1);
  CHECK(Value(facts, "matrix_loads") == 2);
  CHECK(Value(facts, "setmaxnreg") == 1);
  CHECK(Value(facts, "weighted_matrix") == Approx(2));
}

TEST_CASE("Loops are found from branches and weight their contents") {
  const CompileFacts facts = OfBody(R"(
    mov.u32 %r1, 0;
$L__outer:
    add.s32 %r1, %r1, 1;
$L__inner:
    fma.rn.f32 %f1, %f2, %f3, %f1;
    setp.lt.s32 %p1, %r2, 9;
    @%p1 bra $L__inner;
    setp.lt.s32 %p2, %r1, 9;
    @!%p2 bra $L__end;
    bra.uni $L__outer;
$L__end:
  )");
  CHECK(Value(facts, "loops") == 2);
  CHECK(Value(facts, "loop_depth") == 2);
  CHECK(Value(facts, "branches") == 3);
  CHECK(Value(facts, "inner_instructions") == 3);
  CHECK(Value(facts, "predicated") == 0);
  CHECK(Value(facts, "weighted_flops") == Approx(std::log2(1 + 2 * 256)));
}

TEST_CASE("A branch table can close a loop") {
  const CompileFacts facts = OfBody(R"(
$L_again:
    add.s32 %r1, %r1, 1;
    $L_table: .branchtargets
        $L_again,
        $L_done;
    brx.idx %r1, $L_table;
$L_done:
  )");
  CHECK(Value(facts, "loops") == 1);
  CHECK(Value(facts, "branches") == 1);
}

TEST_CASE("Launch bounds, functions and data around the code are parsed") {
  const CompileFacts facts = ExtractPtxFacts(
      ".extern .func  (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
      ".global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n"
      ".func (.param .b32 r) helper(.param .b32 a) { add.f32 %f1, %f1, %f1; ret; }\n"
      ".visible .entry a()\n.maxntid 16, 8, 1\n.minnctapersm 3\n{\n"
      "{ // callseq 0, 0\n.param .b32 p; call.uni (r), helper, (p);\n} // callseq 0\nret;\n}\n"
      ".visible .entry b() .reqntid 64\n{ ret; }\n",
      Cubin(), {});
  CHECK(Value(facts, "bound_threads") == 128);
  CHECK(Value(facts, "bound_blocks") == 3);
  CHECK(Value(facts, "calls") == 1);
  CHECK(Value(facts, "fp32_add") == 1);
  CHECK(Value(facts, "instructions") == 5);
}

TEST_CASE("Text that is not PTX has no facts and does no harm") {
  for (const char* text : {"", "{", "}}}}", ".entry k() {", "@", ".entry k() { @; : ; @p ; }", "/*",
                           "//", ".entry k() { a{b{c; }",
                           ".entry {{{{ ; :", ".entry k() { .branchtargets ; brx.idx , ; }"}) {
    INFO(text);
    CHECK(ValidateFacts(ExtractPtxFacts(text, Cubin(), {})).ok());
  }
}

TEST_CASE("The assembler's report is parsed and removed from the log") {
  const std::string log =
      "kernel.cu(3): warning #177-D: unused\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for helper\n"
      "ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     40 bytes stack frame, 36 bytes spill stores, 72 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 1 barriers, 512 bytes smem, 400 bytes cmem[0]\n"
      "ptxas info    : Compile time = 6.672 ms\n";
  const auto functions = ReadPtxasInfo(log);
  REQUIRE(functions.size() == 2);
  CHECK_FALSE(functions[0].is_kernel);
  CHECK(functions[0].stack_bytes == 16);
  CHECK(functions[1].is_kernel);
  CHECK(functions[1].registers == 32);
  CHECK(functions[1].spill_store_bytes == 36);
  CHECK(functions[1].spill_load_bytes == 72);
  CHECK(functions[1].shared_bytes == 512);
  CHECK(WithoutPtxasInfo(log) == "kernel.cu(3): warning #177-D: unused\n");
  const CompileFacts facts = ExtractPtxFacts("", Cubin(), functions);
  CHECK(Value(facts, "spill_store_bytes") == 36);
  CHECK(Value(facts, "spill_load_bytes") == 72);
  CHECK(ReadPtxasInfo("").empty());
}

TEST_CASE("Launches add their occupancy where it is known") {
  Cubin cubin;
  cubin.kernels.push_back({"k", 128, 0, 0, 0, 0});
  CompileFacts facts = ExtractPtxFacts("", cubin, {});
  CHECK(Value(facts, "launches") == 0);
  const LaunchShape launches[] = {{"k", 256, 0}, {"k", 64, 0}};
  AddLaunchFacts(launches, cubin, "sm_90a", facts);
  CHECK(Value(facts, "launches") == 2);
  CHECK(Value(facts, "launch_block_threads") == 256);
  CHECK(Value(facts, "launch_blocks_per_sm") == 2);
  CHECK(Value(facts, "launch_occupancy") == Approx(0.25));

  CompileFacts unknown = ExtractPtxFacts("", cubin, {});
  const LaunchShape by_axes[] = {{"k", 256, std::nullopt}};
  AddLaunchFacts(by_axes, cubin, "sm_90a", unknown);
  CHECK(Value(unknown, "launch_block_threads") == 256);
  CHECK(Value(unknown, "launch_dynamic_shared_bytes") == 0);
  CHECK(Value(unknown, "launch_blocks_per_sm") == 0);
  CHECK(ValidateFacts(unknown).ok());
}

TEST_CASE("Shape-independent launch facts come from the expressions") {
  Launch launch;
  launch.kernel = "k";
  launch.grid = {"rows"};
  launch.block = {"32 * warps", "2"};
  launch.shared_memory_bytes = "4 * tile";
  const auto shapes = LaunchShapesOf({launch, launch}, {{"warps", "4"}});
  REQUIRE(shapes.size() == 2);
  CHECK(shapes[0].kernel == "k");
  CHECK(shapes[0].block_threads == 256);
  CHECK_FALSE(shapes[0].dynamic_shared_bytes.has_value());
}

TEST_CASE("NVRTC output has its facts") {
  if (!HaveNvrtc()) return;
  const Compiled compiled = CompileInProcess(
      "extern \"C\" __global__ void __launch_bounds__(256, 2) sum(const float4* x, float* y, int "
      "n) {\n"
      "  __shared__ float s[8];\n"
      "  float a = 0;\n"
      "  for (int i = threadIdx.x; i < n; i += 256) {\n"
      "    const float4 v = __ldg(x + i);\n"
      "    a = fmaf(v.x, v.y, a) + __expf(v.z) / v.w;\n"
      "  }\n"
      "  for (int d = 16; d > 0; d /= 2) a += __shfl_xor_sync(~0u, a, d);\n"
      "  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = a;\n"
      "  __syncthreads();\n"
      "  if (threadIdx.x < 8) atomicAdd(y, s[threadIdx.x]);\n"
      "}\n");
  const auto cubin = ReadCubin(compiled.cubin);
  REQUIRE(cubin.ok());
  const CompileFacts facts = ExtractPtxFacts(compiled.ptx, *cubin, ReadPtxasInfo(compiled.log));
  CHECK(ValidateFacts(facts).ok());
  INFO(compiled.ptx);
  CHECK(Value(facts, "kernels") == 1);
  CHECK(Value(facts, "bound_threads") == 256);
  CHECK(Value(facts, "bound_blocks") == 2);
  CHECK(Value(facts, "loops") >= 1);
  CHECK(Value(facts, "load_global_16") >= 1);
  CHECK(Value(facts, "load_global_readonly") >= 1);
  CHECK(Value(facts, "fp32_fma") >= 1);
  CHECK(Value(facts, "special_functions") >= 1);
  CHECK(Value(facts, "float_divide") >= 1);
  CHECK(Value(facts, "warp_shuffles") == 5);
  CHECK(Value(facts, "barriers") == 1);
  CHECK(Value(facts, "atomics_global") == 1);
  CHECK(Value(facts, "store_shared_bytes") == 4);
  CHECK(Value(facts, "static_shared_bytes") == 32);
  CHECK(Value(facts, "spill_store_bytes") == 0);
  CHECK(Value(facts, "registers") >= 16);
  CHECK(Value(facts, "code_bytes") >= 512);
}

TEST_CASE("Spills show in the facts") {
  if (!HaveNvrtc()) return;
  const std::string source =
      "extern \"C\" __global__ void k(float* y) {\n"
      "  float a[96];\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 96; ++i) a[i] = y[i * 32 + threadIdx.x];\n"
      "  __syncthreads();\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 96; ++i) y[i * 32 + threadIdx.x] = a[95 - i] * a[i];\n"
      "}\n";
  const auto spills = [&](const std::vector<std::string>& flags) {
    const Compiled compiled = CompileInProcess(source, "sm_90a", flags);
    const auto cubin = ReadCubin(compiled.cubin);
    REQUIRE(cubin.ok());
    return Value(ExtractPtxFacts(compiled.ptx, *cubin, ReadPtxasInfo(compiled.log)),
                 "spill_store_bytes");
  };
  CHECK(spills({}) == 0);
  CHECK(spills({"-maxrregcount=32"}) > 0);
}

}  // namespace
}  // namespace kernelcast::worker
