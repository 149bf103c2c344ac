// The oracle's part of CudaPreparedProblem.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/tensor.h"
#include "services/worker/cuda/judge/prepared_problem.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::Program;
using cuda_runner::RunRecord;

constexpr int64_t kOracleLoadLimitNs = 30'000'000'000;
constexpr const char* kOracleText = "the problem's oracle";

}  // namespace

absl::StatusOr<std::vector<CudaExpected>> CudaPreparedProblem::PlaceExpected(
    const Case& at, std::vector<Place>& places, uint64_t& end) const {
  const std::vector<TensorLayout>& layouts = at.output_layouts;
  const AxisValues& axes = at.spec.axes;
  std::vector<CudaExpected> all;
  for (size_t i = 0; i < layouts.size(); ++i) {
    CudaExpected expected;
    expected.dtype = layouts[i].dtype;
    KC_ASSIGN_OR_RETURN(expected.tolerance, Tensors().ToleranceOf(i, axes));
    expected.noise = Tensors().NoiseOf(i, axes, expected.tolerance);
    expected.kept = KeptType(expected.dtype, task_ != nullptr);
    expected.count = layouts[i].elements();
    const auto bytes = static_cast<uint64_t>(expected.count * SizeBytes(expected.kept));
    places.push_back({end, bytes});
    end = AlignTensor(end + bytes);
    all.push_back(expected);
  }
  return all;
}

// The oracle may hang or crash a context like any other program. It therefore runs in the runner,
// before any candidate, and its outputs are unmapped before a candidate runs.
absl::Status CudaPreparedProblem::RunOracle(const CudaProgram& oracle, CudaRunner& runner,
                                            const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  uint64_t end = 0;
  // By bank; the check cases are in the first one.
  std::array<std::vector<OracleCall>, CasePlan::kBanks> calls;
  const auto add = [&](size_t index, Bank bank) -> absl::Status {
    const Case& at = plan_.cases[index];
    std::vector<CudaExpected>& expected = sets_[index][bank].expected;
    OracleCall& call = calls[bank].emplace_back(OracleCall{&at, &expected, {}});
    KC_ASSIGN_OR_RETURN(expected, PlaceExpected(at, call.places, end));
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(plan_.ForEachDraw(add));
  KC_ASSIGN_OR_RETURN(expected_, SharedArena::Create(device_, end));
  // Elements that the oracle does not write stay NaN, which is detected below.
  KC_RETURN_IF_ERROR(device_.Check(
      api.MemsetD8Async(expected_.address(), 0xff, expected_.bytes(), device_.stream()),
      "filling outputs"));
  KC_RETURN_IF_ERROR(
      AnswerStatus(api, runner.Map(kExpected, expected_.fd(), expected_.bytes(), true, cancel),
                   cancel, "mapping memory"));
  if (oracle.host_launched()) {
    KC_RETURN_IF_ERROR(LoadTaskProgram(runner, oracle.object, "oracle", cancel));
  } else {
    KC_ASSIGN_OR_RETURN(const CudaRunner::Answer loaded,
                        runner.Load(cuda_runner::kCandidate, oracle.cubin, oracle.KernelNames(),
                                    kOracleLoadLimitNs, cancel));
    KC_RETURN_IF_ERROR(AnswerStatus(api, loaded, cancel, kOracleText));
  }

  std::vector<Program> programs;
  uint64_t workspace_bytes = 0;
  for (const std::vector<OracleCall>& of_bank : calls) {
    for (const OracleCall& call : of_bank) {
      if (oracle.host_launched()) {
        KC_ASSIGN_OR_RETURN(programs.emplace_back(),
                            PlanCall(*call.at, {kExpected, call.places}, /*expected=*/true));
        continue;
      }
      auto program = PlanProgram(problem_, oracle, *call.at, {kExpected, call.places});
      if (!program.ok()) {
        return absl::FailedPreconditionError(
            absl::StrCat(kOracleText, ": ", program.status().message()));
      }
      programs.push_back(std::move(program->program));
      workspace_bytes = std::max(workspace_bytes, program->workspace_bytes);
    }
  }
  KC_RETURN_IF_ERROR(memory_.ReserveScratch(workspace_bytes, runner, cancel));

  for (size_t bank = 0, first = 0; bank < CasePlan::kBanks; first += calls[bank].size(), ++bank) {
    for (const BenchShape& shape : plan_.bench_shapes) {
      KC_RETURN_IF_ERROR(PutBank(shape, static_cast<Bank>(bank)));
    }
    KC_RETURN_IF_ERROR(device_.Synchronize());
    // A runner takes a limited number of programs, so set those of each bank separately.
    KC_ASSIGN_OR_RETURN(const CudaRunner::Answer taken,
                        runner.SetPrograms(cuda_runner::kCandidate,
                                           std::span(programs).subspan(first, calls[bank].size()),
                                           kOracleLoadLimitNs, cancel));
    KC_RETURN_IF_ERROR(AnswerStatus(api, taken, cancel, kOracleText));
    for (size_t i = 0; i < calls[bank].size(); ++i) {
      const RunRecord record{cuda_runner::kCandidate, static_cast<uint32_t>(i)};
      KC_RETURN_IF_ERROR(CheckPace());
      KC_RETURN_IF_ERROR(
          CallStatus(runner, runner.Run({&record, 1}, options_.problem_call_limit_ns, cancel),
                     OracleText(calls[bank][i]), cancel));
    }
    KC_RETURN_IF_ERROR(DescribeExpected(calls[bank]));
  }
  for (const BenchShape& shape : plan_.bench_shapes) {
    KC_RETURN_IF_ERROR(PutBank(shape, kBase));
  }
  KC_RETURN_IF_ERROR(device_.Synchronize());
  KC_RETURN_IF_ERROR(
      AnswerStatus(api, runner.Unload(cuda_runner::kCandidate, cancel), cancel, "unloading"));
  return AnswerStatus(api, runner.Unmap(kExpected, cancel), cancel, "unmapping memory");
}

std::string CudaPreparedProblem::OracleText(const OracleCall& call) {
  return absl::StrCat(kOracleText, " (", ShapeText(call.at->spec.axes), ", ",
                      call.at->spec.distribution(), ")");
}

absl::Status CudaPreparedProblem::DescribeExpected(std::span<const OracleCall> calls) {
  // Process all calls together: separate allocations and synchronisations would dominate the time.
  size_t outputs = 0;
  for (const OracleCall& call : calls) outputs += call.expected->size();
  std::vector<ExpectedStatistics> found(outputs);
  const size_t bytes = found.size() * sizeof(ExpectedStatistics);
  KC_ASSIGN_OR_RETURN(const DeviceBuffer statistics, DeviceBuffer::Allocate(device_, bytes));
  size_t at = 0;
  for (const OracleCall& call : calls) {
    for (size_t i = 0; i < call.expected->size(); ++i, ++at) {
      CudaExpected& output = (*call.expected)[i];
      output.values = expected_.address() + call.places[i].offset;
      if (!IsFloat(output.dtype)) continue;
      KC_RETURN_IF_ERROR(kernels_.Describe(output.dtype, output.kept, output.values, output.count,
                                           statistics.address() + at * sizeof(ExpectedStatistics)));
    }
  }
  KC_RETURN_IF_ERROR(device_.Read(found.data(), statistics.address(), bytes, "reading statistics"));
  at = 0;
  for (const OracleCall& call : calls) {
    for (size_t i = 0; i < call.expected->size(); ++i, ++at) {
      CudaExpected& output = (*call.expected)[i];
      if (!IsFloat(output.dtype)) {
        output.absolute = output.tolerance.atol;
        continue;
      }
      const ExpectedStatistics& of = found[at];
      if (of.nan > 0 && !output.tolerance.nan_agrees) {
        return absl::FailedPreconditionError(
            absl::StrCat(OracleText(call), " yields ", of.nan, " NaN in output ",
                         OutputName(i, call.at->spec.axes), ", which no candidate can match"));
      }
      output.norm = std::sqrt(of.squares);
      output.rms = of.finite > 0 ? output.norm / std::sqrt(static_cast<double>(of.finite)) : 0;
      output.absolute =
          output.tolerance.atol * (output.tolerance.scaled ? std::max(1.0, output.rms) : 1);
    }
  }
  return absl::OkStatus();
}

}  // namespace kernelcast::worker
