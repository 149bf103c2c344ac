#include "services/worker/cuda/judge/shape_timer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::SampleRecord;

// A block counts as disturbed if the clock is below this share of the initial one.
constexpr double kLeastClockShare = 0.95;
// Time on the host that the events of a request need not explain: launch overhead, and the flush
// before the first sample.
constexpr double kUnexplainedShare = 0.1;
constexpr double kUnexplainedUs = 500;
constexpr int kTimingAttempts = 3;
// Further attempts, with a pause before each.
constexpr int kPausedAttempts = 6;
constexpr int kHeldUpAttempts = 12;  // if the reference was held up meanwhile
constexpr int64_t kPauseNs = 20'000'000;
// From this attempt on, the worker loads no other candidates. Stopping it takes up to a second.
constexpr int kQuietFromAttempt = 6;
// The pause doubles each time the reference is held up, at most this often.
constexpr int kPauseDoublings = 3;
// If the reference was held up at least this often, the candidate is not suspected.
constexpr int kHeldUp = 2;
// Calls are uneven if their mean exceeds their median by more than this.
constexpr double kUnevenShare = 1.25;
constexpr double kUnevenUs = 2;
constexpr size_t kEmptySamples = 16;
// A slow kernel is warm after fewer calls.
constexpr int64_t kMostWarmUps = 40;
// Other harnesses write 256 MB before each call of a Python program, and launching takes place
// meanwhile.
constexpr uint32_t kEagerFlushes = 3;
// How often the cache is overwritten before the first call that the host launches. It takes an
// H200 32 us each time; launching the first call has taken up to 250 us.
constexpr uint32_t kFlushesBeforeCalls = 12;
// Requests of one call on new values. Each takes an H200 about 1 ms for each side.
constexpr size_t kSingleCalls = 4;
// A request that the host holds up takes as long as one whose calls do more. In a quarter of the
// requests of host code on an H200 the process waited for up to 250 us. It is rare that most of
// four are held up.
constexpr size_t kGroups = 4;
// More requests per block add little.
constexpr size_t kMaxRequestsInBlock = 2;

void Append(const std::vector<double>& values, std::vector<double>& to) {
  to.insert(to.end(), values.begin(), values.end());
}

using BenchShape = CudaPreparedProblem::BenchShape;

// Requests of `slots` calls each, at most `requests`.
std::vector<BenchShape> Split(const BenchShape& shape, size_t requests, size_t slots) {
  std::vector<BenchShape> calls;
  for (size_t first = 0; first < shape.slots.size() && calls.size() < requests; first += slots) {
    const size_t count = std::min(slots, shape.slots.size() - first);
    calls.push_back(shape);
    const auto begin = shape.slots.begin() + static_cast<std::ptrdiff_t>(first);
    calls.back().slots.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return calls;
}

std::vector<BenchShape> SingleCalls(const BenchShape& shape) {
  return Split(shape, kSingleCalls, 1);
}

std::vector<BenchShape> Groups(const BenchShape& shape) {
  return Split(shape, kGroups, (shape.slots.size() + kGroups - 1) / kGroups);
}

}  // namespace

void ShapeTimer::Begin() {
  warm_clock_hz_.resize(judgement_.prepared().bench_shapes().size());
  judgement_.monitor().Begin();
  clock_hz_ = judgement_.monitor().ClockHz();
}

std::optional<ShapeTimer::CallTimes> ShapeTimer::TimeCalls(const Calls& calls) {
  judgement_.set_running(calls.shape.slots.front());
  if (calls.side == Side::kReference && !judgement_.CheckUsedInputs()) return std::nullopt;
  const std::optional<Timed> timed = RunUntilExplained(calls);
  if (!timed) return std::nullopt;
  if (calls.side == Side::kCandidate) judgement_.set_inputs_used();
  return CallTimesOf(*timed, calls);
}

std::vector<double> ShapeTimer::CallTimes::Charged() const {
  std::vector<double> charged_ns = calls_ns;
  for (double& call_ns : charged_ns) call_ns += beyond_ns;
  return charged_ns;
}

uint32_t ShapeTimer::Flushes() const {
  return judgement_.prepared().task() != nullptr && !replays_ ? kEagerFlushes : 1;
}

std::optional<ShapeTimer::Plan> ShapeTimer::PlanCalls(const Calls& calls) {
  const BenchShape& shape = calls.shape;
  const Side side = calls.side;
  CudaPreparedProblem& prepared = judgement_.prepared();
  const CudaPreparedProblem::Arena outputs = judgement_.OutputsOf(side);
  Plan plan;
  plan.pattern = judgement_.patterns().NextNan();
  const auto add = [&](size_t program, const std::function<void()>& add_poisons) {
    SampleRecord sample{judgement_.SlotOf(side), static_cast<uint32_t>(program),
                        static_cast<uint32_t>(plan.poisons.size()), 0};
    add_poisons();
    sample.poisons = static_cast<uint32_t>(plan.poisons.size()) - sample.first_poison;
    plan.samples.push_back(sample);
  };
  const std::vector<size_t> order =
      judgement_.plan_random().Order(std::min(calls.slots, shape.slots.size()));
  if (side == Side::kCandidate && judgement_.hosted()) {
    // Fill from this process: a candidate's host code controls what its runner writes.
    for (const size_t slot : order) {
      if (!judgement_.Must(prepared.memory().FillOutputs(
              outputs, prepared.cases()[shape.slots[slot]], plan.pattern))) {
        return std::nullopt;
      }
    }
    if (!judgement_.Must(judgement_.device().Synchronize())) {
      return std::nullopt;
    }
  } else if (!judgement_.HostCalls(side)) {
    // A program that does nothing goes first, so that the first call finds the device in the same
    // state as the others, on both sides. For a candidate it also overwrites the reference's
    // results.
    add(NothingProgram(), [&] {
      for (const size_t index : shape.slots) {
        if (side == Side::kCandidate) {
          prepared.AddPoisons(outputs, index, plan.pattern, plan.poisons);
        }
      }
    });
  }
  // The host takes longer to prepare the first call than the others, because another process ran
  // before. The device is busy meanwhile. What the device does in a call is not hidden. Graphs are
  // launched quickly: they need this only in requests of one call.
  if (judgement_.HostCalls(side) && (!replays_ || calls.shape.slots.size() == 1)) {
    for (uint32_t i = 0; i < kFlushesBeforeCalls; i += Flushes()) add(NothingProgram(), [] {});
  }
  plan.first_call = plan.samples.size();
  const CudaPreparedProblem::Programs& programs = judgement_.ProgramsOf(side);
  for (const size_t slot : order) {
    const size_t index = shape.slots[slot];
    add(index, [&] {
      prepared.AddPoisons(outputs, index, plan.pattern, plan.poisons);
      plan.poisoned_bytes =
          CudaPreparedProblem::AddWorkspacePoison(programs.workspace_bytes[index], plan.pattern,
                                                  judgement_.patterns().random(), plan.poisons);
    });
  }
  plan.calls = order.size();
  // The results of a call of a Python program are copied before the next one.
  if (judgement_.CopiesResults(side)) add(NothingProgram(), [] {});
  return plan;
}

std::optional<ShapeTimer::Timed> ShapeTimer::RunOnce(const Calls& calls, bool wake) {
  const int64_t reference_ns = calls.shape.reference_ns;
  const int64_t call_limit_ns = judgement_.options().DeviceCallLimitNs(reference_ns);
  CudaRunner& runner = judgement_.RunnerOf(calls.side);
  // Before outputs are overwritten, so that a candidate gains no time with new ones.
  if (wake && !judgement_.Accept(runner.Wake(call_limit_ns, judgement_.cancel()), calls.side,
                                 "timing", call_limit_ns)) {
    return std::nullopt;
  }
  std::optional<Plan> plan = PlanCalls(calls);
  if (!plan) return std::nullopt;
  Timed timed;
  timed.plan = *std::move(plan);
  const int64_t limit_ns = call_limit_ns + 50 * reference_ns * std::ssize(timed.plan.samples);
  const bool untrusted = judgement_.hosted() && calls.side == Side::kCandidate;
  const int64_t ran_ns = runner.RanNs();
  const int64_t ran_before_ns =
      untrusted ? std::exchange(ran_at_rest_ns_, std::nullopt).value_or(ran_ns) : ran_ns;
  timed.answer = runner.Time(timed.plan.samples, timed.plan.poisons, Flushes(), limit_ns,
                             judgement_.cancel(), replays_);
  const CudaRunner::Answer& answer = timed.answer;
  if (!judgement_.Accept(answer, calls.side, "timing", limit_ns)) return std::nullopt;
  const std::vector<float>& values_us = answer.values_us;
  timed.explained_us = std::accumulate(values_us.begin(), values_us.end(), 0.0);
  timed.wall_us =
      1e-3 *
      static_cast<double>(judgement_.HostCalls(calls.side) ? answer.wall_ns : answer.reply.wall_ns);
  timed.explained =
      std::all_of(values_us.begin(), values_us.end(), [](float value) { return value >= 0; }) &&
      std::abs(timed.wall_us - timed.explained_us) <=
          kUnexplainedShare * timed.wall_us + kUnexplainedUs;
  double calls_us = 0;
  for (size_t i = 0; i < timed.plan.calls; ++i) {
    const double call_us = values_us[2 * (timed.plan.first_call + i) + 1];
    calls_us += std::isfinite(call_us) ? std::max(0.0, call_us) : 0;
  }
  timed.beyond_us = timed.wall_us - calls_us;
  timed.launching_us =
      timed.wall_us - 1e-3 * static_cast<double>(answer.reply.wall_ns - answer.reply.launching_ns);
  if (untrusted) {
    // It runs on one processor, so that it has worked before the request if this is more.
    runner.AwaitSleep();
    const double ran_us = 1e-3 * static_cast<double>(runner.RanNs() - ran_before_ns);
    timed.beyond_us = std::max(timed.wall_us, ran_us) - calls_us;
  }
  return timed;
}

// The times of events are in memory that device code might reach and that host code controls. They
// must be valid and add up to the time on the host. If they do not, the times may be forged. Or the
// process waited for a core or for the driver, and then the reference has to wait too. Each attempt
// has its own plan: host code could leave the results of one attempt for the next.
std::optional<ShapeTimer::Timed> ShapeTimer::RunUntilExplained(const Calls& calls) {
  const bool suspects = calls.side == Side::kCandidate;
  std::optional<Timed> timed;
  std::optional<double> beyond_us;
  int held_up = 0;  // requests of the reference
  for (int attempt = 0;
       attempt < kTimingAttempts + (held_up > 0 ? kHeldUpAttempts : kPausedAttempts); ++attempt) {
    if (attempt >= kTimingAttempts) {
      if (attempt >= kQuietFromAttempt) judgement_.Quieten();
      judgement_.cancel().SleepFor(kPauseNs << std::min(held_up, kPauseDoublings));
    }
    if (suspects && attempt >= kTimingAttempts) {
      const std::optional<Timed> reference =
          RunOnce({calls.shape, Side::kReference, calls.slots}, true);
      if (!reference) return std::nullopt;
      if (!reference->explained) ++held_up;
    }
    timed = RunOnce(calls, attempt > 0);
    if (!timed) return timed;
    if (!beyond_us) beyond_us = timed->beyond_us;
    timed->beyond_us = *beyond_us;
    if (timed->explained) return timed;
  }
  if (!suspects) return timed;
  const std::string took =
      absl::StrCat("timed calls took ", std::llround(timed->wall_us),
                   " us on the host, of which the device's events explain ",
                   std::isfinite(timed->explained_us) ? std::llround(timed->explained_us) : 0);
  if (held_up >= kHeldUp) {
    EnvironmentUnstable unstable;
    unstable.reason = absl::StrCat(took, "; calls of the reference were held up too, in ", held_up,
                                   " of ", kHeldUpAttempts, " attempts");
    judgement_.Settle(std::move(unstable));
  } else {
    judgement_.Settle(MakeExploit(Exploit::Kind::kBackgroundWork, absl::StrCat("its ", took)));
  }
  return std::nullopt;
}

ShapeTimer::CallTimes ShapeTimer::CallTimesOf(const Timed& timed, const Calls& calls) {
  const Plan& plan = timed.plan;
  const CudaRunner::Answer& answer = timed.answer;
  const size_t end = plan.first_call + plan.calls;
  const std::vector<double> before_us =
      TimesBetween(answer.values_us, {.first = plan.first_call,
                                      .count = plan.calls,
                                      .copies = judgement_.CopiesResults(calls.side),
                                      .single = calls.shape.slots.size() == 1});
  double charged_us = 0;
  double beyond_us = 0;
  // Device code is compared with MeasureBetween where the reference runs in another process.
  const bool alike = judgement_.hosted() == judgement_.apart();
  if (calls.side == Side::kCandidate) {
    charged_us = between_.ChargeUs(before_us, alike ? plan.poisoned_bytes : 0);
  } else if (alike) {
    between_.SetReference(before_us);
  }
  if (judgement_.hosted()) {
    if (calls.side == Side::kReference) {
      if (!calls.back_to_back) {
        beyond_.AddReference(plan.samples.size(), timed.beyond_us, timed.launching_us);
      }
    } else {
      beyond_us = std::max(0.0, beyond_.ChargeUs(plan.samples.size(), plan.calls, timed.beyond_us,
                                                 plan.poisoned_bytes) -
                                    charged_us);
    }
  }
  std::vector<double> calls_us;
  for (size_t i = plan.first_call; i < end; ++i) {
    calls_us.push_back(answer.values_us[2 * i + 1] + charged_us);
  }
  // One call may have done the work of the others, whose outputs are only checked afterwards.
  const double mean_us =
      std::accumulate(calls_us.begin(), calls_us.end(), 0.0) / static_cast<double>(calls_us.size());
  if (mean_us > kUnevenShare * Median(calls_us) + kUnevenUs) {
    std::fill(calls_us.begin(), calls_us.end(), mean_us);
  }
  CallTimes times{.calls_ns = {}, .pattern = plan.pattern, .beyond_ns = 1000 * beyond_us};
  times.calls_ns.reserve(calls_us.size());
  for (const double call_us : calls_us) {
    times.calls_ns.push_back(std::max(1.0, 1000 * call_us - overhead_ns_));
  }
  return times;
}

bool ShapeTimer::MeasureOverhead() {
  const SampleRecord nothing{cuda_runner::kReference, static_cast<uint32_t>(NothingProgram()), 0,
                             0};
  const std::vector<SampleRecord> samples(kEmptySamples, nothing);
  const int64_t limit_ns = judgement_.options().min_call_limit_ns;
  const CudaRunner::Answer answer = judgement_.runners().reference->Time(
      samples, {}, Flushes(), limit_ns, judgement_.cancel(), replays_);
  if (!judgement_.Accept(answer, Side::kReference, "warm_up", limit_ns)) {
    return false;
  }
  std::vector<double> calls_ns;
  for (size_t i = 0; i < samples.size(); ++i) {
    calls_ns.push_back(1000.0 * answer.values_us[2 * i + 1]);
  }
  overhead_ns_ = Median(calls_ns);
  return true;
}

bool ShapeTimer::MeasureBetween(const BenchShape& shape) {
  std::optional<Plan> plan = PlanCalls({shape, Side::kCandidate, shape.slots.size()});
  if (!plan) return false;
  for (SampleRecord& sample : plan->samples) {
    sample.program = static_cast<uint32_t>(NothingProgram());
  }
  const int64_t limit_ns = judgement_.options().min_call_limit_ns;
  const CudaRunner::Answer answer =
      judgement_.RunnerOf(Side::kCandidate)
          .Time(plan->samples, plan->poisons, Flushes(), limit_ns, judgement_.cancel(), replays_);
  if (!judgement_.Accept(answer, Side::kCandidate, "timing", limit_ns)) return false;
  between_.SetReference(
      TimesBetween(answer.values_us, {.first = plan->first_call, .count = plan->calls}));
  return true;
}

bool ShapeTimer::WarmUp(size_t shape_index, double& candidate_ns, double& reference_ns) {
  const BenchShape& shape = ShapeAt(shape_index);
  const bool warm = judgement_.monitor().IsWarm();
  for (const Side side : {Side::kReference, Side::kCandidate}) {
    std::vector<double> calls_ns;
    const int64_t start_ns = judgement_.NowNs();
    int64_t spent_ns = 0;
    do {
      const std::optional<CallTimes> times =
          TimeCalls({shape, side, shape.slots.size(), /*back_to_back=*/!calls_ns.empty()});
      if (!times) {
        return false;
      }
      Append(times->Charged(), calls_ns);
      spent_ns = judgement_.NowNs() - start_ns;
    } while (!warm &&
             (std::ssize(calls_ns) < judgement_.options().warm_up_calls ||
              spent_ns < judgement_.options().warm_up_ns) &&
             spent_ns < kMostWarmUps * judgement_.options().warm_up_ns);
    (side == Side::kCandidate ? candidate_ns : reference_ns) = Quantile(calls_ns, 0.1);
  }
  // Processes that confirm a screening count their blocks by the first one's clock.
  double& warm_hz = warm_clock_hz_[shape_index];
  if (warm_hz == 0 || judgement_.level() == MeasureLevel::kFinal)
    warm_hz = judgement_.monitor().ClockHz();
  clock_hz_ = warm_hz;
  return true;
}

bool ShapeTimer::RunBlock(const BenchShape& shape, const TimingSession::Block& block,
                          TimingSession::BlockTimes& times) {
  const size_t slots = shape.slots.size();
  const size_t wanted =
      std::min<size_t>(static_cast<size_t>(block.calls), kMaxRequestsInBlock * slots);
  std::vector<double> calls_ns;
  const int64_t start_ns = judgement_.NowNs();
  uint32_t pattern = 0;
  size_t last = 0;
  while (calls_ns.size() < wanted && times.elapsed_ns < block.max_ns) {
    last = std::min(slots, wanted - calls_ns.size());
    const std::optional<CallTimes> called =
        TimeCalls({shape, block.side, last, /*back_to_back=*/!calls_ns.empty()});
    if (!called) {
      return false;
    }
    Append(called->Charged(), calls_ns);
    pattern = called->pattern;
    times.elapsed_ns = std::max<int64_t>(1, judgement_.NowNs() - start_ns);
  }
  const double hz = judgement_.monitor().Look();
  const bool slowed = hz > 0 && hz < kLeastClockShare * clock_hz_;
  (slowed ? times.disturbed_calls_ns : times.calls_ns) = std::move(calls_ns);
  return Verify(
      {.shape = shape, .side = block.side, .slots = last, .bank = Bank::kBase, .poison = pattern});
}

bool ShapeTimer::Verify(const OutputVerifier::SlotCalls& calls) {
  // A task's checker may compute from the inputs what the outputs must be.
  if (judgement_.prepared().has_checker() && !judgement_.CheckUsedInputs()) return false;
  if (verifier_.VerifySlots(calls)) return true;
  // The reason for wrong outputs may be that the candidate has changed the inputs.
  if (judgement_.outcome()) (void)judgement_.CheckUsedInputs();
  return false;
}

std::optional<TimingSession> ShapeTimer::RunSession(size_t shape_index,
                                                    const PrecisionOptions& precision,
                                                    const BehindRuleAt& behind,
                                                    TimedShape& result) {
  double candidate_ns = 0;
  double reference_ns = 0;
  between_ = BetweenCalls();
  beyond_ = BeyondCalls();
  if (!MeasureOverhead()) {
    return std::nullopt;
  }
  if (judgement_.apart() && !judgement_.hosted() && !MeasureBetween(ShapeAt(shape_index))) {
    return std::nullopt;
  }
  result.overhead_ns = overhead_ns_;
  if (!WarmUp(shape_index, candidate_ns, reference_ns)) {
    return std::nullopt;
  }
  TimingSession session(judgement_.options(), precision, candidate_ns, reference_ns,
                        behind ? behind(reference_ns) : BehindRule());
  const bool going = session.Run([&](const TimingSession::Block& block, auto& times) {
    return RunBlock(ShapeAt(shape_index), block, times);
  });
  return going ? std::optional(std::move(session)) : std::nullopt;
}

bool ShapeTimer::PutBank(const BenchShape& shape, Bank bank) {
  if (!judgement_.outcome() && !judgement_.CheckUsedInputs()) return false;
  return judgement_.Must(judgement_.prepared().PutBank(shape, bank)) &&
         judgement_.Must(judgement_.device().Synchronize()) &&
         (!judgement_.hosted() || judgement_.NoteInputs());
}

std::optional<std::vector<double>> ShapeTimer::TimeBank(const std::vector<BenchShape>& requests,
                                                        Bank bank, Bank before) {
  std::vector<double> calls_ns;
  double beyond_ns = 0;
  beyond_.BeginCandidate();
  for (const BenchShape& request : requests) {
    ran_at_rest_ns_ = judgement_.RunnerOf(Side::kCandidate).RanNs();
    if (!PutBank(request, bank)) return std::nullopt;
    const std::optional<CallTimes> times =
        TimeCalls({request, Side::kCandidate, request.slots.size()});
    if (!times || !Verify({.shape = request,
                           .side = Side::kCandidate,
                           .slots = request.slots.size(),
                           .bank = bank,
                           .poison = times->pattern,
                           .stale = before})) {
      return std::nullopt;
    }
    Append(times->calls_ns, calls_ns);
    beyond_ns = times->beyond_ns;
  }
  // The last is the median over all requests.
  for (double& call_ns : calls_ns) call_ns += beyond_ns;
  return calls_ns;
}

std::optional<std::vector<double>> ShapeTimer::TimeReference(
    const std::vector<BenchShape>& requests) {
  std::vector<double> calls_ns;
  for (const BenchShape& request : requests) {
    const std::optional<CallTimes> times = TimeCalls(
        {request, Side::kReference, request.slots.size(), /*back_to_back=*/!calls_ns.empty()});
    if (!times) return std::nullopt;
    Append(times->calls_ns, calls_ns);
  }
  return calls_ns;
}

// The cache is as cold as in timed calls, so a kernel that does not cache results takes as long.
class ShapeTimer::FreshRounds final : public NewValuesRounds {
 public:
  FreshRounds(ShapeTimer& timer, const BenchShape& shape, FreshCalls calls)
      : timer_(timer), shape_(shape), calls_(calls) {}

  bool Time(Bank bank, NewValuesRound& round) override {
    if (bank != Bank::kBase) latest_ = bank;
    const std::vector<BenchShape> requests = calls_ != FreshCalls::kOneByOne
                                                 ? std::vector<BenchShape>{shape_}
                                             : latest_ == Bank::kAltered ? Groups(shape_)
                                                                         : SingleCalls(shape_);
    const Bank before = bank == Bank::kBase ? latest_ : Bank::kBase;
    std::optional<std::vector<double>> candidate_ns = timer_.TimeBank(requests, bank, before);
    if (!candidate_ns) return false;
    round.counts = calls_ != FreshCalls::kBesideGraphs || latest_ != Bank::kAltered;
    if (!round.counts) return true;
    std::optional<std::vector<double>> reference_ns = timer_.TimeReference(requests);
    if (!reference_ns) return false;
    round.candidate_ns = *std::move(candidate_ns);
    round.reference_ns = *std::move(reference_ns);
    round.least = round.most = {Mean(round.candidate_ns), Mean(round.reference_ns)};
    return true;
  }

 private:
  ShapeTimer& timer_;
  const BenchShape& shape_;
  const FreshCalls calls_;
  Bank latest_ = Bank::kOther;  // that was new
};

bool ShapeTimer::CheckNewValues(size_t shape_index, FreshCalls calls, NewValuesCheck& check,
                                TimedShape& result) {
  const BenchShape& shape = ShapeAt(shape_index);
  if (calls == FreshCalls::kOneByOne && judgement_.hosted()) {
    // Measures the time of such requests outside their calls.
    const BetweenCalls between = between_;
    if (!TimeReference(SingleCalls(shape))) return false;
    between_ = between;
  }
  FreshRounds rounds(*this, shape, calls);
  const bool going = check.Run(rounds, result);
  // Finish copying, so that it does not overlap with the next timing.
  if (judgement_.status().ok() && !PutBank(shape, Bank::kBase)) return false;
  judgement_.monitor().NoteWork();
  return going;
}

}  // namespace kernelcast::worker
