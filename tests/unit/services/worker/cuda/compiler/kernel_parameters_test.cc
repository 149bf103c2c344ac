#include "services/worker/cuda/compiler/kernel_parameters.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace kernelcast::worker {
namespace {

constexpr const char* kPtx = R"(
.version 9.0
.target sm_90a
.address_size 64

.visible .entry scale(
	.param .u64 .ptr .align 1 scale_param_0,
	.param .u64 .ptr .align 1 scale_param_1,
	.param .u32 scale_param_2,
	.param .f32 scale_param_3
)
.maxntid 256
{
	.reg .b32 %r<5>;
	ret;
}
.visible .entry odd(
	.param .align 2 .b8 odd_param_0[2],
	.param .align 8 .b8 odd_param_1[24],
	.param .u64 odd_param_2,
	.param .u8 odd_param_3
)
{
	ret;
}
	// .globl	nothing
.visible .entry nothing()
{
	ret;
}
)";

Problem MakeProblem() {
  Problem problem;
  problem.axes = {{"n", 1, 50, 1}};
  problem.inputs.resize(1);
  problem.inputs[0].name = "x";
  problem.outputs.resize(1);
  problem.outputs[0].name = "y";
  return problem;
}

// The error for these arguments of a kernel, or "".
std::string Wrong(const std::string& kernel, std::vector<std::string> arguments) {
  Launch launch;
  launch.kernel = kernel;
  launch.grid = {"1"};
  launch.block = {"32"};
  launch.arguments = std::move(arguments);
  const auto plan = PlanLaunches(MakeProblem(), {launch}, "64", {}, {{"n", 7}});
  INFO(plan.status());
  REQUIRE(plan.ok());
  return CheckArguments({launch}, *plan, ReadSignatures(kPtx)).value_or("");
}

TEST_CASE("Sizes of parameters that no integer holds do not wrap") {
  // 8 times 2^61 + 1 is 8 in 64 bits.
  const std::vector<KernelSignature> signatures = ReadSignatures(
      ".visible .entry k(.param .b64 a[2305843009213693953], "
      ".param .b64 b[99999999999999999999], .param .b8 c[-1], "
      ".param .u9223372036854775807 d)\n{\n}\n");
  REQUIRE(signatures.size() == 1);
  REQUIRE(signatures[0].parameters.size() == 4);
  for (const KernelParameter& parameter : signatures[0].parameters) {
    CHECK(parameter.bytes >= INT64_MAX / 64);
    CHECK(parameter.bytes <= INT64_MAX / 8);
  }
}

TEST_CASE("The parameters of every kernel are read from its PTX") {
  const std::vector<KernelSignature> signatures = ReadSignatures(kPtx);
  using Kind = KernelParameter::Kind;
  REQUIRE(signatures.size() == 3);
  CHECK(signatures[0].name == "scale");
  REQUIRE(signatures[0].parameters.size() == 4);
  CHECK(signatures[0].parameters[0].kind == Kind::kAddress);
  CHECK(signatures[0].parameters[0].bytes == 8);
  CHECK(signatures[0].parameters[2].kind == Kind::kInteger);
  CHECK(signatures[0].parameters[2].bytes == 4);
  CHECK(signatures[0].parameters[3].kind == Kind::kReal);
  REQUIRE(signatures[1].parameters.size() == 4);
  CHECK(signatures[1].parameters[0].kind == Kind::kStructure);
  CHECK(signatures[1].parameters[0].bytes == 2);
  CHECK(signatures[1].parameters[1].bytes == 24);
  CHECK(signatures[1].parameters[3].bytes == 1);
  CHECK(signatures[2].parameters.empty());
}

TEST_CASE("Matching arguments are accepted") {
  CHECK(Wrong("scale", {"x", "y", "n:int", "0.5:float"}).empty());
  CHECK(Wrong("scale", {"x", "workspace + 16", "n:uint32", "0.5:float"}).empty());
  // A null pointer, and an address as an integer.
  CHECK(Wrong("scale", {"0:int64", "y", "n:int", "0.5:float"}).empty());
  CHECK(Wrong("nothing", {}).empty());
  // Kernels missing from the PTX are not this check's concern.
  CHECK(Wrong("elsewhere", {"x"}).empty());
}

TEST_CASE("Mismatched arguments are reported with the kernel's parameters") {
  CHECK(Wrong("scale", {"x", "y", "n:int"}) ==
        "launches[0].arguments: kernel 'scale' takes 4 arguments, and the launch has 3");
  CHECK(Wrong("scale", {"x", "y", "n", "0.5:float"}) ==
        "launches[0].arguments: kernel 'scale': argument 3 is 'n' (int64, 8 bytes), and the kernel "
        "takes a whole number of 4 bytes; write 'n:int32' for that type");
  CHECK(Wrong("scale", {"x", "y", "n:int", "1:int"}) ==
        "launches[0].arguments: kernel 'scale': argument 4 is '1:int' (int32, 4 bytes), and the "
        "kernel takes a floating-point number of 4 bytes; write '1:float32' for that type");
  CHECK(Wrong("scale", {"x", "1:int", "n:int", "0.5:float"}) ==
        "launches[0].arguments: kernel 'scale': argument 2 is '1:int' (int32, 4 bytes), and the "
        "kernel takes an address of 8 bytes");
  CHECK(Wrong("scale", {"x", "y", "y", "0.5:float"}) ==
        "launches[0].arguments: kernel 'scale': argument 3 is 'y' (an address of 8 bytes), and the "
        "kernel takes a whole number of 4 bytes");
  CHECK(Wrong("odd", {"1:half", "y", "n", "1:bool"}) ==
        "launches[0].arguments: kernel 'odd': argument 2 is 'y' (an address of 8 bytes), and the "
        "kernel takes a structure of 24 bytes");
}

TEST_CASE("Truncated PTX is parsed safely") {
  const std::string ptx(kPtx);
  for (size_t length = 0; length < ptx.size(); ++length) {
    CHECK(ReadSignatures(ptx.substr(0, length)).size() <= 3);
  }
}

TEST_CASE("Declarations without bodies have the same signatures") {
  const std::string declarations = EntryDeclarations(kPtx);
  CHECK(declarations.find("ret;") == std::string::npos);
  const auto whole = ReadSignatures(kPtx);
  const auto read = ReadSignatures(declarations);
  REQUIRE(whole.size() == 3);
  REQUIRE(read.size() == whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(read[i].name == whole[i].name);
    REQUIRE(read[i].parameters.size() == whole[i].parameters.size());
    for (size_t j = 0; j < whole[i].parameters.size(); ++j) {
      CHECK(read[i].parameters[j].kind == whole[i].parameters[j].kind);
      CHECK(read[i].parameters[j].bytes == whole[i].parameters[j].bytes);
    }
  }
  CHECK(ReadSignatures(EntryDeclarations(".entry bare {ret;}")).at(0).name == "bare");
}

}  // namespace
}  // namespace kernelcast::worker
