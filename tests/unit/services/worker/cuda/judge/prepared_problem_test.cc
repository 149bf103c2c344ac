#include "services/worker/cuda/judge/prepared_problem.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/domain/problem.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

namespace kernelcast::worker {
namespace {

using testing::FakeCuda;
using testing::FakeJudge;
using testing::kMapOracle;
using testing::kMapReference;
using testing::MapProblem;
using testing::MapProgram;
using Effect = FakeCuda::Effect;

bool Says(const absl::Status& status, std::string_view text) {
  INFO(status.ToString());
  return status.message().find(absl::string_view(text.data(), text.size())) !=
         absl::string_view::npos;
}

TEST_CASE("A prepared problem has its cases, disjoint buffers, and the reference's time") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  const auto prepared = judge.Prepare(MapProblem(), *runner);
  REQUIRE(prepared.ok());
  const auto& cases = (*prepared)->cases();
  REQUIRE((*prepared)->bench_shapes().size() == 1);
  const auto& shape = (*prepared)->bench_shapes()[0];
  CHECK(shape.slots.size() == 4);
  CHECK(shape.bytes == 12000);
  CHECK(shape.reference_ns > 90'000);
  CHECK(shape.reference_ns < 110'000);
  CHECK(cases.size() == (*prepared)->check_cases().size() + shape.slots.size());
  for (size_t i = 1; i < cases.size(); ++i) {
    const auto& before = cases[i - 1];
    CHECK(before.inputs[0].offset + before.inputs[0].bytes <= cases[i].inputs[0].offset);
    CHECK(before.outputs[0].offset + before.outputs[0].bytes + 2 * CudaCasePlan::kGuardBytes <=
          cases[i].outputs[0].offset);
  }
  for (const size_t index : shape.slots) {
    for (const auto bank : {CasePlan::kBase, CasePlan::kAltered, CasePlan::kOther}) {
      const CudaExpected& expected = (*prepared)->expected(index, bank)[0];
      CHECK(expected.rms == Approx(1.53).margin(0.1));
      CHECK(expected.absolute == Approx(1e-3 * expected.rms));
    }
  }
}

TEST_CASE("An oracle fails if it yields NaN, cannot be loaded, hangs or kills a context") {
  FakeJudge judge;
  const auto fault = [&](const std::string& options) {
    const auto runner = judge.StartRunner();
    const auto status = judge.Prepare(MapProblem(), *runner, kMapReference, options).status();
    CHECK(absl::IsFailedPrecondition(status));
    return status;
  };
  CHECK(Says(fault(absl::StrCat(kMapOracle, " nan=1")),
             "the problem's oracle (n=1, declared) yields"));
  CHECK(Says(fault(absl::StrCat(kMapOracle, " skip=1")), "NaN in output y"));
  CHECK(Says(fault(absl::StrCat(kMapOracle, " extra_parameter=4")),
             "the problem's oracle: the kernel takes 4 arguments, not 3"));
  CudaProgram other = MapProgram(kMapOracle);
  other.launches[0].kernel = "other";
  const auto runner = judge.StartRunner();
  CHECK(Says(CudaPreparedProblem::Make(
                 MapProblem(), other, MapProgram(kMapReference),
                 {testing::QuickOptions(), judge.device(), judge.kernels(), SecretKey{1}}, *runner,
                 judge.cancel)
                 .status(),
             "the problem's oracle: "));
  CHECK(Says(fault(absl::StrCat(kMapOracle, " fault=719")), "the problem's oracle"));
  CHECK(Says(fault(absl::StrCat(kMapOracle, " hang=1")), "it did not answer in time"));
}

TEST_CASE("A reference that disagrees with the oracle is the problem's fault") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  const auto status = judge.Prepare(MapProblem(), *runner, "scale=2 add=1.1").status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(Says(status, "the problem's reference disagrees with its oracle in output y (n="));
  CHECK(Says(status, "): 1 of 1 values, the first at 0"));
  const auto other = judge.StartRunner();
  const auto unwritten = judge.Prepare(MapProblem(), *other, "skip=1").status();
  CHECK(Says(unwritten, "1 not written"));
}

TEST_CASE("A reference may exceed the norm's limit in an adversarial draw") {
  FakeJudge judge;
  const auto small = judge.StartRunner();
  CHECK(Says(judge.Prepare(MapProblem(), *small, "scale=2 add=1.0001").status(), "normwise error"));
  // This reference is off by more than 1e-5 of the norm only where its inputs are enlarged.
  const char* const kOff = "scale=2.002 add=1";
  std::vector<ProblemFile> files = MapProblem().files;
  for (ProblemFile& file : files) {
    absl::StrReplaceAll({{"low: -1, high: 1", "low: 5.0e-5, high: 1.0e-4"}, {"[zeros]", "[large]"}},
                        &file.content);
  }
  const auto large = judge.StartRunner();
  const auto prepared = judge.Prepare(ParseProblem(files).value(), *large, kOff);
  INFO(prepared.status().ToString());
  REQUIRE(prepared.ok());
  size_t without = 0;
  for (const CasePlan::CheckCase& check : (*prepared)->check_cases()) {
    const bool adversarial = (*prepared)->cases()[check.index].spec.adversarial.has_value();
    CHECK(((*prepared)->expected(check)[0].tolerance.normwise == 0) == adversarial);
    without += adversarial ? 1 : 0;
  }
  CHECK(without > 0);
}

TEST_CASE("A reference that crashes or is refused is the problem's fault") {
  FakeJudge judge;
  for (const char* options : {"fault=700", "launch_error=701", "extra_parameter=8", "narrow=1"}) {
    const auto runner = judge.StartRunner();
    CHECK(absl::IsFailedPrecondition(judge.Prepare(MapProblem(), *runner, options).status()));
  }
}

TEST_CASE("A runner that exits is never the problem's fault") {
  FakeJudge judge;
  for (const char* function : {"MemSetAccess:2", "ModuleLoadData:1", "FuncGetParamInfo:3",
                               "LaunchKernelEx:1", "LaunchKernelEx:20"}) {
    const auto runner = judge.StartRunner({absl::StrCat("--inject=", function, ":exit")});
    const auto status = judge.Prepare(MapProblem(), *runner).status();
    INFO(function << ": " << status.ToString());
    CHECK(absl::IsUnavailable(status));
  }
}

TEST_CASE("A problem that does not fit is distinguished from a faulty one and leaves nothing") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  const auto before = FakeCuda::Instance().Held();
  for (const uint64_t bytes : {uint64_t{20} << 10, uint64_t{200} << 10, uint64_t{400} << 10}) {
    FakeCuda::Instance().set_memory_bytes(bytes);
    const auto status = judge.Prepare(MapProblem(), *runner).status();
    INFO(bytes << ": " << status.ToString());
    CHECK((absl::IsResourceExhausted(status) || absl::IsFailedPrecondition(status)));
    CHECK(FakeCuda::Instance().Held() == before);
  }
}

TEST_CASE("A problem is refused for its memory before any is taken") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  const int arenas = FakeCuda::Instance().calls("MemCreate");
  const int buffers = FakeCuda::Instance().calls("MemAlloc");
  Problem large = MapProblem();
  for (AxisValues& shape : large.targets.at("cuda").bench_shapes) {
    for (auto& [name, extent] : shape) extent = int64_t{1} << 28;
  }
  const auto never = judge.Prepare(large, *runner).status();
  INFO(never.ToString());
  CHECK(absl::IsFailedPrecondition(never));
  CHECK(Says(never, "bytes of device memory; the device has 1073741824"));

  Problem medium = MapProblem();
  for (AxisValues& shape : medium.targets.at("cuda").bench_shapes) {
    for (auto& [name, extent] : shape) extent = int64_t{1} << 18;
  }
  const auto taken = DeviceBuffer::Allocate(judge.device(), (size_t{1} << 30) - (1 << 20));
  REQUIRE(taken.ok());
  const auto later = judge.Prepare(medium, *runner).status();
  CHECK(absl::IsResourceExhausted(later));
  CHECK(Says(later, "bytes of device memory; of the device's 1073741824, 1048576 are free"));
  CHECK(FakeCuda::Instance().calls("MemCreate") == arenas);
  CHECK(FakeCuda::Instance().calls("MemAlloc") == buffers + 1);
}

TEST_CASE("Every driver failure during preparation is an error that leaves nothing") {
  FakeJudge judge;
  const auto before = FakeCuda::Instance().Held();
  for (const char* function :
       {"MemCreate", "MemMap", "MemAlloc", "MemcpyHtoDAsync", "MemcpyDtoHAsync", "MemcpyDtoDAsync",
        "MemsetD8Async", "MemsetD32Async", "LaunchKernel", "StreamSynchronize"}) {
    for (const int nth : {1, 3}) {
      const auto runner = judge.StartRunner();
      const int calls = FakeCuda::Instance().calls(function);
      FakeCuda::Instance().Inject(function, nth, Effect::kFailOnce);
      const bool ok = judge.Prepare(MapProblem(), *runner).ok();
      INFO(function << " " << nth);
      CHECK((!ok || FakeCuda::Instance().calls(function) < calls + nth));
      CHECK(FakeCuda::Instance().Held() == before);
      FakeCuda::Instance().Inject(function, 1 << 20, Effect::kFailOnce);
    }
  }
}

TEST_CASE("Preparation ends soon after the token is stopped") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  CancelToken stopped;
  stopped.Cancel();
  CHECK(absl::IsCancelled(
      CudaPreparedProblem::Make(
          MapProblem(), MapProgram(kMapOracle), MapProgram(kMapReference),
          {testing::QuickOptions(), judge.device(), judge.kernels(), SecretKey{1}}, *runner,
          stopped)
          .status()));
  // The oracle and the runner were not used.
  CHECK(FakeCuda::Instance().calls("LaunchKernel") == 0);
  CHECK(runner->alive());
}

TEST_CASE("A runner releases one problem and takes another") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  const auto first = judge.Prepare(MapProblem("first"), *runner);
  REQUIRE(first.ok());
  CHECK_FALSE(judge.Prepare(MapProblem("second"), *runner).ok());
  CHECK((*first)->Detach(*runner, judge.cancel).ok());
  const auto second = judge.Prepare(MapProblem("second"), *runner);
  REQUIRE(second.ok());
  CHECK((*second)->Detach(*runner, judge.cancel).ok());
  CHECK((*first)->Attach(*runner, judge.cancel).ok());
  const cuda_runner::RunRecord run{cuda_runner::kReference, 0};
  CHECK(runner->Run({&run, 1}, 30'000'000'000, judge.cancel).ok());
  const auto fresh = judge.StartRunner();
  CHECK((*second)->Attach(*fresh, judge.cancel).ok());
}

TEST_CASE("Arenas move to other memory for a fresh runner and keep the inputs") {
  FakeJudge judge;
  auto runner = judge.StartRunner();
  const auto prepared = judge.Prepare(MapProblem(), *runner);
  REQUIRE(prepared.ok());
  const auto& place = (*prepared)->cases()[0].outputs[0];
  std::set<CUdeviceptr> addresses;
  std::set<uint64_t> distances;
  for (int i = 0; i < 5; ++i) {
    runner = judge.StartRunner();
    REQUIRE((*prepared)->memory().Relocate().ok());
    REQUIRE((*prepared)->Attach(*runner, judge.cancel).ok());
    const CUdeviceptr outputs =
        (*prepared)->memory().OutputAddress(CudaPreparedProblem::kOutputs, place);
    CHECK(outputs % 512 == 0);
    addresses.insert(outputs);
    distances.insert(outputs - (*prepared)->memory().OutputAddress(
                                   CudaPreparedProblem::kReferenceOutputs, place));
    CHECK((*prepared)->InputsFingerprint().value() == (*prepared)->base_fingerprint());
    const cuda_runner::RunRecord run{cuda_runner::kReference, 0};
    CHECK(runner->Run({&run, 1}, 30'000'000'000, judge.cancel).ok());
  }
  CHECK(addresses.size() > 1);
  CHECK(distances.size() > 1);
}

TEST_CASE("The first arena stays when the device has no room for another") {
  FakeJudge judge;
  auto runner = judge.StartRunner();
  const auto prepared = judge.Prepare(MapProblem(), *runner);
  REQUIRE(prepared.ok());
  runner = judge.StartRunner();
  FakeCuda::Instance().Inject("MemCreate", 1, Effect::kFailOnce, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK((*prepared)->memory().Relocate().ok());
  REQUIRE((*prepared)->Attach(*runner, judge.cancel).ok());
  CHECK((*prepared)->InputsFingerprint().value() == (*prepared)->base_fingerprint());
}

TEST_CASE("No reference result remains when device code arrives") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  const auto prepared = judge.Prepare(MapProblem(), *runner);
  REQUIRE(prepared.ok());
  const auto& at = (*prepared)->cases()[0];
  const auto word = [&] {
    uint32_t value = 0;
    const CUdeviceptr from =
        (*prepared)->memory().OutputAddress(CudaPreparedProblem::kReferenceOutputs, at.outputs[0]);
    CHECK(judge.device().api().MemcpyDtoHAsync(&value, from, sizeof(value),
                                               judge.device().stream()) == CUDA_SUCCESS);
    CHECK(judge.device().Synchronize().ok());
    return value;
  };
  CHECK(word() != ~uint32_t{0});
  REQUIRE((*prepared)->LoadReference(*runner, CudaPreparedProblem::kOutputs, judge.cancel).ok());
  CHECK(word() == ~uint32_t{0});
}

TEST_CASE("The workspace grows, or stays unchanged where it cannot") {
  FakeJudge judge;
  const auto runner = judge.StartRunner({"--inject=MemMap:7:once:2"});
  const auto prepared = judge.Prepare(MapProblem(), *runner);
  REQUIRE(prepared.ok());
  REQUIRE((*prepared)->memory().ReserveScratch(5000, *runner, judge.cancel).ok());
  const auto before = FakeCuda::Instance().Held();
  // The judge has no memory; then the runner cannot map it.
  CHECK(absl::IsResourceExhausted(
      (*prepared)->memory().ReserveScratch(uint64_t{2} << 30, *runner, judge.cancel)));
  CHECK(absl::IsResourceExhausted(
      (*prepared)->memory().ReserveScratch(50'000, *runner, judge.cancel)));
  CHECK(FakeCuda::Instance().Held() == before);
  // Programs that need the smaller one continue.
  CudaProgram program = MapProgram(kMapReference);
  program.launches[0].arguments[1] = "workspace";
  program.workspace_bytes = "4*n";
  const auto programs = (*prepared)->MakePrograms(program, CudaPreparedProblem::kOutputs);
  REQUIRE(programs.ok());
  CHECK(programs->max_workspace_bytes == 6144);
  const auto loaded =
      runner->Load(cuda_runner::kCandidate, program.cubin, {"map"}, 30'000'000'000, judge.cancel);
  REQUIRE((loaded.ok() && loaded->ok()));
  const auto taken = runner->SetPrograms(cuda_runner::kCandidate, programs->programs,
                                         30'000'000'000, judge.cancel);
  CHECK((taken.ok() && taken->ok()));
  CHECK((*prepared)->memory().ReserveScratch(50'000, *runner, judge.cancel).ok());
}

TEST_CASE("Programs without a plan are refused before anything runs") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  const auto prepared = judge.Prepare(MapProblem(), *runner);
  REQUIRE(prepared.ok());
  CudaProgram program = MapProgram(kMapReference);
  const Launch launch = program.launches[0];
  program.launches.assign(64, launch);
  CHECK((*prepared)->MakePrograms(program, CudaPreparedProblem::kOutputs).ok());
  program.launches.push_back(launch);
  CHECK(absl::IsInvalidArgument(
      (*prepared)->MakePrograms(program, CudaPreparedProblem::kOutputs).status()));
  program.launches.clear();
  CHECK(absl::IsInvalidArgument(
      (*prepared)->MakePrograms(program, CudaPreparedProblem::kOutputs).status()));
}

TEST_CASE("A problem with more cases than a runner supports is refused") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  Problem problem = MapProblem();
  ProblemTarget& target = problem.targets.find(kCudaTargetName)->second;
  target.check_shapes.assign(260, AxisValues{{"n", 1}});
  const auto status = judge.Prepare(problem, *runner).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(Says(status, "a runner takes 511"));
}

TEST_CASE("Input sets are limited to what one request can poison") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  Problem problem = MapProblem();
  // Only the first is written, so the reference fails, but only after the sets are made.
  while (problem.outputs.size() < 300) problem.outputs.push_back(problem.outputs[0]);
  CHECK(Says(judge.Prepare(problem, *runner).status(), "NaN in output"));
  while (problem.outputs.size() < 512) problem.outputs.push_back(problem.outputs[0]);
  CHECK(Says(judge.Prepare(problem, *runner).status(), "too many for a runner"));
}

TEST_CASE("A large workspace is poisoned in part at changing places") {
  std::vector<cuda_runner::PoisonRecord> poisons;
  SecretRandom random(SecretKey{3}, "workspace");
  CHECK(CudaPreparedProblem::AddWorkspacePoison(0, 1, random, poisons) == 0);
  CHECK(poisons.empty());
  CHECK(CudaPreparedProblem::AddWorkspacePoison(1024, 1, random, poisons) == 1024);
  CHECK(poisons[0].offset == 0);
  CHECK(poisons[0].bytes == 1024);
  const uint64_t large = uint64_t{4} << 30;
  for (int i = 0; i < 100; ++i) {
    CHECK(CudaPreparedProblem::AddWorkspacePoison(large, 1, random, poisons) ==
          CudaPreparedProblem::kMaxPoisonedBytes);
    const auto& poison = poisons.back();
    CHECK(poison.offset + poison.bytes <= large);
    CHECK((poison.offset & 3) == 0);
    CHECK(poison.offset != poisons[poisons.size() - 2].offset);
  }
}

}  // namespace
}  // namespace kernelcast::worker
