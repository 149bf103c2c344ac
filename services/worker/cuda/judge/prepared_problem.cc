#include "services/worker/cuda/judge/prepared_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/core/tensor.h"
#include "services/worker/core/verification.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::Argument;
using cuda_runner::PoisonRecord;
using cuda_runner::Program;
using cuda_runner::ProgramLaunch;
using cuda_runner::RunRecord;

constexpr uint64_t kAlignment = 512;
constexpr int64_t kReferenceLimitNs = 120'000'000'000;
constexpr int64_t kReferenceLoadLimitNs = 30'000'000'000;
constexpr int kReferenceCalls = 3;
constexpr size_t kMaxDrawingThreads = 16;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// `late` is the code for an answer that does not come in time.
absl::Status AnswerStatus(const CudaApi& api, const CudaRunner::Answer& answer,
                          const CancelToken& cancel, const std::string& what,
                          absl::StatusCode late = absl::StatusCode::kUnavailable) {
  if (answer.ok()) {
    return absl::OkStatus();
  }
  if (answer.end == CudaRunner::End::kStopped) {
    return cancel.Check();
  }
  const std::string text = absl::StrCat(what, ": ", CudaRunner::FailureText(answer));
  if (answer.end == CudaRunner::End::kGone) {
    return absl::UnavailableError(text);
  }
  if (answer.end == CudaRunner::End::kTimeout) {
    return absl::Status(late, text);
  }
  if (answer.reply.failure == cuda_runner::Failure::kDriver) {
    const absl::Status status =
        CudaStatus(api, static_cast<CUresult>(answer.reply.cuda_error), what);
    return absl::Status(absl::IsAborted(status) || absl::IsInvalidArgument(status)
                            ? absl::StatusCode::kFailedPrecondition
                            : status.code(),
                        status.message());
  }
  return absl::FailedPreconditionError(text);
}

}  // namespace

std::vector<std::string> CudaProgram::KernelNames() const {
  std::vector<std::string> names;
  for (const Launch& launch : launches) {
    if (std::find(names.begin(), names.end(), launch.kernel) == names.end()) {
      names.push_back(launch.kernel);
    }
  }
  return names;
}

CudaVerdict JudgeComparison(const CudaExpected& expected, const TensorComparison& comparison,
                            bool poisoned) {
  CudaVerdict verdict;
  if (IsFloat(expected.dtype)) {
    const double error = std::sqrt(comparison.error_squares);
    verdict.normwise_error = expected.norm > 0 ? error / expected.norm : error;
  }
  if (comparison.mismatches == 0) {
    verdict.cause = WrongResult::Cause::kNormwise;
    verdict.ok = !(IsFloat(expected.dtype) && expected.tolerance.normwise > 0 &&
                   expected.rms > expected.tolerance.atol &&
                   verdict.normwise_error > expected.tolerance.normwise);
    return verdict;
  }
  verdict.ok = false;
  if (poisoned && comparison.unwritten == comparison.mismatches) {
    verdict.cause = WrongResult::Cause::kNotWritten;
  } else if (comparison.non_finite == comparison.mismatches) {
    verdict.cause = WrongResult::Cause::kNonFinite;
  }
  return verdict;
}

absl::StatusOr<std::unique_ptr<CudaPreparedProblem>> CudaPreparedProblem::Make(
    const Problem& problem, const CudaProgram& oracle, CudaProgram reference,
    const MeasureOptions& options, CudaDevice& device, JudgeKernels& kernels, CudaRunner& runner,
    uint64_t seed, const CancelToken& cancel) {
  std::unique_ptr<CudaPreparedProblem> prepared(
      new CudaPreparedProblem(problem, options, device, kernels, seed));
  prepared->reference_ = std::move(reference);
  KC_RETURN_IF_ERROR(prepared->Arrange());
  KC_RETURN_IF_ERROR(prepared->FillInputs(cancel));
  KC_RETURN_IF_ERROR(prepared->RunOracle(oracle, cancel));
  auto programs = prepared->MakePrograms(prepared->reference_, Side::kReference);
  if (!programs.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the problem's reference: ", programs.status().message()));
  }
  prepared->reference_programs_ = *std::move(programs);
  KC_RETURN_IF_ERROR(prepared->Attach(runner, cancel));
  KC_RETURN_IF_ERROR(prepared->RunReference(runner, cancel));
  return prepared;
}

absl::Status CudaPreparedProblem::Arrange() {
  uint64_t inputs_end = 0;
  const auto add_case = [&](const AxisValues& axes, std::string distribution,
                            uint64_t& outputs_end) -> absl::StatusOr<size_t> {
    Case added;
    added.axes = axes;
    added.distribution = std::move(distribution);
    KC_ASSIGN_OR_RETURN(const auto inputs, Layouts(problem_.inputs, axes));
    for (const TensorLayout& layout : inputs) {
      added.inputs.push_back({inputs_end, static_cast<uint64_t>(layout.bytes())});
      inputs_end = RoundUp(inputs_end + static_cast<uint64_t>(layout.bytes()));
    }
    KC_ASSIGN_OR_RETURN(const auto outputs, Layouts(problem_.outputs, axes));
    for (const TensorLayout& layout : outputs) {
      outputs_end += kGuardBytes;
      added.outputs.push_back({outputs_end, static_cast<uint64_t>(layout.bytes())});
      outputs_end = RoundUp(outputs_end + static_cast<uint64_t>(layout.bytes())) + kGuardBytes;
    }
    cases_.push_back(std::move(added));
    return cases_.size() - 1;
  };

  for (CaseSpec& spec : CorrectnessCases(problem_, target(), options_, random_)) {
    CheckCase check;
    KC_ASSIGN_OR_RETURN(check.index, add_case(spec.axes, spec.distribution(), outputs_bytes_));
    check_cases_.push_back(std::move(check));
    check_specs_.push_back(std::move(spec));
  }
  for (const AxisValues& axes : target().bench_shapes) {
    BenchShape shape;
    shape.axes = axes;
    if (problem_.bytes) {
      KC_ASSIGN_OR_RETURN(shape.bytes, problem_.bytes->Evaluate(ToVariables(axes)));
    }
    if (problem_.flops) {
      KC_ASSIGN_OR_RETURN(shape.flops, problem_.flops->Evaluate(ToVariables(axes)));
    }
    // In the arenas, and in each bank.
    int64_t set_bytes = 0;
    KC_ASSIGN_OR_RETURN(const auto inputs, Layouts(problem_.inputs, axes));
    for (const TensorLayout& layout : inputs) {
      set_bytes += layout.bytes() * static_cast<int64_t>(1 + kBanks);
    }
    KC_ASSIGN_OR_RETURN(const auto outputs, Layouts(problem_.outputs, axes));
    for (const TensorLayout& layout : outputs) {
      const int64_t expected = IsFloat(layout.dtype) ? layout.elements() * 8 : layout.bytes();
      set_bytes += 2 * layout.bytes() + static_cast<int64_t>(kBanks) * expected;
    }
    const int64_t affordable = options_.input_sets_bytes / std::max<int64_t>(1, set_bytes) /
                               std::ssize(target().bench_shapes);
    // All are timed by one request, and one call of nothing.
    const int64_t poisons_a_set = 2 * std::ssize(problem_.outputs) + 1;
    const int64_t most = std::min<int64_t>({options_.input_sets, cuda_runner::kMaxSamples - 1,
                                            int64_t{cuda_runner::kMaxPoisons} / poisons_a_set});
    if (most < 1) {
      return absl::FailedPreconditionError(absl::StrCat("the problem has ", problem_.outputs.size(),
                                                        " outputs, too many for a runner"));
    }
    const int64_t sets = std::clamp<int64_t>(affordable, 1, most);
    for (int64_t i = 0; i < sets; ++i) {
      KC_ASSIGN_OR_RETURN(const size_t index, add_case(axes, "declared", outputs_bytes_));
      shape.slots.push_back(index);
    }
    shape.sets.resize(static_cast<size_t>(sets));
    bench_shapes_.push_back(std::move(shape));
  }
  // One program more does nothing, for the cost of a call.
  if (cases_.size() >= cuda_runner::kMaxPrograms || check_cases_.size() > cuda_runner::kMaxRuns) {
    return absl::FailedPreconditionError(
        absl::StrCat("the problem has ", cases_.size(), " cases, of ", check_cases_.size(),
                     " that are checked; a runner takes ", cuda_runner::kMaxPrograms - 1, ", of ",
                     cuda_runner::kMaxRuns));
  }
  inputs_bytes_ = inputs_end;
  KC_ASSIGN_OR_RETURN(inputs_, SharedArena::Create(device_, inputs_bytes_));
  KC_ASSIGN_OR_RETURN(candidate_outputs_, SharedArena::Create(device_, outputs_bytes_));
  KC_ASSIGN_OR_RETURN(reference_outputs_, SharedArena::Create(device_, outputs_bytes_));
  KC_ASSIGN_OR_RETURN(scratch_, SharedArena::Create(device_, 1));
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::FillInputs(const CancelToken& cancel) {
  // One draw of all inputs of one call, independent of the others.
  const auto draw = [&](const CaseSpec& spec,
                        uint64_t seed) -> absl::StatusOr<std::vector<std::string>> {
    Random random(seed);
    KC_ASSIGN_OR_RETURN(const auto layouts, Layouts(problem_.inputs, spec.axes));
    std::vector<std::string> inputs;
    for (size_t i = 0; i < layouts.size(); ++i) {
      std::string data(static_cast<size_t>(layouts[i].bytes()), '\0');
      KC_RETURN_IF_ERROR(FillInput(problem_.inputs[i], layouts[i], spec, random,
                                   std::as_writable_bytes(std::span(data))));
      inputs.push_back(std::move(data));
    }
    return inputs;
  };
  const auto upload = [&](const std::string& data, CUdeviceptr to) {
    return device_.Check(
        device_.api().MemcpyHtoDAsync(to, data.data(), data.size(), device_.stream()),
        "copying inputs");
  };

  for (size_t i = 0; i < check_cases_.size(); ++i) {
    KC_RETURN_IF_ERROR(cancel.Check());
    KC_ASSIGN_OR_RETURN(const auto inputs, draw(check_specs_[i], random_.Next()));
    const Case& at = cases_[check_cases_[i].index];
    for (size_t t = 0; t < inputs.size(); ++t) {
      KC_RETURN_IF_ERROR(upload(inputs[t], inputs_.address() + at.inputs[t].offset));
    }
    KC_RETURN_IF_ERROR(device_.Synchronize());
  }

  // Bench inputs are large: drawn by several threads, and uploaded before the next are.
  struct Job {
    Set* to[kBanks];
    AxisValues axes;
    uint64_t seeds[kBanks];
    absl::StatusOr<std::vector<std::string>> banks[kBanks];
  };
  std::vector<Job> jobs;
  for (BenchShape& shape : bench_shapes_) {
    for (std::array<Set, kBanks>& sets : shape.sets) {
      Job& job = jobs.emplace_back();
      job.axes = shape.axes;
      for (size_t bank = 0; bank < kBanks; ++bank) {
        job.to[bank] = &sets[bank];
        job.seeds[bank] = random_.Next();
      }
    }
  }
  const auto work = [&](Job& job) {
    const CaseSpec spec{.axes = job.axes};
    job.banks[kBase] = draw(spec, job.seeds[kBase]);
    job.banks[kOther] = draw(spec, job.seeds[kOther]);
    job.banks[kAltered] = job.banks[kBase];
    if (job.banks[kAltered].ok() && job.banks[kOther].ok()) {
      Random random(job.seeds[kAltered]);
      AlterInputs(problem_.inputs, *job.banks[kOther], random, *job.banks[kAltered]);
    }
  };
  const size_t at_once =
      std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMaxDrawingThreads);
  for (size_t first = 0; first < jobs.size(); first += at_once) {
    KC_RETURN_IF_ERROR(cancel.Check());
    const std::span<Job> part =
        std::span(jobs).subspan(first, std::min(at_once, jobs.size() - first));
    {
      std::vector<std::jthread> threads;
      for (Job& job : part) threads.emplace_back(work, std::ref(job));
    }
    for (Job& job : part) {
      for (size_t bank = 0; bank < kBanks; ++bank) {
        KC_ASSIGN_OR_RETURN(const std::vector<std::string> tensors, std::move(job.banks[bank]));
        for (const std::string& data : tensors) {
          KC_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                              DeviceBuffer::Copy(device_, std::as_bytes(std::span(data))));
          job.to[bank]->inputs.push_back(std::move(buffer));
        }
      }
    }
    KC_RETURN_IF_ERROR(device_.Synchronize());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CudaExpected>> CudaPreparedProblem::AllocateExpected(
    const AxisValues& axes) {
  KC_ASSIGN_OR_RETURN(const auto layouts, Layouts(problem_.outputs, axes));
  std::vector<CudaExpected> all;
  for (size_t i = 0; i < layouts.size(); ++i) {
    CudaExpected expected;
    expected.dtype = layouts[i].dtype;
    expected.tolerance = problem_.outputs[i].tolerance;
    expected.count = layouts[i].elements();
    const int64_t bytes = IsFloat(expected.dtype) ? expected.count * 8 : layouts[i].bytes();
    KC_ASSIGN_OR_RETURN(expected.values,
                        DeviceBuffer::Allocate(device_, static_cast<size_t>(bytes)));
    all.push_back(std::move(expected));
  }
  return all;
}

absl::Status CudaPreparedProblem::RunOracle(const CudaProgram& oracle, const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  const auto fault = [](const absl::Status& status) {
    return status.ok() || absl::IsResourceExhausted(status)
               ? status
               : absl::FailedPreconditionError(
                     absl::StrCat("the problem's oracle: ", status.message()));
  };
  // A kernel that failed is told by whatever comes after it.
  const auto fault_if_lost = [&](const absl::Status& status) {
    return absl::IsAborted(status) ? fault(status) : status;
  };
  // Unloads it whatever happens.
  struct Module {
    const CudaApi& api;
    CUmodule module = nullptr;
    ~Module() {
      if (module != nullptr) api.ModuleUnload(module);
    }
  } module{api};
  KC_RETURN_IF_ERROR(
      fault(device_.Check(api.ModuleLoadData(&module.module, oracle.cubin.data()), "loading it")));
  std::map<std::string, CUfunction> functions;
  for (const std::string& name : oracle.KernelNames()) {
    KC_RETURN_IF_ERROR(fault(
        device_.Check(api.ModuleGetFunction(&functions[name], module.module, name.c_str()), name)));
  }
  KC_ASSIGN_OR_RETURN(const DeviceBuffer statistics,
                      DeviceBuffer::Allocate(device_, sizeof(ExpectedStatistics)));

  const auto run = [&](const AxisValues& axes, const std::vector<CUdeviceptr>& inputs,
                       const std::string& distribution,
                       std::vector<CudaExpected>& outputs) -> absl::Status {
    KC_RETURN_IF_ERROR(cancel.Check());
    const std::string what = absl::StrCat(ShapeText(axes), ", ", distribution);
    KC_ASSIGN_OR_RETURN(outputs, AllocateExpected(axes));
    auto plan =
        PlanLaunches(problem_, oracle.launches, oracle.workspace_bytes, oracle.tunables, axes);
    KC_RETURN_IF_ERROR(fault(plan.status()));
    KC_ASSIGN_OR_RETURN(
        const DeviceBuffer workspace,
        DeviceBuffer::Allocate(device_, static_cast<size_t>(plan->workspace_bytes)));
    for (const CudaExpected& output : outputs) {
      // What the oracle leaves out is NaN, which is found below.
      KC_RETURN_IF_ERROR(device_.Check(
          api.MemsetD8Async(output.values.address(), 0xff, output.values.bytes(), device_.stream()),
          "filling outputs"));
    }
    for (const PlannedLaunch& launch : plan->launches) {
      std::vector<uint64_t> values;
      for (const KernelArgument& argument : launch.arguments) {
        uint64_t value = 0;
        switch (argument.kind) {
          case KernelArgument::Kind::kTensor: {
            const auto tensor = static_cast<size_t>(argument.tensor);
            value = tensor < inputs.size() ? inputs[tensor]
                                           : outputs[tensor - inputs.size()].values.address();
            break;
          }
          case KernelArgument::Kind::kWorkspace: value = workspace.address(); break;
          case KernelArgument::Kind::kScalar:
            std::memcpy(&value, argument.bits.data(), argument.bytes);
            break;
        }
        values.push_back(value);
      }
      const CUfunction function = functions[launch.kernel];
      size_t parameters_wanted = 0;
      size_t offset = 0;
      size_t bytes = 0;
      while (api.FuncGetParamInfo(function, parameters_wanted, &offset, &bytes) == CUDA_SUCCESS) {
        ++parameters_wanted;
      }
      if (parameters_wanted != values.size()) {
        return fault(absl::InvalidArgumentError(absl::StrCat(
            launch.kernel, " takes ", parameters_wanted, " arguments, not ", values.size())));
      }
      std::vector<void*> parameters;
      parameters.reserve(values.size());
      for (uint64_t& value : values) parameters.push_back(&value);
      if (launch.shared_memory_bytes > 48 << 10) {
        KC_RETURN_IF_ERROR(fault(device_.Check(
            api.FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 static_cast<int>(launch.shared_memory_bytes)),
            launch.kernel)));
      }
      KC_RETURN_IF_ERROR(
          fault(device_.Check(api.LaunchKernel(function, launch.grid[0], launch.grid[1],
                                               launch.grid[2], launch.block[0], launch.block[1],
                                               launch.block[2], launch.shared_memory_bytes,
                                               device_.stream(), parameters.data(), nullptr),
                              launch.kernel)));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      CudaExpected& output = outputs[i];
      if (!IsFloat(output.dtype)) {
        output.absolute = output.tolerance.atol;
        continue;
      }
      KC_RETURN_IF_ERROR(kernels_.Describe(output.dtype, output.values.address(), output.count,
                                           statistics.address()));
      ExpectedStatistics found;
      KC_RETURN_IF_ERROR(device_.Check(
          api.MemcpyDtoHAsync(&found, statistics.address(), sizeof(found), device_.stream()),
          "reading statistics"));
      KC_RETURN_IF_ERROR(fault(device_.Synchronize()));
      if (found.nan > 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("the problem's oracle yields ", found.nan, " NaN in output ",
                         problem_.outputs[i].name, " (", what, "), which no candidate can match"));
      }
      output.norm = std::sqrt(found.squares);
      output.rms =
          found.finite > 0 ? output.norm / std::sqrt(static_cast<double>(found.finite)) : 0;
      output.absolute = output.tolerance.atol * std::max(1.0, output.rms);
    }
    return fault(device_.Synchronize());
  };

  for (CheckCase& check : check_cases_) {
    const Case& at = cases_[check.index];
    std::vector<CUdeviceptr> inputs;
    for (const Place& place : at.inputs) inputs.push_back(inputs_.address() + place.offset);
    KC_RETURN_IF_ERROR(fault_if_lost(run(at.axes, inputs, at.distribution, check.expected)));
  }
  for (BenchShape& shape : bench_shapes_) {
    for (std::array<Set, kBanks>& sets : shape.sets) {
      for (Set& set : sets) {
        std::vector<CUdeviceptr> inputs;
        for (const DeviceBuffer& input : set.inputs) inputs.push_back(input.address());
        KC_RETURN_IF_ERROR(fault_if_lost(run(shape.axes, inputs, "declared", set.expected)));
      }
    }
    KC_RETURN_IF_ERROR(PutBank(shape, kBase));
  }
  return device_.Synchronize();
}

absl::StatusOr<CudaPreparedProblem::Programs> CudaPreparedProblem::MakePrograms(
    const CudaProgram& program, Side side) const {
  const std::vector<std::string> names = program.KernelNames();
  const uint32_t outputs = side == Side::kCandidate ? kCandidateOutputs : kReferenceOutputs;
  Programs made;
  for (const Case& at : cases_) {
    KC_ASSIGN_OR_RETURN(const LaunchPlan plan,
                        PlanLaunches(problem_, program.launches, program.workspace_bytes,
                                     program.tunables, at.axes));
    Program calls;
    for (const PlannedLaunch& launch : plan.launches) {
      ProgramLaunch call;
      call.kernel = static_cast<uint32_t>(std::find(names.begin(), names.end(), launch.kernel) -
                                          names.begin());
      std::copy(std::begin(launch.grid), std::end(launch.grid), call.grid);
      std::copy(std::begin(launch.block), std::end(launch.block), call.block);
      if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 1) {
        std::copy(std::begin(launch.cluster), std::end(launch.cluster), call.cluster);
      }
      call.shared_memory_bytes = launch.shared_memory_bytes;
      for (const KernelArgument& argument : launch.arguments) {
        Argument passed;
        passed.bytes = static_cast<uint32_t>(argument.bytes);
        switch (argument.kind) {
          case KernelArgument::Kind::kTensor: {
            const auto tensor = static_cast<size_t>(argument.tensor);
            const bool is_input = tensor < at.inputs.size();
            passed.arena = is_input ? static_cast<uint32_t>(kInputs) : outputs;
            passed.value =
                is_input ? at.inputs[tensor].offset : at.outputs[tensor - at.inputs.size()].offset;
            break;
          }
          case KernelArgument::Kind::kWorkspace: passed.arena = kScratch; break;
          case KernelArgument::Kind::kScalar:
            std::memcpy(&passed.value, argument.bits.data(), argument.bytes);
            break;
        }
        call.arguments.push_back(passed);
      }
      calls.launches.push_back(std::move(call));
    }
    made.programs.push_back(std::move(calls));
    const uint64_t workspace = RoundUp(static_cast<uint64_t>(plan.workspace_bytes));
    made.workspace_bytes.push_back(workspace);
    made.max_workspace_bytes = std::max(made.max_workspace_bytes, workspace);
  }
  return made;
}

absl::Status CudaPreparedProblem::Attach(CudaRunner& runner, const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  const std::pair<Arena, const SharedArena*> arenas[] = {{kInputs, &inputs_},
                                                         {kCandidateOutputs, &candidate_outputs_},
                                                         {kReferenceOutputs, &reference_outputs_},
                                                         {kScratch, &scratch_}};
  for (const auto& [number, arena] : arenas) {
    KC_RETURN_IF_ERROR(AnswerStatus(
        api, runner.Map(number, arena->fd(), arena->bytes(), number != kInputs, cancel), cancel,
        "mapping memory"));
  }
  KC_RETURN_IF_ERROR(ReserveScratch(reference_programs_.max_workspace_bytes, runner, cancel));
  return LoadReference(runner, cancel);
}

absl::Status CudaPreparedProblem::LoadReference(CudaRunner& runner, const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  KC_ASSIGN_OR_RETURN(const CudaRunner::Answer loaded,
                      runner.Load(cuda_runner::kReference, reference_.cubin,
                                  reference_.KernelNames(), kReferenceLoadLimitNs, cancel));
  KC_RETURN_IF_ERROR(AnswerStatus(api, loaded, cancel, "loading the problem's reference"));
  KC_ASSIGN_OR_RETURN(const CudaRunner::Answer taken,
                      runner.SetPrograms(cuda_runner::kReference, reference_programs_.programs,
                                         kReferenceLoadLimitNs, cancel));
  return AnswerStatus(api, taken, cancel, "the problem's reference");
}

absl::Status CudaPreparedProblem::Detach(CudaRunner& runner, const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  for (const uint32_t slot : {cuda_runner::kCandidate, cuda_runner::kReference}) {
    KC_RETURN_IF_ERROR(AnswerStatus(api, runner.Unload(slot, cancel), cancel, "unloading"));
  }
  for (const Arena arena : {kInputs, kCandidateOutputs, kReferenceOutputs, kScratch}) {
    KC_RETURN_IF_ERROR(AnswerStatus(api, runner.Unmap(arena, cancel), cancel, "unmapping"));
  }
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::ReserveScratch(uint64_t bytes, CudaRunner& runner,
                                                 const CancelToken& cancel) {
  if (bytes <= scratch_.bytes()) {
    return absl::OkStatus();
  }
  KC_ASSIGN_OR_RETURN(SharedArena larger, SharedArena::Create(device_, bytes));
  KC_RETURN_IF_ERROR(AnswerStatus(device_.api(), runner.Unmap(kScratch, cancel), cancel,
                                  "unmapping the workspace"));
  const auto map = [&](const SharedArena& arena) {
    return AnswerStatus(device_.api(),
                        runner.Map(kScratch, arena.fd(), arena.bytes(), true, cancel), cancel,
                        "mapping the workspace");
  };
  absl::Status mapped = map(larger);
  if (mapped.ok()) {
    scratch_ = std::move(larger);
    return absl::OkStatus();
  }
  if (absl::IsResourceExhausted(mapped)) {
    if (const absl::Status back = map(scratch_); !back.ok()) {
      return absl::UnavailableError(back.message());
    }
  }
  return mapped;
}

absl::Status CudaPreparedProblem::FillWorkspace(uint64_t bytes, uint32_t pattern) {
  if (bytes == 0) {
    return absl::OkStatus();
  }
  return device_.Check(device_.api().MemsetD32Async(scratch_.address(), pattern,
                                                    std::min<uint64_t>(bytes, scratch_.bytes()) / 4,
                                                    device_.stream()),
                       "filling the workspace");
}

absl::Status CudaPreparedProblem::ResetGuards(const Case& at) {
  for (const Place& place : at.outputs) {
    for (const CUdeviceptr guard : GuardAddresses(place)) {
      KC_RETURN_IF_ERROR(device_.Check(
          device_.api().MemsetD32Async(guard, kGuardPattern, kGuardBytes / 4, device_.stream()),
          "writing guards"));
    }
  }
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::FillOutputs(Side side, const Case& at, uint32_t pattern) {
  for (const Place& place : at.outputs) {
    // Up to the guard: an output may end within a word.
    const uint64_t words = (place.bytes + 3) / 4;
    KC_RETURN_IF_ERROR(device_.Check(
        device_.api().MemsetD32Async(OutputAddress(side, place), pattern, words, device_.stream()),
        "filling outputs"));
  }
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::PutBank(const BenchShape& shape, Bank bank) {
  for (size_t slot = 0; slot < shape.slots.size(); ++slot) {
    const Case& at = cases_[shape.slots[slot]];
    const Set& set = shape.sets[slot][bank];
    for (size_t i = 0; i < at.inputs.size(); ++i) {
      KC_RETURN_IF_ERROR(
          device_.Check(device_.api().MemcpyDtoDAsync(inputs_.address() + at.inputs[i].offset,
                                                      set.inputs[i].address(), at.inputs[i].bytes,
                                                      device_.stream()),
                        "copying inputs"));
    }
  }
  return absl::OkStatus();
}

void CudaPreparedProblem::AddPoisons(Side side, size_t index, uint32_t pattern,
                                     std::vector<PoisonRecord>& poisons) const {
  const uint32_t arena = side == Side::kCandidate ? kCandidateOutputs : kReferenceOutputs;
  for (const Place& place : cases_[index].outputs) {
    poisons.push_back({arena, pattern, place.offset, (place.bytes + 3) / 4 * 4});
  }
}

uint64_t CudaPreparedProblem::AddWorkspacePoison(uint64_t workspace_bytes, uint32_t pattern,
                                                 Random& random,
                                                 std::vector<PoisonRecord>& poisons) {
  const uint64_t bytes = std::min(workspace_bytes, kMaxPoisonedBytes);
  if (bytes > 0) {
    const uint64_t places = (workspace_bytes - bytes) / kAlignment + 1;
    poisons.push_back({kScratch, pattern, random.Below(places) * kAlignment, bytes});
  }
  return bytes;
}

CUdeviceptr CudaPreparedProblem::OutputAddress(Side side, const Place& place) const {
  return (side == Side::kCandidate ? candidate_outputs_ : reference_outputs_).address() +
         place.offset;
}

std::array<CUdeviceptr, 2> CudaPreparedProblem::GuardAddresses(const Place& place) const {
  const CUdeviceptr at = OutputAddress(Side::kCandidate, place);
  return {at - kGuardBytes, at + (place.bytes + 3) / 4 * 4};
}

int64_t CudaPreparedProblem::CallLimitNs(int64_t reference_ns) const {
  const double limit = options_.call_limit_factor * static_cast<double>(reference_ns);
  const auto within =
      static_cast<int64_t>(std::clamp(limit, static_cast<double>(options_.min_call_limit_ns),
                                      static_cast<double>(options_.max_call_limit_ns)));
  return std::max(within, kLeastLimitFactor * reference_ns);
}

absl::Status CudaPreparedProblem::RunReference(CudaRunner& runner, const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  KC_ASSIGN_OR_RETURN(const DeviceBuffer result,
                      DeviceBuffer::Allocate(device_, sizeof(TensorComparison)));
  const auto run = [&](size_t index, const std::vector<CudaExpected>& expected) -> absl::Status {
    Case& at = cases_[index];
    const std::string what =
        absl::StrCat("the problem's reference (", ShapeText(at.axes), ", ", at.distribution, ")");
    KC_RETURN_IF_ERROR(FillOutputs(Side::kReference, at, 0x7ff17ff1));
    KC_RETURN_IF_ERROR(device_.Synchronize());
    const RunRecord record{cuda_runner::kReference, static_cast<uint32_t>(index)};
    at.reference_ns = INT64_MAX;
    for (int i = 0; i < kReferenceCalls; ++i) {
      const CudaRunner::Answer answer = runner.Run({&record, 1}, kReferenceLimitNs, cancel);
      KC_RETURN_IF_ERROR(
          AnswerStatus(api, answer, cancel, what, absl::StatusCode::kFailedPrecondition));
      at.reference_ns = std::min(at.reference_ns, answer.reply.wall_ns);
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      KC_RETURN_IF_ERROR(kernels_.Compare({.dtype = expected[i].dtype,
                                           .got = OutputAddress(Side::kReference, at.outputs[i]),
                                           .expected = expected[i].values.address(),
                                           .count = expected[i].count,
                                           .absolute = expected[i].absolute,
                                           .rtol = expected[i].tolerance.rtol,
                                           .poison = 0x7ff17ff1,
                                           .result = result.address()}));
      TensorComparison found;
      KC_RETURN_IF_ERROR(device_.Check(
          api.MemcpyDtoHAsync(&found, result.address(), sizeof(found), device_.stream()),
          "reading a comparison"));
      KC_RETURN_IF_ERROR(device_.Synchronize());
      const CudaVerdict verdict = JudgeComparison(expected[i], found, true);
      if (!verdict.ok) {
        return absl::FailedPreconditionError(absl::StrCat(
            what, " disagrees with the oracle in output ", problem_.outputs[i].name, ": ",
            found.mismatches, " of ", expected[i].count, " values, the first at ", found.first,
            ", ", found.unwritten, " not written; normwise error ", verdict.normwise_error));
      }
    }
    return absl::OkStatus();
  };
  for (const CheckCase& check : check_cases_) {
    KC_RETURN_IF_ERROR(run(check.index, check.expected));
  }
  for (BenchShape& shape : bench_shapes_) {
    for (size_t slot = 0; slot < shape.slots.size(); ++slot) {
      KC_RETURN_IF_ERROR(run(shape.slots[slot], shape.sets[slot][kBase].expected));
    }
    shape.reference_ns = cases_[shape.slots[0]].reference_ns;
  }
  return absl::OkStatus();
}

}  // namespace kernelcast::worker
