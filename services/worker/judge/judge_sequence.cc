#include "services/worker/judge/judge_sequence.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {

JudgeSequence::JudgeSequence(const Setting& setting)
    : options_(setting.prepared.options()),
      precision_(options_.Precision(setting.spec.level)),
      spec_(setting.spec),
      spread_(setting.spread),
      results_(ShapesToTime(setting.prepared.problem(), setting.target,
                            setting.prepared.bench_shapes())),
      checks_(results_.size(), setting.check),
      prepared_(setting.prepared),
      times_(setting.times),
      processes_to_charge_(setting.processes_to_charge),
      clock_(setting.clock) {}

absl::StatusOr<MeasureOutcome> JudgeSequence::Run() {
  const bool timed = spec_.level != MeasureLevel::kCheck;
  std::optional<uint64_t> first_outputs;
  Determinism determinism = Determinism::kUnknown;
  bool going = Begin();
  int processes = precision_.runners;
  for (int process = 0; process < processes && going; ++process) {
    const int64_t start_ns = NowNs();
    going = Start(process);
    const int64_t started_ns = NowNs();
    times_.start_ns += started_ns - start_ns;
    if (going && process == 0) going = CheckCases();
    if (going && precision_.runners > 1) {
      uint64_t outputs = 0;
      going = CheckLargest(outputs);
      if (going) determinism = CompareOutputs(outputs, first_outputs, determinism);
    }
    times_.check_ns += NowNs() - started_ns;
    if (!timed) break;
    going = going && BeforeTiming();
    processes = precision_.runners;
    for (size_t i = 0; i < results_.size() && going; ++i) {
      going = process < precision_.runners ? TimeShape(i) : CheckAgain(i);
      if (Suspects(i)) processes = std::max(processes, processes_to_charge_);
    }
  }
  for (size_t i = 0; i < results_.size() && going && timed; ++i) going = AddSessions(i);
  End();
  KC_RETURN_IF_ERROR(end().status());
  const std::string rule = absl::StrCat(rules().FormatRule(FirstTolerance()), rules().decided_by());
  if (!timed && !end().outcome()) return Passed{checked_cases(), rule, prepared_.Notes()};
  MeasureOutcome outcome = end().outcome() ? *end().TakeOutcome() : ConcludeTimes();
  if (auto* const ok = std::get_if<MeasuredOk>(&outcome)) {
    ok->determinism = determinism;
    ok->notes = prepared_.Notes();
    ok->rule = rule;
    Describe(*ok);
  }
  return outcome;
}

MeasureOutcome JudgeSequence::ConcludeTimes() {
  return Conclude(results_, options_, prepared_.problem().problem_id, checked_cases(), spread_);
}

}  // namespace kernelcast::worker
