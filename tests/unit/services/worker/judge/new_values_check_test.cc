#include "services/worker/judge/new_values_check.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kernelcast::worker::new_values_check_test {
namespace {

using Bank = CasePlan::Bank;
using enum CasePlan::Bank;

constexpr double kTimedNs = 10'000;
constexpr double kReferenceNs = 20'000;

// A problem whose inputs can be altered.
Problem Alterable() {
  Problem problem;
  TensorSpec x;
  x.init = Uniform{-1, 1};
  problem.inputs = {x};
  return problem;
}

TimingSession Session() {
  TimingSession session(MeasureOptions(), MeasureOptions().screen, kTimedNs, kReferenceNs);
  session.Run([](const TimingSession::Block& block, TimingSession::BlockTimes& times) {
    const double ns = block.side == Side::kCandidate ? kTimedNs : kReferenceNs;
    times.calls_ns.assign(static_cast<size_t>(block.calls), ns);
    times.elapsed_ns = static_cast<int64_t>(ns) * block.calls;
    return true;
  });
  return session;
}

// Rounds that take what `candidate_ns` says.
class FakeRounds final : public NewValuesRounds {
 public:
  explicit FakeRounds(std::function<double(Bank)> candidate_ns)
      : candidate_ns_(std::move(candidate_ns)) {}

  bool Time(Bank bank, NewValuesRound& round) override {
    banks.push_back(bank);
    const double ns = candidate_ns_(bank);
    round.candidate_ns.assign(8, ns);
    round.reference_ns.assign(8, kReferenceNs);
    round.least = round.most = {ns, kReferenceNs};
    if (held_up) {
      round.held_up = true;
      round.most.candidate_ns *= 3;
    }
    round.counts = counts;
    return going;
  }

  std::vector<Bank> banks;
  bool held_up = false;
  bool counts = true;
  bool going = true;

 private:
  std::function<double(Bank)> candidate_ns_;
};

NewValuesCheck Check() {
  return {NewValuesCheck::KindsOf(Alterable(), MeasureOptions(), false), kAsQuickLog};
}

// Runs as many processes as a judge would.
void RunAll(NewValuesCheck& check, NewValuesRounds& rounds, int most = 5) {
  TimedShape result;
  int processes = 0;
  do {
    if (processes == 0) check.AddSession(Session());
    REQUIRE(check.Run(rounds, result));
    ++processes;
  } while (check.Suspects() && processes < most);
}

TEST_CASE("A candidate as quick on new values needs one process and is charged nothing") {
  NewValuesCheck check = Check();
  FakeRounds rounds([](Bank) { return 1.01 * kTimedNs; });
  RunAll(check, rounds);
  CHECK(rounds.banks == std::vector{kAltered, kOther});
  CHECK_FALSE(check.slowed());
  CHECK(check.Charge() == 1);
  CHECK(check.Doubt() == 0);
  CHECK_FALSE(check.Refusal());
  TimedShape result;
  check.AddTo(result, 0);
  CHECK(result.ratios.size() == 1);
  CHECK(result.ratios[0][0] == Approx(2));
}

TEST_CASE("Times on values that are all new are kept") {
  NewValuesCheck check = Check();
  FakeRounds rounds([](Bank bank) { return bank == kOther ? 10'100 : 10'200; });
  check.AddSession(Session());
  TimedShape result;
  REQUIRE(check.Run(rounds, result));
  CHECK(result.candidate_cold_ns == std::vector<double>(8, 10'100));
  CHECK(result.reference_cold_ns == std::vector<double>(8, kReferenceNs));
}

TEST_CASE("Results that are reused in most processes are an exploit") {
  NewValuesCheck check = Check();
  FakeRounds rounds([](Bank bank) { return bank == kBase ? kTimedNs : 4 * kTimedNs; });
  RunAll(check, rounds);
  const std::optional<Exploit> refusal = check.Refusal();
  REQUIRE(refusal);
  CHECK(refusal->kind == Exploit::Kind::kCachedOutput);
  CHECK(refusal->evidence ==
        "calls on inputs seen before take 10 us, calls on the same inputs with a few values "
        "replaced 40 us");
  CHECK(check.Charge() == Approx(4));
}

TEST_CASE("A candidate that is as slow on known values is only charged") {
  NewValuesCheck check = Check();
  FakeRounds rounds([](Bank) { return 4 * kTimedNs; });
  RunAll(check, rounds);
  CHECK(check.slowed());
  CHECK_FALSE(check.Refusal());
  CHECK(check.Charge() == Approx(4));
}

TEST_CASE("A call that is held up in one of the processes is neither charged nor refused") {
  NewValuesCheck check = Check();
  int process = 0;
  FakeRounds rounds([&](Bank bank) {
    process += bank == kAltered ? 1 : 0;
    return process == 1 && bank == kAltered ? 4 * kTimedNs : kTimedNs;
  });
  RunAll(check, rounds);
  CHECK(process > 1);
  CHECK(check.slowed());
  CHECK_FALSE(check.Refusal());
  CHECK(check.Charge() == 1);
}

TEST_CASE("Rounds that the machine holds up leave a doubt, and are no evidence") {
  NewValuesCheck check = Check();
  FakeRounds rounds([](Bank) { return kTimedNs; });
  rounds.held_up = true;
  RunAll(check, rounds);
  CHECK_FALSE(check.Refusal());
  CHECK(check.Charge() == 1);
  CHECK(check.Doubt() == Approx(std::log(3) - kAsQuickLog));
  TimedShape result;
  REQUIRE(check.Run(rounds, result));
  CHECK(result.candidate_cold_ns.empty());
}

TEST_CASE("Rounds that show nothing leave the check incomplete") {
  NewValuesCheck check = Check();
  FakeRounds rounds([](Bank) { return kTimedNs; });
  rounds.counts = false;
  RunAll(check, rounds);
  CHECK_FALSE(check.complete());
  CHECK(check.Suspects());
  CHECK(check.Charge() == 1);
}

TEST_CASE("A round that ends the judgement ends the check") {
  NewValuesCheck check = Check();
  FakeRounds rounds([](Bank) { return kTimedNs; });
  rounds.going = false;
  check.AddSession(Session());
  TimedShape result;
  CHECK_FALSE(check.Run(rounds, result));
  CHECK(rounds.banks.size() == 1);
}

TEST_CASE("Inputs that cannot be altered are drawn anew, or are new as a whole only") {
  Problem fixed = Alterable();
  fixed.inputs[0].init = Constant{1};
  const MeasureOptions options = CudaMeasureOptions();
  CHECK(NewValuesCheck::KindsOf(fixed, options, false).size() == 1);
  const auto kinds = NewValuesCheck::KindsOf(fixed, options, true);
  REQUIRE(kinds.size() == 2);
  CHECK(kinds[0].bank == kAltered);
  CHECK(kinds[0].values == "other ones");
  CHECK(kinds[0].allowed_slowdown == options.altered_slowdown);
  CHECK(kinds[1].allowed_slowdown == options.new_slowdown);
}

}  // namespace
}  // namespace kernelcast::worker::new_values_check_test
