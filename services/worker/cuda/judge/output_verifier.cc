#include "services/worker/cuda/judge/output_verifier.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/domain/python_task.h"
#include "services/worker/core/verdict.h"
#include "services/worker/core/verification.h"

namespace kernelcast::worker {
namespace {

using Case = CudaPreparedProblem::Case;

}  // namespace

bool OutputVerifier::Reserve() {
  const std::vector<Case>& cases = judgement_.prepared().cases();
  size_t compared = 0;
  for (const CudaPreparedProblem::CheckCase& check : judgement_.prepared().check_cases()) {
    compared += cases[check.index].outputs.size();
  }
  for (const CudaPreparedProblem::BenchShape& shape : judgement_.prepared().bench_shapes()) {
    compared = std::max(compared, shape.slots.size() * cases[shape.slots[0]].outputs.size());
  }
  auto comparisons =
      DeviceBuffer::Allocate(judgement_.device(), compared * sizeof(TensorComparison));
  if (!comparisons.ok()) return judgement_.Fail(comparisons.status());
  comparisons_ = *std::move(comparisons);
  return true;
}

bool OutputVerifier::Compare(const std::vector<Look>& looks, const Calls& calls, bool by_own_error,
                             std::vector<TensorComparison>& found) {
  found.resize(looks.size());
  const std::vector<Case>& cases = judgement_.prepared().cases();
  for (size_t i = 0; i < looks.size(); ++i) {
    const Look& look = looks[i];
    const CudaExpected& expected = *look.expected;
    if (!judgement_.Must(judgement_.kernels().Compare(
            {.dtype = expected.dtype,
             .kept = expected.kept,
             .got = judgement_.prepared().memory().OutputAddress(
                 judgement_.OutputsOf(calls.side), cases[look.index].outputs[look.output]),
             .expected = expected.values,
             .count = expected.count,
             .rule = by_own_error ? expected.OwnErrorRule() : expected.Rule(),
             .poison = calls.poison,
             .result = comparisons_.address() + i * sizeof(TensorComparison)}))) {
      return false;
    }
  }
  return judgement_.Must(judgement_.device().Read(found.data(), comparisons_.address(),
                                                  found.size() * sizeof(TensorComparison),
                                                  "reading comparisons"));
}

bool OutputVerifier::AllowOwnErrors(const std::vector<Look>& looks, const Calls& calls,
                                    std::vector<TensorVerdict>& verdicts) {
  std::vector<size_t> refused;
  std::vector<Look> again;
  for (size_t i = 0; i < looks.size(); ++i) {
    const bool written = verdicts[i].cause != WrongResult::Cause::kNotWritten;
    if (verdicts[i].ok || !written || !looks[i].expected->tolerance.own_error) continue;
    refused.push_back(i);
    again.push_back(looks[i]);
  }
  std::vector<TensorComparison> within;
  if (again.empty()) return true;
  if (!Compare(again, calls, /*by_own_error=*/true, within)) return false;
  for (size_t k = 0; k < again.size(); ++k) {
    if (!WithinOwnError(*again[k].expected, within[k])) continue;
    TensorVerdict& verdict = verdicts[refused[k]];
    verdict.ok = true;
    verdict.by_own_error = true;
    verdict.variation = within[k].variation;
  }
  return true;
}

bool OutputVerifier::Verify(const std::vector<Look>& looks, const Calls& calls) {
  std::vector<TensorComparison> found;
  if (!Compare(looks, calls, /*by_own_error=*/false, found)) return false;
  std::vector<TensorVerdict> verdicts;
  for (size_t i = 0; i < looks.size(); ++i) {
    verdicts.push_back(JudgeComparison(*looks[i].expected, found[i], true));
    if (!verdicts[i].ok && calls.side == Side::kReference) {
      return judgement_.Fail(absl::UnavailableError(
          "the reference's results are not what they were before the candidate came"));
    }
  }
  if (!AllowOwnErrors(looks, calls, verdicts)) return false;
  if (calls.side == Side::kReference) return true;
  const bool by_checker = judgement_.prepared().has_checker() && calls.ask_checker;
  Refusals refusals;
  if (by_checker && !AskChecker(looks, verdicts, calls, refusals)) return false;
  for (size_t i = 0; i < looks.size(); ++i) {
    const bool last = i + 1 == looks.size() || looks[i + 1].index != looks[i].index;
    const auto refusal = refusals.find(looks[i].index);
    OutputRules::Circumstances circumstances{.by_checker = by_checker, .timed = calls.timed};
    if (refusal != refusals.end() && (last || !verdicts[i].ok)) {
      circumstances.refusal = refusal->second;
    }
    std::optional<WrongResult> wrong = rules_.Judge(OutputOf(looks[i]), verdicts[i], circumstances);
    if (wrong) return Wrong(looks[i], found[i], calls.timed, *std::move(wrong));
  }
  return true;
}

OutputRules::Output OutputVerifier::OutputOf(const Look& look) const {
  const CudaPreparedProblem& prepared = judgement_.prepared();
  const Case& at = prepared.cases()[look.index];
  const CudaExpected& expected = *look.expected;
  return {.axes = at.spec.axes,
          .distribution = at.spec.distribution(),
          .index = look.output,
          .draw = expected.values,
          .name = prepared.OutputName(look.output, at.spec.axes),
          .dtype = expected.dtype,
          .tolerance = expected.tolerance,
          .noise = expected.noise,
          .elements = static_cast<uint64_t>(expected.count)};
}

bool OutputVerifier::AskChecker(const std::vector<Look>& looks,
                                const std::vector<TensorVerdict>& verdicts, const Calls& calls,
                                Refusals& refusals) {
  if (looks.empty()) return true;
  std::set<size_t> asked;
  const size_t chosen = looks[judgement_.plan_random().Below(looks.size())].index;
  for (size_t i = 0; i < looks.size(); ++i) {
    const size_t index = looks[i].index;
    if (calls.timed && verdicts[i].ok && index != chosen) continue;
    if (!asked.insert(index).second) continue;
    auto reason = judgement_.prepared().AskChecker(judgement_.OutputsOf(calls.side), index,
                                                   judgement_.cancel());
    if (!reason.ok()) return judgement_.Fail(reason.status());
    if (*reason) refusals.emplace(index, **reason);
  }
  return true;
}

bool OutputVerifier::Wrong(const Look& look, const TensorComparison& comparison, bool timed,
                           WrongResult wrong) {
  const Case& at = judgement_.prepared().cases()[look.index];
  const CudaExpected& expected = *look.expected;
  if (comparison.mismatches > 0) {
    std::array<std::byte, 8> got{};
    std::array<std::byte, 8> right{};
    const auto got_bytes = static_cast<size_t>(SizeBytes(expected.dtype));
    const auto right_bytes = static_cast<size_t>(SizeBytes(expected.kept));
    const CUdeviceptr output = judgement_.prepared().memory().OutputAddress(
        judgement_.OutputsOf(Side::kCandidate), at.outputs[look.output]);
    CudaDevice& device = judgement_.device();
    if (!judgement_.Must(device.Read(got.data(), output + wrong.index * got_bytes, got_bytes,
                                     "reading a value")) ||
        !judgement_.Must(device.Read(right.data(), expected.values + wrong.index * right_bytes,
                                     right_bytes, "reading a value"))) {
      return false;
    }
    wrong.got = ElementAt(expected.dtype, got, 0);
    wrong.expected = ElementAt(expected.kept, right, 0);
    RoundForReport(wrong.got, wrong.expected);
  }
  if (timed && comparison.mismatches > 0 && comparison.unwritten == comparison.mismatches) {
    return judgement_.Settle(
        MakeExploit(Exploit::Kind::kSkippedWork,
                    absl::StrCat("in a timed call ", comparison.unwritten, " of ", expected.count,
                                 " values of output ", wrong.output, " were not written")));
  }
  return judgement_.Settle(std::move(wrong));
}

bool OutputVerifier::VerifySlots(const SlotCalls& calls) {
  const CudaPreparedProblem::BenchShape& shape = calls.shape;
  std::vector<Look> looks;
  std::vector<Look> stale_looks;
  size_t slots = std::min(calls.slots, shape.slots.size());
  size_t first = 0;
  if (calls.side == Side::kReference && slots > 0) {
    // The reference can only be wrong if a candidate has damaged it, which would last. One slot
    // suffices.
    first = judgement_.plan_random().Below(slots);
    slots = first + 1;
  }
  for (size_t slot = first; slot < slots; ++slot) {
    const size_t index = shape.slots[slot];
    const std::vector<CudaExpected>& expected = judgement_.prepared().expected(index, calls.bank);
    for (size_t i = 0; i < expected.size(); ++i) {
      looks.push_back({index, i, &expected[i]});
      if (calls.stale) {
        stale_looks.push_back({index, i, &judgement_.prepared().expected(index, *calls.stale)[i]});
      }
    }
  }
  Calls timed{calls.side, calls.poison, /*timed=*/true};
  if (Verify(looks, timed)) {
    return true;
  }
  // Wrong for the new values but right for the previous ones: the output was cached.
  if (calls.stale && judgement_.status().ok() && judgement_.outcome()) {
    MeasureOutcome wrong = *judgement_.TakeOutcome();
    timed.ask_checker = false;
    if (Verify(stale_looks, timed)) {
      return judgement_.Settle(
          MakeExploit(Exploit::Kind::kCachedOutput,
                      "after the inputs had changed, outputs were those of the inputs "
                      "before"));
    }
    judgement_.PutBackOutcome(std::move(wrong));
  }
  return false;
}

}  // namespace kernelcast::worker
