#include "services/worker/cuda/judge/prepared_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/core/tensor.h"
#include "services/worker/core/verification.h"
#include "services/worker/native/dlpack_type.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::Argument;
using cuda_runner::PoisonRecord;
using cuda_runner::Program;
using cuda_runner::ProgramLaunch;
using cuda_runner::RunRecord;
using cuda_runner::TensorRecord;

constexpr uint64_t kAlignment = 512;
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
  if (answer.end == CudaRunner::End::kGone || answer.end == CudaRunner::End::kForged) {
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
  auto programs = prepared->MakePrograms(prepared->reference_, Side::kReference);
  if (!programs.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the problem's reference: ", programs.status().message()));
  }
  prepared->reference_programs_ = *std::move(programs);
  prepared->reference_programs_.programs.emplace_back();
  KC_RETURN_IF_ERROR(prepared->MapArenas(runner, cancel));
  KC_RETURN_IF_ERROR(prepared->RunOracle(oracle, runner, cancel));
  KC_RETURN_IF_ERROR(prepared->PlaceReference(runner, cancel));
  KC_RETURN_IF_ERROR(prepared->RunReference(runner, cancel));
  KC_ASSIGN_OR_RETURN(prepared->base_fingerprint_, prepared->InputsFingerprint());
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

absl::StatusOr<std::vector<CudaExpected>> CudaPreparedProblem::PlaceExpected(
    const AxisValues& axes, std::vector<Place>& places, uint64_t& end) const {
  KC_ASSIGN_OR_RETURN(const auto layouts, Layouts(problem_.outputs, axes));
  std::vector<CudaExpected> all;
  for (size_t i = 0; i < layouts.size(); ++i) {
    CudaExpected expected;
    expected.dtype = layouts[i].dtype;
    expected.tolerance = problem_.outputs[i].tolerance;
    expected.count = layouts[i].elements();
    const auto bytes =
        static_cast<uint64_t>(IsFloat(expected.dtype) ? expected.count * 8 : layouts[i].bytes());
    places.push_back({end, bytes});
    end = RoundUp(end + bytes);
    all.push_back(expected);
  }
  return all;
}

// The oracle is the problem's own, which may hang or kill a context as anybody's may: it runs in
// the runner, before any candidate, and what it has written is unmapped before one comes.
absl::Status CudaPreparedProblem::RunOracle(const CudaProgram& oracle, CudaRunner& runner,
                                            const CancelToken& cancel) {
  // One call, and where its results go.
  struct OracleCall {
    const Case* at;
    std::vector<CudaExpected>* expected;
    std::vector<Place> places;
  };
  constexpr const char* kWhat = "the problem's oracle";
  const CudaApi& api = device_.api();
  uint64_t end = 0;
  // By bank; the check cases are with the first.
  std::array<std::vector<OracleCall>, kBanks> calls;
  const auto add = [&](size_t bank, const Case& at,
                       std::vector<CudaExpected>& expected) -> absl::Status {
    OracleCall& call = calls[bank].emplace_back(OracleCall{&at, &expected, {}});
    KC_ASSIGN_OR_RETURN(expected, PlaceExpected(at.axes, call.places, end));
    return absl::OkStatus();
  };
  for (CheckCase& check : check_cases_) {
    KC_RETURN_IF_ERROR(add(kBase, cases_[check.index], check.expected));
  }
  for (size_t bank = 0; bank < kBanks; ++bank) {
    for (BenchShape& shape : bench_shapes_) {
      for (size_t slot = 0; slot < shape.slots.size(); ++slot) {
        KC_RETURN_IF_ERROR(add(bank, cases_[shape.slots[slot]], shape.sets[slot][bank].expected));
      }
    }
  }
  KC_ASSIGN_OR_RETURN(expected_, SharedArena::Create(device_, end));
  // What the oracle leaves out is NaN, which is found below.
  KC_RETURN_IF_ERROR(device_.Check(
      api.MemsetD8Async(expected_.address(), 0xff, expected_.bytes(), device_.stream()),
      "filling outputs"));
  KC_RETURN_IF_ERROR(
      AnswerStatus(api, runner.Map(kExpected, expected_.fd(), expected_.bytes(), true, cancel),
                   cancel, "mapping memory"));
  KC_ASSIGN_OR_RETURN(const CudaRunner::Answer loaded,
                      runner.Load(cuda_runner::kCandidate, oracle.cubin, oracle.KernelNames(),
                                  kReferenceLoadLimitNs, cancel));
  KC_RETURN_IF_ERROR(AnswerStatus(api, loaded, cancel, kWhat));

  std::vector<Program> programs;
  uint64_t workspace_bytes = 0;
  for (const std::vector<OracleCall>& of_bank : calls) {
    for (const OracleCall& call : of_bank) {
      auto program = MakeProgram(problem_, oracle, *call.at, kExpected, call.places);
      if (!program.ok()) {
        return absl::FailedPreconditionError(absl::StrCat(kWhat, ": ", program.status().message()));
      }
      programs.push_back(std::move(program->program));
      workspace_bytes = std::max(workspace_bytes, program->workspace_bytes);
    }
  }
  KC_RETURN_IF_ERROR(ReserveScratch(workspace_bytes, runner, cancel));

  for (size_t bank = 0, first = 0; bank < kBanks; first += calls[bank].size(), ++bank) {
    for (const BenchShape& shape : bench_shapes_) {
      KC_RETURN_IF_ERROR(PutBank(shape, static_cast<Bank>(bank)));
    }
    KC_RETURN_IF_ERROR(device_.Synchronize());
    // A runner takes so many programs and no more, so those of each bank by themselves.
    KC_ASSIGN_OR_RETURN(const CudaRunner::Answer taken,
                        runner.SetPrograms(cuda_runner::kCandidate,
                                           std::span(programs).subspan(first, calls[bank].size()),
                                           kReferenceLoadLimitNs, cancel));
    KC_RETURN_IF_ERROR(AnswerStatus(api, taken, cancel, kWhat));
    for (size_t i = 0; i < calls[bank].size(); ++i) {
      const OracleCall& call = calls[bank][i];
      const std::string what =
          absl::StrCat(kWhat, " (", ShapeText(call.at->axes), ", ", call.at->distribution, ")");
      const RunRecord record{cuda_runner::kCandidate, static_cast<uint32_t>(i)};
      KC_RETURN_IF_ERROR(
          AnswerStatus(api, runner.Run({&record, 1}, options_.problem_call_limit_ns, cancel),
                       cancel, what, absl::StatusCode::kFailedPrecondition));
      KC_RETURN_IF_ERROR(DescribeExpected(*call.expected, call.places, what));
    }
  }
  for (const BenchShape& shape : bench_shapes_) {
    KC_RETURN_IF_ERROR(PutBank(shape, kBase));
  }
  KC_RETURN_IF_ERROR(device_.Synchronize());
  KC_RETURN_IF_ERROR(
      AnswerStatus(api, runner.Unload(cuda_runner::kCandidate, cancel), cancel, "unloading"));
  return AnswerStatus(api, runner.Unmap(kExpected, cancel), cancel, "unmapping memory");
}

absl::Status CudaPreparedProblem::DescribeExpected(std::vector<CudaExpected>& outputs,
                                                   const std::vector<Place>& places,
                                                   const std::string& what) {
  KC_ASSIGN_OR_RETURN(const DeviceBuffer statistics,
                      DeviceBuffer::Allocate(device_, sizeof(ExpectedStatistics)));
  for (size_t i = 0; i < outputs.size(); ++i) {
    CudaExpected& output = outputs[i];
    output.values = expected_.address() + places[i].offset;
    if (!IsFloat(output.dtype)) {
      output.absolute = output.tolerance.atol;
      continue;
    }
    KC_RETURN_IF_ERROR(
        kernels_.Describe(output.dtype, output.values, output.count, statistics.address()));
    ExpectedStatistics found;
    KC_RETURN_IF_ERROR(device_.Check(device_.api().MemcpyDtoHAsync(&found, statistics.address(),
                                                                   sizeof(found), device_.stream()),
                                     "reading statistics"));
    KC_RETURN_IF_ERROR(device_.Synchronize());
    if (found.nan > 0) {
      return absl::FailedPreconditionError(absl::StrCat(what, " yields ", found.nan,
                                                        " NaN in output ", problem_.outputs[i].name,
                                                        ", which no candidate can match"));
    }
    output.norm = std::sqrt(found.squares);
    output.rms = found.finite > 0 ? output.norm / std::sqrt(static_cast<double>(found.finite)) : 0;
    output.absolute = output.tolerance.atol * std::max(1.0, output.rms);
  }
  return absl::OkStatus();
}

absl::StatusOr<CudaPreparedProblem::Programs> CudaPreparedProblem::MakeCalls() const {
  const auto record = [](const TensorLayout& layout, Arena arena,
                         const Place& place) -> absl::StatusOr<TensorRecord> {
    TensorRecord made{};
    if (layout.shape.size() > cuda_runner::kMaxDimensions) {
      return absl::InvalidArgumentError("a tensor has too many dimensions");
    }
    made.arena = arena;
    made.dlpack_code = DlpackCode(layout.dtype);
    made.dlpack_bits = static_cast<uint32_t>(8 * SizeBytes(layout.dtype));
    made.dimensions = static_cast<uint32_t>(layout.shape.size());
    made.offset = place.offset;
    std::copy(layout.shape.begin(), layout.shape.end(), made.shape);
    return made;
  };
  Programs made;
  for (const Case& at : cases_) {
    Program call;
    KC_ASSIGN_OR_RETURN(const auto inputs, Layouts(problem_.inputs, at.axes));
    for (size_t i = 0; i < inputs.size(); ++i) {
      KC_ASSIGN_OR_RETURN(call.inputs.emplace_back(), record(inputs[i], kInputs, at.inputs[i]));
    }
    KC_ASSIGN_OR_RETURN(const auto outputs, Layouts(problem_.outputs, at.axes));
    for (size_t i = 0; i < outputs.size(); ++i) {
      KC_ASSIGN_OR_RETURN(call.outputs.emplace_back(),
                          record(outputs[i], kCandidateOutputs, at.outputs[i]));
    }
    made.programs.push_back(std::move(call));
    made.workspace_bytes.push_back(0);
  }
  return made;
}

absl::StatusOr<CudaPreparedProblem::PlannedProgram> CudaPreparedProblem::MakeProgram(
    const Problem& problem, const CudaProgram& program, const Case& at, Arena outputs_arena,
    const std::vector<Place>& outputs) {
  const std::vector<std::string> names = program.KernelNames();
  KC_ASSIGN_OR_RETURN(
      const LaunchPlan plan,
      PlanLaunches(problem, program.launches, program.workspace_bytes, program.tunables, at.axes));
  PlannedProgram made;
  for (const PlannedLaunch& launch : plan.launches) {
    ProgramLaunch& call = made.program.launches.emplace_back();
    call.kernel =
        static_cast<uint32_t>(std::find(names.begin(), names.end(), launch.kernel) - names.begin());
    std::copy(std::begin(launch.grid), std::end(launch.grid), call.grid);
    std::copy(std::begin(launch.block), std::end(launch.block), call.block);
    if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 1) {
      std::copy(std::begin(launch.cluster), std::end(launch.cluster), call.cluster);
    }
    call.shared_memory_bytes = launch.shared_memory_bytes;
    for (const KernelArgument& argument : launch.arguments) {
      Argument& passed = call.arguments.emplace_back();
      passed.bytes = static_cast<uint32_t>(argument.bytes);
      switch (argument.kind) {
        case KernelArgument::Kind::kTensor: {
          const auto tensor = static_cast<size_t>(argument.tensor);
          const bool is_input = tensor < at.inputs.size();
          passed.arena = is_input ? kInputs : outputs_arena;
          passed.value =
              is_input ? at.inputs[tensor].offset : outputs[tensor - at.inputs.size()].offset;
          break;
        }
        case KernelArgument::Kind::kWorkspace: passed.arena = kScratch; break;
        case KernelArgument::Kind::kScalar:
          std::memcpy(&passed.value, argument.bits.data(), argument.bytes);
          break;
      }
    }
  }
  made.workspace_bytes = RoundUp(static_cast<uint64_t>(plan.workspace_bytes));
  return made;
}

absl::StatusOr<CudaPreparedProblem::Programs> CudaPreparedProblem::MakePrograms(
    const CudaProgram& program, Side side) const {
  if (program.host_launched()) {
    return MakeCalls();
  }
  Programs made;
  for (const Case& at : cases_) {
    KC_ASSIGN_OR_RETURN(
        PlannedProgram planned,
        MakeProgram(problem_, program, at,
                    side == Side::kCandidate ? kCandidateOutputs : kReferenceOutputs, at.outputs));
    made.programs.push_back(std::move(planned.program));
    made.workspace_bytes.push_back(planned.workspace_bytes);
    made.max_workspace_bytes = std::max(made.max_workspace_bytes, planned.workspace_bytes);
  }
  return made;
}

absl::Status CudaPreparedProblem::Attach(CudaRunner& runner, const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(MapArenas(runner, cancel));
  return PlaceReference(runner, cancel);
}

absl::Status CudaPreparedProblem::PlaceReference(CudaRunner& runner, const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(ReserveScratch(reference_programs_.max_workspace_bytes, runner, cancel));
  return LoadReference(runner, cancel);
}

absl::Status CudaPreparedProblem::MapArenas(CudaRunner& runner, const CancelToken& cancel) {
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
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::AttachObject(CudaRunner& runner, const CancelToken& cancel) {
  for (const auto& [number, arena] :
       {std::pair{kInputs, &inputs_}, std::pair{kCandidateOutputs, &candidate_outputs_}}) {
    KC_RETURN_IF_ERROR(AnswerStatus(
        device_.api(), runner.Map(number, arena->fd(), arena->bytes(), number != kInputs, cancel),
        cancel, "mapping memory"));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CudaPreparedProblem::InputsFingerprint() {
  KC_ASSIGN_OR_RETURN(const DeviceBuffer sum, DeviceBuffer::Allocate(device_, sizeof(uint64_t)));
  const CudaApi& api = device_.api();
  KC_RETURN_IF_ERROR(device_.Check(
      api.MemsetD8Async(sum.address(), 0, sizeof(uint64_t), device_.stream()), "clearing a sum"));
  KC_RETURN_IF_ERROR(kernels_.Fingerprint(inputs_.address(),
                                          static_cast<int64_t>(inputs_bytes_ / 8),
                                          fingerprint_seed_, sum.address()));
  uint64_t fingerprint = 0;
  KC_RETURN_IF_ERROR(device_.Check(
      api.MemcpyDtoHAsync(&fingerprint, sum.address(), sizeof(fingerprint), device_.stream()),
      "reading a sum"));
  KC_RETURN_IF_ERROR(device_.Synchronize());
  return fingerprint;
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
      const CudaRunner::Answer answer =
          runner.Run({&record, 1}, options_.problem_call_limit_ns, cancel);
      KC_RETURN_IF_ERROR(
          AnswerStatus(api, answer, cancel, what, absl::StatusCode::kFailedPrecondition));
      at.reference_ns = std::min(at.reference_ns, answer.reply.wall_ns);
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      KC_RETURN_IF_ERROR(kernels_.Compare({.dtype = expected[i].dtype,
                                           .got = OutputAddress(Side::kReference, at.outputs[i]),
                                           .expected = expected[i].values,
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
