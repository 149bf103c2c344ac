#include "services/worker/cuda/judge/judge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/new_values.h"
#include "services/worker/core/roofline.h"
#include "services/worker/core/statistics.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/core/verdict.h"
#include "services/worker/cuda/judge/candidate_loading.h"
#include "services/worker/cuda/judge/correctness_check.h"
#include "services/worker/cuda/judge/output_verifier.h"
#include "services/worker/cuda/judge/python_timing.h"
#include "services/worker/cuda/judge/shape_timer.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::RunRecord;
using End = CudaRunner::End;

// If the device holds up one call, the kernel looks slow on new values. So this many pairs of
// processes decide. In each of them all values are new again. They also decide if a graph was
// slowed.
constexpr int kRunnersToCharge = 3;
// Four times the standard deviation of the logarithm of a request's mean call (1%), at the clocks
// before requests are made: both sides vary, on new values and in timed calls.
constexpr double kNoiseOfRounds = 0.04;

NewValuesCheck MakeCheck(const CudaPreparedProblem& prepared) {
  return {NewValuesCheck::KindsOf(prepared.problem(), prepared.options(), /*draws_altered=*/true),
          kNoiseOfRounds};
}

class CudaJudge final : public JudgeSequence {
 public:
  explicit CudaJudge(const CudaJudgeRequest& request)
      : JudgeSequence({.prepared = request.prepared,
                       .target = kCudaTargetName,
                       .spec = request.spec,
                       .spread = request.spread,
                       .times = request.times,
                       .check = MakeCheck(request.prepared),
                       .processes_to_charge = kRunnersToCharge,
                       .clock = request.clock}),
        times_(request.times),
        judgement_(request) {}

  absl::Status MakePrograms() { return judgement_.MakePrograms(); }

 private:
  JudgementEnd& end() override { return judgement_; }
  bool Begin() override;
  bool Start(int process) override;
  bool CheckCases() override { return check_.Run(); }
  bool CheckLargest(uint64_t& outputs) override { return check_.RunLargest(outputs); }
  bool BeforeTiming() override;
  bool TimeShape(size_t shape_index) override;
  bool AddSessions(size_t shape_index) override;
  bool Suspects(size_t shape_index) const override;
  void End() override;
  const OutputRules& rules() const override { return verifier_.rules(); }
  const Tolerance& FirstTolerance() const override {
    const CudaPreparedProblem& prepared = judgement_.prepared();
    return prepared.expected(prepared.check_cases().front()).front().tolerance;
  }
  uint32_t checked_cases() const override { return check_.verified(); }
  MeasureOutcome ConcludeTimes() override;
  void Describe(MeasuredOk& ok) override;

  bool TimeCalls(size_t shape_index);
  // Captures CUDA graphs of the calls of a Python task, and times them, if both sides can be
  // captured at all shapes. A mistake of the candidate here is only the reason why there is no such
  // figure.
  bool CaptureGraphs();
  bool TimeGraphs(size_t shape_index);
  // Sets `why` if a call cannot be captured.
  bool CaptureShape(const CudaPreparedProblem::BenchShape& shape, std::string& why);
  // Goes on without graphs. `why` is empty if the judgement had ended.
  bool GiveUpGraphs(const CudaPreparedProblem::BenchShape& shape, std::string why);
  // The figures of a Python task: those of graphs where there are any, and eager ones.
  MeasureOutcome ConcludeTask();

  // When timing ends early.
  BehindRule BehindOf(double reference_ns, bool replays) const;

  bool has_graphs(size_t shape_index) const {
    return !graphs_.empty() && no_graphs_[shape_index].empty();
  }

  CudaJudgeTimes& times_;
  Judgement judgement_;
  OutputVerifier verifier_{judgement_};
  CorrectnessCheck check_{judgement_, verifier_};
  ShapeTimer timer_{judgement_, verifier_};

  std::map<Side, double> graph_call_ns_;  // at the present shape
  bool slowed_ = false;                   // whether graphs were slower than their calls
  // The times of graphs, by shape.
  std::vector<TimedShape> graphs_;
  std::vector<std::string> no_graphs_;  // why there is no figure; empty: there is one
};

bool CudaJudge::Begin() {
  if (judgement_.prepared().task() != nullptr) graphs_ = results_;
  // Graphs keep the memory of their calls, in addition to that of eager calls.
  no_graphs_.resize(graphs_.size(), judgement_.prepared().saves_memory()
                                        ? "the task's tensors leave too little memory"
                                        : "");
  timer_.Begin();
  // A final figure must be accurate, and loading other candidates would hold up its calls.
  if (judgement_.level() == MeasureLevel::kFinal) judgement_.Quieten();
  // The process of a candidate with host code starts below for a final figure.
  const bool started = judgement_.runners().candidate != nullptr;
  return (!started || LoadedAhead(judgement_)) && verifier_.Reserve() && check_.Reserve();
}

bool CudaJudge::Start(int process) {
  const bool renew =
      judgement_.level() == MeasureLevel::kFinal || process > 0 || !judgement_.runners().alive();
  return (!renew || judgement_.Must(judgement_.RenewRunners())) && LoadCandidate(judgement_);
}

bool CudaJudge::BeforeTiming() {
  if (!CaptureGraphs()) return false;
  const int64_t captured_ns = NowNs();
  const bool going = judgement_.AwaitDevice();
  times_.wait_ns += NowNs() - captured_ns;
  return going;
}

bool CudaJudge::TimeShape(size_t shape_index) {
  return (graphs_.empty() || TimeGraphs(shape_index)) && TimeCalls(shape_index);
}

void CudaJudge::End() {
  CudaRunner* const candidate = judgement_.runners().candidate;
  if (!judgement_.hosted() && candidate != nullptr && candidate->alive()) {
    candidate->Unload(cuda_runner::kCandidate, judgement_.cancel());
  }
}

void CudaJudge::Describe(MeasuredOk& ok) {
  judgement_.monitor().Look();
  judgement_.monitor().Fill(ok.environment);
}

bool CudaJudge::Suspects(size_t shape_index) const {
  const NewValuesCheck& check = checks_[shape_index];
  // The host time of a launch varies too much for small charges. Graphs run no host code that could
  // remember results.
  return slowed_ ||
         (judgement_.prepared().task() == nullptr ? check.Suspects()
                                                  : check.slowed() && !has_graphs(shape_index));
}

bool CudaJudge::AddSessions(size_t shape_index) {
  const NewValuesCheck& check = checks_[shape_index];
  if (std::optional<Exploit> refusal = check.Refusal(); refusal && !has_graphs(shape_index)) {
    judgement_.set_running(judgement_.prepared().bench_shapes()[shape_index].slots.front());
    return judgement_.Settle(*std::move(refusal));
  }
  check.AddTo(results_[shape_index], /*doubt=*/0);
  return true;
}

bool CudaJudge::TimeCalls(size_t shape_index) {
  TimedShape& result = results_[shape_index];
  const int64_t start_ns = judgement_.NowNs();
  const bool graphs = has_graphs(shape_index);
  std::optional<TimingSession> session =
      graphs
          ? timer_.RunSession(shape_index, EagerPrecision(precision_), {}, result)
          : timer_.RunSession(
                shape_index, precision_,
                [this](double reference_ns) { return BehindOf(reference_ns, /*replays=*/false); },
                result);
  if (!session) {
    return false;
  }
  for (const Side side : {Side::kCandidate, Side::kReference}) {
    slowed_ = slowed_ || (graphs && IsSlowed(graph_call_ns_[side], session->call_ns(side)));
  }
  const int64_t timed_ns = judgement_.NowNs();
  times_.timing_ns += timed_ns - start_ns;
  // Where there are graphs, theirs are the figures that count.
  const ShapeTimer::FreshCalls calls = graphs                ? ShapeTimer::FreshCalls::kBesideGraphs
                                       : judgement_.hosted() ? ShapeTimer::FreshCalls::kOneByOne
                                                             : ShapeTimer::FreshCalls::kTogether;
  checks_[shape_index].AddSession(*std::move(session));
  const bool going = timer_.CheckNewValues(shape_index, calls, checks_[shape_index], result);
  times_.fresh_ns += judgement_.NowNs() - timed_ns;
  return going;
}

bool CudaJudge::CaptureShape(const CudaPreparedProblem::BenchShape& shape, std::string& why) {
  std::vector<RunRecord> runs;
  for (const Side side : {Side::kReference, Side::kCandidate}) {
    runs.clear();
    for (const size_t slot : shape.slots) {
      runs.push_back({judgement_.SlotOf(side), static_cast<uint32_t>(slot)});
    }
    const int64_t limit_ns = judgement_.options().max_call_limit_ns;
    const CudaRunner::Answer answer =
        judgement_.RunnerOf(side).Run(runs, limit_ns, judgement_.cancel(), /*replay=*/true);
    if (answer.end == End::kFailed && answer.reply.failure == cuda_runner::Failure::kEntry) {
      why = absl::StrCat("a call of the ", side == Side::kReference ? "reference" : "candidate",
                         " cannot be captured");
      return false;
    }
    if (!judgement_.Accept(answer, side, "graph", limit_ns)) return false;
  }
  return true;
}

bool CudaJudge::CaptureGraphs() {
  const int64_t start_ns = judgement_.NowNs();
  bool going = true;
  for (size_t i = 0; i < graphs_.size() && no_graphs_[i].empty() && going; ++i) {
    const CudaPreparedProblem::BenchShape& shape = judgement_.prepared().bench_shapes()[i];
    std::string why;
    if (CaptureShape(shape, why)) continue;
    if (why.empty() && !judgement_.alone()) {
      return judgement_.Fail(absl::UnavailableError("no graphs while another process ended"));
    }
    going = GiveUpGraphs(shape, std::move(why));
  }
  times_.capture_ns += judgement_.NowNs() - start_ns;
  return going;
}

bool CudaJudge::TimeGraphs(size_t shape_index) {
  if (!no_graphs_[shape_index].empty()) return true;
  const int64_t start_ns = judgement_.NowNs();
  TimedShape& result = graphs_[shape_index];
  std::string why;
  timer_.set_replays(true);
  const std::optional<TimingSession> session = timer_.RunSession(
      shape_index, precision_,
      [this](double reference_ns) { return BehindOf(reference_ns, /*replays=*/true); }, result);
  NewValuesCheck check = MakeCheck(judgement_.prepared());
  bool going = session.has_value();
  if (going) {
    check.AddSession(*session);
    going = timer_.CheckNewValues(
        shape_index,
        judgement_.hosted() ? ShapeTimer::FreshCalls::kOneByOne : ShapeTimer::FreshCalls::kTogether,
        check, result);
  }
  if (const std::optional<Exploit> refusal = check.Refusal(); refusal && going) {
    why = absl::StrCat("its graphs: ", refusal->evidence);
    going = false;
  }
  timer_.set_replays(false);
  times_.graphs_ns += judgement_.NowNs() - start_ns;
  if (going) {
    for (const Side side : {Side::kCandidate, Side::kReference}) {
      graph_call_ns_[side] = session->call_ns(side);
    }
    check.AddTo(result, /*doubt=*/0);
    return true;
  }
  return GiveUpGraphs(judgement_.prepared().bench_shapes()[shape_index], std::move(why));
}

bool CudaJudge::GiveUpGraphs(const CudaPreparedProblem::BenchShape& shape, std::string why) {
  if (why.empty() && judgement_.outcome()) {
    why = absl::StrCat("its graphs: ", std::string(OutcomeName(*judgement_.outcome())));
    if (const auto* const exploit = std::get_if<Exploit>(&*judgement_.outcome())) {
      absl::StrAppend(&why, ", ", exploit->evidence);
    }
  }
  if (why.empty()) why = std::string(judgement_.status().message());
  std::fill(no_graphs_.begin(), no_graphs_.end(), why);
  if (!judgement_.Resume()) return false;
  if (!judgement_.runners().alive()) {
    // The calls themselves are timed in other processes.
    return judgement_.Must(judgement_.RenewRunners()) && LoadCandidate(judgement_);
  }
  // It may have ended with other values in place.
  return timer_.PutBank(shape, CudaPreparedProblem::kBase);
}

BehindRule CudaJudge::BehindOf(double reference_ns, bool replays) const {
  const std::string& problem_id = judgement_.prepared().problem().problem_id;
  const double below = judgement_.spec().StopBelow(results_.size());
  if (judgement_.prepared().task() == nullptr) return {below, spread_.Of(problem_id)};
  SpreadOptions spread = judgement_.options().spread;
  (replays ? SpreadGraphs : SpreadEager)(reference_ns, spread);
  return {below, RunnerSpread(spread).Of(problem_id)};
}

MeasureOutcome CudaJudge::ConcludeTimes() {
  return graphs_.empty() ? JudgeSequence::ConcludeTimes() : ConcludeTask();
}

MeasureOutcome CudaJudge::ConcludeTask() {
  MeasureOptions eager_options = judgement_.options();
  for (const TimedShape& shape : results_)
    SpreadEager(Median(shape.reference_ns), eager_options.spread);
  RunnerSpread eager_spread(eager_options.spread);
  const std::string& problem_id = judgement_.prepared().problem().problem_id;
  MeasureOutcome eager =
      Conclude(results_, eager_options, problem_id, check_.verified(), eager_spread);
  const auto lacking = std::find_if(no_graphs_.begin(), no_graphs_.end(),
                                    [](const std::string& why) { return !why.empty(); });
  const auto* const eager_ok = std::get_if<MeasuredOk>(&eager);
  MeasureOutcome outcome = eager;
  if (lacking == no_graphs_.end()) {
    MeasureOptions options = judgement_.options();
    for (const TimedShape& shape : graphs_)
      SpreadGraphs(Median(shape.reference_ns), options.spread);
    RunnerSpread spread(options.spread);
    outcome = Conclude(graphs_, options, problem_id, check_.verified(), spread);
  }
  if (auto* const ok = std::get_if<MeasuredOk>(&outcome); ok != nullptr && eager_ok != nullptr) {
    for (size_t i = 0; i < ok->shapes.size(); ++i) {
      const ShapeTiming& shape = eager_ok->shapes[i];
      ok->shapes[i].eager = {shape.candidate, shape.reference, shape.speedup,
                             lacking == no_graphs_.end() ? "" : *lacking};
    }
  }
  return outcome;
}

}  // namespace

absl::StatusOr<MeasureOutcome> JudgeCuda(const CudaJudgeRequest& request) {
  CudaJudge judge(request);
  KC_RETURN_IF_ERROR(judge.MakePrograms());
  return judge.Run();
}

}  // namespace kernelcast::worker
