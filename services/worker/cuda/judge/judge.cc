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

// Has the steps of one judgement follow each other, in as many processes as it takes.
class CudaJudge {
 public:
  explicit CudaJudge(const CudaJudgeRequest& request)
      : precision_(request.prepared.options().Precision(request.spec.level)),
        spread_(request.spread),
        times_(request.times),
        judgement_(request) {}

  absl::StatusOr<MeasureOutcome> Run();

 private:
  // Steps; see Judgement.
  bool TimeShape(size_t shape_index);
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
  NewValuesCheck MakeCheck() const;
  // Whether some process has seen calls on new values that were slower, or graphs that were slower
  // than their calls.
  bool Suspects() const;
  // Adds the sessions to the results, charged for calls on new values. Refuses if most processes
  // have seen a shape's results reused.
  bool AddSessions();

  const PrecisionOptions& precision_;
  RunnerSpread& spread_;
  CudaJudgeTimes& times_;
  Judgement judgement_;
  OutputVerifier verifier_{judgement_};
  CorrectnessCheck check_{judgement_, verifier_};
  ShapeTimer timer_{judgement_, verifier_};

  std::vector<TimedShape> results_;
  std::vector<NewValuesCheck> checks_;    // by shape
  std::map<Side, double> graph_call_ns_;  // at the present shape
  bool slowed_ = false;
  // The times of graphs, by shape.
  std::vector<TimedShape> graphs_;
  std::vector<std::string> no_graphs_;  // why there is no figure; empty: there is one
};

absl::StatusOr<MeasureOutcome> CudaJudge::Run() {
  KC_RETURN_IF_ERROR(judgement_.MakePrograms());
  results_ = ShapesToTime(judgement_.prepared().problem(), kCudaTargetName,
                          judgement_.prepared().bench_shapes());
  if (judgement_.prepared().task() != nullptr) graphs_ = results_;
  // Graphs keep the memory of their calls, in addition to that of eager calls.
  no_graphs_.resize(graphs_.size(), judgement_.prepared().saves_memory()
                                        ? "the task's tensors leave too little memory"
                                        : "");
  checks_ = std::vector<NewValuesCheck>(results_.size(), MakeCheck());
  timer_.Begin();
  // A final figure must be accurate, and loading other candidates would hold up its calls.
  if (judgement_.level() == MeasureLevel::kFinal) judgement_.Quieten();
  // The process of a candidate with host code starts below for a final figure.
  const bool started = judgement_.runners().candidate != nullptr;
  bool going = (!started || LoadedAhead(judgement_)) && verifier_.Reserve() && check_.Reserve();
  int runners = precision_.runners;
  for (int round = 0; round < runners && going; ++round) {
    const int64_t start_ns = judgement_.NowNs();
    // A final figure spans several processes, and with them different addresses and memory
    // placement.
    if (judgement_.level() == MeasureLevel::kFinal || round > 0 || !judgement_.runners().alive()) {
      KC_RETURN_IF_ERROR(judgement_.RenewRunners());
    }
    going = LoadCandidate(judgement_);
    const int64_t loaded_ns = judgement_.NowNs();
    times_.load_ns += loaded_ns - start_ns;
    if (going && round == 0) {
      going = check_.Run();
    }
    // A screening has one process.
    going = going && (precision_.runners == 1 || check_.RunLargest());
    times_.check_ns += judgement_.NowNs() - loaded_ns;
    if (judgement_.level() == MeasureLevel::kCheck) break;
    going = going && CaptureGraphs();
    const int64_t captured_ns = judgement_.NowNs();
    going = going && judgement_.AwaitDevice();
    times_.wait_ns += judgement_.NowNs() - captured_ns;
    for (size_t i = 0; i < results_.size() && going; ++i) {
      going = (graphs_.empty() || TimeGraphs(i)) && TimeShape(i);
    }
    if (Suspects()) runners = std::max(runners, kRunnersToCharge);
  }
  const bool timed = judgement_.level() != MeasureLevel::kCheck;
  if (going && timed) AddSessions();
  CudaRunner* const candidate = judgement_.runners().candidate;
  if (!judgement_.hosted() && candidate != nullptr && candidate->alive()) {
    candidate->Unload(cuda_runner::kCandidate, judgement_.cancel());
  }
  KC_RETURN_IF_ERROR(judgement_.status());
  const CudaPreparedProblem& prepared = judgement_.prepared();
  const auto rule = [&] {
    return absl::StrCat(verifier_.rules().FormatRule(
                            prepared.expected(prepared.check_cases().front()).front().tolerance),
                        verifier_.rules().decided_by());
  };
  if (!timed && !judgement_.outcome()) {
    return Passed{check_.verified(), rule(), prepared.Notes()};
  }
  MeasureOutcome outcome = judgement_.outcome() ? *judgement_.TakeOutcome()
                           : graphs_.empty()    ? Conclude(results_, judgement_.options(),
                                                           judgement_.prepared().problem().problem_id,
                                                           check_.verified(), spread_)
                                                : ConcludeTask();
  if (auto* const ok = std::get_if<MeasuredOk>(&outcome)) {
    judgement_.monitor().Look();
    judgement_.monitor().Fill(ok->environment);
    ok->determinism = check_.determinism();
    ok->notes = prepared.Notes();
    ok->rule = rule();
  }
  return outcome;
}

NewValuesCheck CudaJudge::MakeCheck() const {
  const Problem& problem = judgement_.prepared().problem();
  return {NewValuesCheck::KindsOf(problem, judgement_.options(), /*draws_altered=*/true),
          kNoiseOfRounds};
}

bool CudaJudge::Suspects() const {
  // The host time of a launch varies too much for small charges.
  const bool counts_charges = judgement_.prepared().task() == nullptr;
  bool suspects = slowed_;
  for (size_t i = 0; i < checks_.size(); ++i) {
    // Graphs run no host code that could remember results.
    suspects = suspects ||
               (counts_charges ? checks_[i].Suspects() : checks_[i].slowed() && !has_graphs(i));
  }
  return suspects;
}

bool CudaJudge::AddSessions() {
  for (size_t i = 0; i < results_.size(); ++i) {
    if (std::optional<Exploit> refusal = checks_[i].Refusal(); refusal && !has_graphs(i)) {
      judgement_.set_running(judgement_.prepared().bench_shapes()[i].slots.front());
      return judgement_.Settle(*std::move(refusal));
    }
    checks_[i].AddTo(results_[i], /*doubt=*/0);
  }
  return true;
}

bool CudaJudge::TimeShape(size_t shape_index) {
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
  NewValuesCheck check = MakeCheck();
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
  return CudaJudge(request).Run();
}

}  // namespace kernelcast::worker
