#include "services/worker/cpu/cpu_target.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/worker/runner/control.h"
#include "tests/integration/worker/cpu_fixture.h"
#include "tests/support/doubling_problem.h"

namespace kernelcast::testing::cpu_target_test {
namespace {

using Defines = std::vector<std::pair<std::string, std::string>>;

// One target for all cases: each misbehaving candidate is followed by a well-behaved one, and both
// see what earlier ones left.
CpuFixture& Shared() {
  static CpuFixture fixture;
  return fixture;
}

// Repeats while the machine is too noisy, as the orchestrator does.
Measurement MeasureUntilStable(const Candidate& candidate,
                               MeasureLevel level = MeasureLevel::kScreen) {
  constexpr int kAttempts = 5;
  Measurement measurement;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    measurement = Shared().Measure(candidate, level);
    if (!std::holds_alternative<EnvironmentUnstable>(measurement.outcome)) {
      break;
    }
  }
  return measurement;
}

void CheckNextIsUnharmed() {
  const Measurement measurement = MeasureUntilStable(Shared().Load("vectorised.cc"));
  INFO("the good candidate after it: " << MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->speedup.value > 1.5);
}

template <class Outcome>
Outcome MeasureAs(const std::string& name, const Defines& defines) {
  const Measurement measurement = MeasureUntilStable(Shared().Load(name, defines));
  INFO(name << ": " << MeasurementFeedback(measurement));
  REQUIRE(std::holds_alternative<Outcome>(measurement.outcome));
  CHECK(measurement.worker_id == "worker-under-test");
  CHECK(measurement.device_time_ns > 0);
  return std::get<Outcome>(measurement.outcome);
}

TEST_CASE("A correct faster candidate is measured as faster, with a complete result") {
  CpuFixture& fixture = Shared();
  const Measurement measurement = MeasureUntilStable(fixture.Load("vectorised.cc"));
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->speedup.value > 1.5);
  CHECK(ok->speedup.low <= ok->speedup.value);
  CHECK(ok->speedup.value <= ok->speedup.high);
  CHECK(ok->comparison == Comparison::kFaster);
  CHECK(ok->runners == 1);
  CHECK(ok->correctness_cases >= 15);
  REQUIRE(ok->shapes.size() == 1);
  const ShapeTiming& shape = ok->shapes[0];
  CHECK(shape.shape == fixture.problem().bench_shapes[0]);
  CHECK(shape.candidate.samples >= 30);
  CHECK(shape.candidate.min_ns <= shape.candidate.median_ns);
  CHECK(shape.candidate.median_ns < shape.reference.median_ns);
  CHECK(shape.bytes == 8 * 16 * 256);
  CHECK(shape.implausible_below_ns > 0);
  CHECK(shape.call_overhead_ns > 0);
  CHECK_FALSE(shape.stop_reason.empty());
}

TEST_CASE("Bench shapes count by their weights, and timing of several never ends early") {
  Problem weighted = LoadProblem("tests/candidates/iterated_map");
  for (ProblemFile& file : weighted.files) {
    if (file.path != "problem.yaml") continue;
    const std::string shape = "{rows: 16, cols: 256}";
    file.content.replace(file.content.find(shape), shape.size(),
                         "{rows: 16, cols: 256, weight: 3}\n  - {rows: 4, cols: 64}");
  }
  weighted = ParseProblem(weighted.files).value();
  const Candidate source = Shared().Load("vectorised.cc");
  Candidate candidate = source;
  candidate.problem_id = weighted.problem_id;
  candidate.candidate_id = CandidateId(candidate);
  const worker::CancelToken cancel;
  const auto compiled = Shared().target().Compile({weighted, &candidate}, cancel);
  REQUIRE(compiled.ok());
  const Artifact& artifact = std::get<worker::CompileSuccess>(compiled->result).artifact;
  std::optional<MeasuredOk> ok;
  for (int attempt = 0; attempt < 8 && !ok; ++attempt) {
    const auto measured = Shared().target().Measure(
        {weighted, candidate, artifact, {MeasureLevel::kScreen, 100}}, cancel);
    REQUIRE(measured.ok());
    if (const auto* found = std::get_if<MeasuredOk>(&measured->outcome)) ok = *found;
  }
  REQUIRE(ok);
  REQUIRE(ok->shapes.size() == 2);
  CHECK(ok->shapes[0].weight == 0.75);
  CHECK(ok->shapes[1].weight == 0.25);
  CHECK(std::log(ok->speedup.value) == Approx(0.75 * std::log(ok->shapes[0].speedup.value) +
                                              0.25 * std::log(ok->shapes[1].speedup.value)));
  CHECK(ok->shapes[0].stop_reason != kStoppedBehind);
  CHECK(ok->shapes[1].stop_reason != kStoppedBehind);
}

TEST_CASE("The reference measured as a candidate is indistinguishable from itself") {
  CpuFixture& fixture = Shared();
  const Measurement measurement =
      MeasureUntilStable(ReferenceCandidate(fixture.problem(), "cpu").value());
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->speedup.low < 1.05);
  CHECK(ok->speedup.high > 0.95);
}

TEST_CASE("Intervals of the reference against itself rarely exclude 1", "[slow]") {
  CpuFixture& fixture = Shared();
  const Candidate reference = ReferenceCandidate(fixture.problem(), "cpu").value();
  constexpr int kScreenings = 8;
  int measured = 0;
  int excluded = 0;
  const auto measure = [&](MeasureLevel level) {
    const Measurement measurement = MeasureUntilStable(reference, level);
    INFO(MeasurementFeedback(measurement));
    if (std::holds_alternative<EnvironmentUnstable>(measurement.outcome)) return;
    const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
    REQUIRE(ok != nullptr);
    ++measured;
    CHECK(ok->speedup.within_deviation > 0);
    CHECK(ok->speedup.between_deviation > 0);
    CHECK(ok->runner_speedups.size() == ok->runners);
    excluded += ok->speedup.low > 1 || ok->speedup.high < 1 ? 1 : 0;
  };
  for (int i = 0; i < kScreenings; ++i) measure(MeasureLevel::kScreen);
  measure(MeasureLevel::kFinal);
  CHECK(measured > kScreenings / 2);
  // At the stated 95% more than two of nine are excluded in fewer than 1% of runs.
  CHECK(excluded <= 2);
}

TEST_CASE("A check verifies all cases and times nothing") {
  const Measurement passed = Shared().Measure(Shared().Load("vectorised.cc"), MeasureLevel::kCheck);
  INFO(MeasurementFeedback(passed));
  REQUIRE(std::holds_alternative<Passed>(passed.outcome));
  CHECK(passed.level == MeasureLevel::kCheck);
  CHECK(std::get<Passed>(passed.outcome).correctness_cases >= 10);
  const Measurement wrong =
      Shared().Measure(Shared().Load("wrong.cc", {{"MISTAKE", "TAIL"}}), MeasureLevel::kCheck);
  INFO(MeasurementFeedback(wrong));
  CHECK(std::holds_alternative<WrongResult>(wrong.outcome));
  CheckNextIsUnharmed();
}

TEST_CASE("A final measurement spans several pairs of processes") {
  CpuFixture& fixture = Shared();
  const Measurement measurement =
      MeasureUntilStable(fixture.Load("vectorised.cc"), MeasureLevel::kFinal);
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->runners == 5);
  CHECK(ok->speedup.value > 1.5);
  CHECK(ok->comparison == Comparison::kFaster);
}

TEST_CASE("A final measurement tells whether processes gave the same bytes", "[slow]") {
  const auto determinism_of = [](const Candidate& candidate, MeasureLevel level) {
    const Measurement measurement = MeasureUntilStable(candidate, level);
    INFO(MeasurementFeedback(measurement));
    const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
    REQUIRE(ok != nullptr);
    return ok->determinism;
  };
  const Candidate good = Shared().Load("vectorised.cc");
  CHECK(determinism_of(good, MeasureLevel::kFinal) == Determinism::kBitwise);
  CHECK(determinism_of(good, MeasureLevel::kScreen) == Determinism::kUnknown);
  // Values depend on the address of the stack, which differs between processes.
  std::string source = good.source;
  const std::string end = "  return 0;\n}";
  source.replace(source.rfind(end), end.size(), R"(  int local = 0;
  const uint64_t place = (uint64_t)(uintptr_t)&local >> 4;
  for (int64_t k = 0; k < n; ++k) {
    if (((place + k * 2654435761u) * 0x9E3779B97F4A7C15u) >> 63) y[k] *= 1.0000004f;
  }
  return local;
})");
  CHECK(determinism_of(Shared().MakeCandidate(source), MeasureLevel::kFinal) ==
        Determinism::kVaries);
}

TEST_CASE("Every kind of wrong result is distinguished") {
  using Cause = WrongResult::Cause;
  struct Row {
    const char* mistake;
    Cause cause;
  };
  for (const Row& row : {Row{"VALUE", Cause::kValue}, Row{"TAIL", Cause::kNotWritten},
                         Row{"NOTHING", Cause::kNotWritten}, Row{"NAN_RESULT", Cause::kNonFinite},
                         Row{"HALF_PRECISION", Cause::kValue}, Row{"STATUS", Cause::kEntryStatus},
                         Row{"LARGE_ONLY", Cause::kValue}, Row{"ONE_ELEMENT", Cause::kValue}}) {
    INFO(row.mistake);
    const auto wrong = MeasureAs<WrongResult>("wrong.cc", {{"MISTAKE", row.mistake}});
    CHECK(wrong.cause == row.cause);
    if (row.cause == Cause::kEntryStatus) {
      CHECK(wrong.entry_status == 42);
    } else {
      CHECK(wrong.output == "y");
      CHECK(wrong.mismatches > 0);
      CHECK(wrong.elements >= wrong.mismatches);
    }
    if (std::string(row.mistake) == "LARGE_ONLY") {
      CHECK(wrong.distribution.find("declared") == std::string::npos);
    }
  }
  CheckNextIsUnharmed();
}

TEST_CASE("A candidate that ends its process is a crash with its signal or exit code") {
  struct Row {
    const char* how;
    Crash::Cause cause;
    int signal;
    int code;
  };
  for (const Row& row :
       {Row{"SEGV", Crash::Cause::kSignal, SIGSEGV, 0},
        Row{"ABORT", Crash::Cause::kSignal, SIGABRT, 0},
        Row{"EXIT_ZERO", Crash::Cause::kExit, 0, 0}, Row{"EXIT_THREE", Crash::Cause::kExit, 0, 3},
        Row{"STACK", Crash::Cause::kSignal, SIGSEGV, 0},
        Row{"DIVIDE", Crash::Cause::kSignal, SIGFPE, 0},
        Row{"ILLEGAL", Crash::Cause::kSignal, SIGILL, 0},
        Row{"THROW", Crash::Cause::kSignal, SIGABRT, 0}}) {
    // In its first call, and during timing.
    for (const char* after : {"0", "80"}) {
      INFO(row.how << " after " << after << " calls");
      const auto crash = MeasureAs<Crash>("crash.cc", {{"HOW", row.how}, {"AFTER", after}});
      CHECK(crash.cause == row.cause);
      CHECK(crash.signal == row.signal);
      CHECK(crash.exit_code == row.code);
      CHECK(crash.output_tail.find("about to end") != std::string::npos);
    }
  }
  CheckNextIsUnharmed();
}

TEST_CASE("A candidate that pretends not to have started is still a crash") {
  const auto crash = MeasureAs<Crash>("forged_start.cc", {});
  CHECK(crash.cause == Crash::Cause::kExit);
  CHECK(crash.exit_code == 1);
  CheckNextIsUnharmed();
}

TEST_CASE("A problem that exceeds the available memory is refused before preparation") {
  Problem large = LoadProblem("tests/candidates/iterated_map");
  large.problem_id += "-large";
  for (AxisValues& shape : large.targets.at("cpu").bench_shapes) {
    for (auto& [name, extent] : shape) extent = int64_t{1} << 14;
  }
  const Candidate candidate = ReferenceCandidate(large, "cpu").value();
  const worker::CancelToken cancel;
  const auto compiled = Shared().target().Compile({large, &candidate}, cancel);
  REQUIRE(compiled.ok());
  const Artifact& artifact = std::get<worker::CompileSuccess>(compiled->result).artifact;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (int64_t{1} << 30));
  REQUIRE(setrlimit(RLIMIT_AS, &tight) == 0);
  const auto measured =
      Shared().target().Measure({large, candidate, artifact, MeasureLevel::kScreen}, cancel);
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(absl::IsFailedPrecondition(measured.status()));
  CHECK(measured.status().message().find("bytes of memory") != std::string::npos);
  CheckNextIsUnharmed();
}

TEST_CASE("A hanging candidate is stopped at its time limit") {
  const auto timeout = MeasureAs<Timeout>("crash.cc", {{"HOW", "HANG"}, {"AFTER", "0"}});
  CHECK(timeout.stage == "check");
  CHECK(timeout.limit_ns >= 1'000'000'000);
  CHECK(MeasureAs<Timeout>("crash.cc", {{"HOW", "HANG"}, {"AFTER", "80"}}).stage != "check");
  CheckNextIsUnharmed();
}

TEST_CASE("A candidate that exhausts memory hits its limit") {
  for (const char* how : {"1", "2", "3", "4", "5", "6", "7"}) {
    INFO("HOW " << how);
    CHECK(MeasureAs<Crash>("memory_eater.cc", {{"HOW", how}}).cause == Crash::Cause::kMemoryLimit);
  }
  CheckNextIsUnharmed();
}

TEST_CASE("A candidate that prints endlessly hits its limit") {
  const auto crash = MeasureAs<Crash>("output_flood.cc", {});
  CHECK(crash.cause == Crash::Cause::kOutputLimit);
  CHECK(crash.output_tail.size() <= 4096);
  CHECK(crash.output_tail.find("lazy dog") != std::string::npos);
  CheckNextIsUnharmed();
}

// vectorised.cc with `statement` before its work.
Candidate Before(const std::string& statement) {
  return Shared().MakeCandidate(absl::StrCat(
      "#include <stdio.h>\n#include <time.h>\n#include <unistd.h>\n#include <string>\n"
      "#define kernelcast_run Work\n",
      SourceFile("tests/candidates/iterated_map/candidates/vectorised.cc"),
      "\n#undef kernelcast_run\n"
      "extern \"C\" int32_t kernelcast_run(const DLTensor* in, int32_t n, const DLTensor* out,\n"
      "                                  int32_t m, void* stream) {\n",
      statement, "\n  return Work(in, n, out, m, stream);\n}\n"));
}

TEST_CASE("What a candidate prints does not harm it") {
  for (const char* statement : {
           "puts(\"a call\"); fflush(stdout);",
           "fprintf(stderr, \"a call of %p\", (void*)in);",
           "static bool once = true; if (once) { once = false;\n"
           "  const std::string much(3000000, 'x'); fputs(much.c_str(), stderr); }",
           "static int calls = 0; if (++calls < 4) {\n"
           "  const std::string much(200000, 'x');\n"
           "  if (write(1, much.data(), much.size()) != 200000) return 1; }",
       }) {
    INFO(statement);
    const Measurement measurement = MeasureUntilStable(Before(statement));
    INFO(MeasurementFeedback(measurement));
    CHECK(std::holds_alternative<MeasuredOk>(measurement.outcome));
  }
}

// The processes of this one that run candidates.
std::vector<pid_t> Runners() {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    pid_t pid = 0;
    std::string name;
    char state = 0;
    pid_t parent = 0;
    if (file >> pid >> name >> state >> parent && parent == getpid() &&
        name.starts_with("(kernelcast-runn")) {
      found.push_back(pid);
    }
  }
  return found;
}

TEST_CASE("A candidate that is stopped for longer than a call may take has no timeout", "[slow]") {
  const Candidate candidate = Before(
      "timespec now, start; clock_gettime(CLOCK_MONOTONIC, &start);\n"
      "  do clock_gettime(CLOCK_MONOTONIC, &now); while ((now.tv_sec - start.tv_sec) * "
      "1000000000L\n"
      "      + now.tv_nsec - start.tv_nsec < 20000000L);");
  std::atomic<bool> ended = false;
  std::atomic<int> stops = 0;
  std::thread stopper([&] {
    while (stops < 3 && !ended) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const std::vector<pid_t> runners = Runners();
      if (runners.empty()) continue;
      for (const pid_t runner : runners) kill(runner, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      for (const pid_t runner : runners) kill(runner, SIGCONT);
      ++stops;
    }
  });
  const Measurement measurement = Shared().Measure(candidate);
  ended = true;
  stopper.join();
  INFO(MeasurementFeedback(measurement));
  CHECK(stops > 0);
  CHECK_FALSE(std::holds_alternative<Timeout>(measurement.outcome));
  CHECK_FALSE(std::holds_alternative<Crash>(measurement.outcome));
}

TEST_CASE("System calls that no kernel needs are exploits and are named") {
  struct Row {
    const char* what;
    const char* name;
  };
  for (const Row& row :
       {Row{"FORK_BOMB", "clone"}, Row{"WRITE_ALL_DESCRIPTORS", "write"},
        Row{"READ_PARENT_MEMORY", "openat"}, Row{"READ_ENVIRONMENT", "openat"},
        Row{"KILL_ALL", "kill"}, Row{"KILL_PARENT", "getppid"}, Row{"THREAD", ""},
        Row{"SOCKET", "socket"}, Row{"PTRACE", "ptrace"}, Row{"SLEEP", "clock_nanosleep"},
        Row{"EXEC", "execve"}, Row{"SIGNAL_HANDLER", "rt_sigaction"},
        Row{"EXECUTABLE_MEMORY", "mmap"}, Row{"OPEN_FILE", "openat"}, Row{"OTHER_ABI", ""},
        Row{"CLOCK_OF_PARENT", "clock_gettime"}, Row{"MEMORY_FILE", "memfd_create"},
        Row{"SHARED_SEGMENT", "shmget"}}) {
    INFO(row.what);
    const auto exploit = MeasureAs<Exploit>("system_calls.cc", {{"WHAT", row.what}});
    CHECK(exploit.kind == Exploit::Kind::kForbiddenSystemCall);
    CHECK(exploit.evidence.find(row.name) != std::string::npos);
  }
  CheckNextIsUnharmed();
}

TEST_CASE("Writing to an input or outside an output is an exploit") {
  CHECK(MeasureAs<Exploit>("out_of_place.cc", {{"WHERE", "1"}}).kind ==
        Exploit::Kind::kMutatedInput);
  CHECK(MeasureAs<Exploit>("out_of_place.cc", {{"WHERE", "2"}}).kind ==
        Exploit::Kind::kWriteOutOfBounds);
  CHECK(MeasureAs<Exploit>("out_of_place.cc", {{"WHERE", "3"}}).kind ==
        Exploit::Kind::kWriteOutOfBounds);
  CHECK(MeasureAs<Exploit>("out_of_place.cc", {{"WHERE", "4"}}).kind ==
        Exploit::Kind::kMutatedInput);
  CheckNextIsUnharmed();
}

TEST_CASE("Cached answers are exploits, whether keyed by address or by value") {
  CHECK(MeasureAs<Exploit>("cheat.cc", {{"HOW", "CACHE_BY_POINTER"}}).kind ==
        Exploit::Kind::kCachedOutput);
  CHECK(MeasureAs<Exploit>("cheat.cc", {{"HOW", "CACHE_BY_VALUE"}}).kind ==
        Exploit::Kind::kCachedOutput);
  CheckNextIsUnharmed();
}

TEST_CASE("A kernel that is slow after pauses or after its timed calls is charged, not refused") {
  MeasureAs<MeasuredOk>("held_up.cc", {});
  // Charged by a third to the whole of the factor 3. On a busy machine the interval may contain 1.
  const Ratio spell = MeasureAs<MeasuredOk>("spell.cc", {}).speedup;
  INFO(spell.low << " to " << spell.high);
  CHECK(spell.value < 0.8);
  CHECK(spell.low < 0.5);
}

TEST_CASE("A call of a few microseconds is not charged for what another core did with its memory") {
  // A call takes 4 us, and one of the reference 40. Each moves 128 KB.
  const TemporaryFolder home("short-calls");
  CpuFixture fixture(WriteProblem(home, {.name = "doubling",
                                         .family = "doubling",
                                         .reference_repeats = "16",
                                         .templates = "  - {name: doubling, file: doubling.cc}\n",
                                         .kernels = {{"doubling.cc", DoublingKernel("1")}}}));
  double best = 0;
  for (int attempt = 0; attempt < 10 && best < 7; ++attempt) {
    const Measurement measurement = fixture.Measure(fixture.MakeCandidate(DoublingKernel("1")));
    if (const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome)) {
      best = std::max(best, ok->speedup.value);
    }
  }
  CHECK(best >= 7);
}

TEST_CASE("A quick memory-bound kernel is not mistaken for a caching one", "[slow]") {
  CpuFixture fixture("examples/problems/rmsnorm");
  const Space& space = *fixture.problem().targets.at("cpu").space;
  int measured = 0;
  for (const SpacePoint& point : EnumeratePoints(space)) {
    const Candidate candidate = CandidateFromPoint(space, point, fixture.problem().problem_id);
    if (candidate.origin != "template:vector_rows" || ++measured > 4) {
      continue;
    }
    const Measurement measurement = fixture.Measure(candidate);
    INFO(MeasurementFeedback(measurement));
    CHECK((std::holds_alternative<MeasuredOk>(measurement.outcome) ||
           std::holds_alternative<EnvironmentUnstable>(measurement.outcome)));
  }
  CHECK(measured > 4);
}

TEST_CASE("Skipping work in timed calls is an exploit") {
  CHECK(MeasureAs<Exploit>("cheat.cc", {{"HOW", "SKIP_AFTER_WARM_UP"}}).kind ==
        Exploit::Kind::kSkippedWork);
  CHECK(MeasureAs<Exploit>("cheat.cc", {{"HOW", "HALF_THE_WORK"}}).kind ==
        Exploit::Kind::kSkippedWork);
  CHECK(MeasureAs<Exploit>("cheat.cc", {{"HOW", "ONLY_WHERE_POISONED"}}).kind ==
        Exploit::Kind::kSkippedWork);
  CheckNextIsUnharmed();
}

TEST_CASE("Reduced precision in timed calls is a wrong result") {
  CHECK(MeasureAs<WrongResult>("cheat.cc", {{"HOW", "WRONG_WHEN_TIMED"}}).cause ==
        WrongResult::Cause::kTimedOutput);
  CheckNextIsUnharmed();
}

TEST_CASE("Returning before the work is done is an exploit") {
  using Block = worker::runner::ControlBlock;
  const Defines defines = {{"MARK", absl::StrCat(worker::runner::kMagic)},
                           {"DONE_WORD", absl::StrCat(offsetof(Block, done_sequence) / 4)},
                           {"COMMAND_WORD", absl::StrCat(offsetof(Block, command_sequence) / 4)}};
  if (worker::Placement::Choose().alone()) {
    // The judge sleeps until the runner wakes it, so forging an answer gains nothing.
    const auto ok = MeasureAs<MeasuredOk>("forged_answer.cc", defines);
    CHECK(ok.speedup.value < 1.1);
  } else {
    const auto exploit = MeasureAs<Exploit>("forged_answer.cc", defines);
    CHECK(exploit.kind == Exploit::Kind::kSkippedWork);
  }
  CheckNextIsUnharmed();
}

TEST_CASE("Working between calls is an exploit") {
  using Block = worker::runner::ControlBlock;
  const auto exploit = MeasureAs<Exploit>(
      "usurper.cc", {{"AFTER", "40"},
                     {"RUN", absl::StrCat(static_cast<int>(worker::runner::kRun))},
                     {"MARK", absl::StrCat(worker::runner::kMagic)},
                     {"DONE_WORD", absl::StrCat(offsetof(Block, done_sequence) / 4)},
                     {"SEQUENCE_WORD", absl::StrCat(offsetof(Block, command_sequence) / 4)},
                     {"COMMAND_WORD", absl::StrCat(offsetof(Block, command) / 4)},
                     {"CASE_WORD", absl::StrCat(offsetof(Block, case_index) / 4)}});
  CHECK(exploit.kind == Exploit::Kind::kBackgroundWork);
  CheckNextIsUnharmed();
}

TEST_CASE("A process that its host holds up as it goes to sleep twice is no exploit") {
  using Block = worker::runner::ControlBlock;
  const auto measure = [](const char* late_calls) {
    return MeasureUntilStable(Shared().Load(
        "late.cc", {{"LATE_CALLS", late_calls},
                    {"MARK", absl::StrCat(worker::runner::kMagic)},
                    {"DONE_WORD", absl::StrCat(offsetof(Block, done_sequence) / 4)},
                    {"SLEEPS_WORD", absl::StrCat(offsetof(Block, runner_sleeps) / 4)},
                    {"SEQUENCE_WORD", absl::StrCat(offsetof(Block, command_sequence) / 4)},
                    {"LINGER_WORD", absl::StrCat(offsetof(Block, linger) / 4)}}));
  };
  // The judge looks after every second call without a next one.
  const Measurement twice = measure("4");
  INFO(MeasurementFeedback(twice));
  CHECK(std::holds_alternative<MeasuredOk>(twice.outcome));
  const Measurement always = measure("1000000");
  INFO(MeasurementFeedback(always));
  // It is charged for the time that it does not sleep as far as the machine lets the judge see it,
  // or refused. It computes what the reference does, so that its interval contains 1 at best.
  if (const auto* const ok = std::get_if<MeasuredOk>(&always.outcome)) {
    CHECK(ok->speedup.low <= 1.1);
  } else if (const auto* const exploit = std::get_if<Exploit>(&always.outcome)) {
    CHECK(exploit->kind == Exploit::Kind::kBackgroundWork);
  } else {
    CHECK(std::holds_alternative<EnvironmentUnstable>(always.outcome));
  }
}

TEST_CASE("Constructors run in the sandbox") {
  const auto exited = MeasureAs<Crash>("constructor.cc", {{"HOW", "1"}});
  CHECK(exited.cause == Crash::Cause::kExit);
  CHECK(exited.exit_code == 0);
  CHECK(MeasureAs<Timeout>("constructor.cc", {{"HOW", "2"}}).stage == "load");
  CHECK(MeasureAs<Exploit>("constructor.cc", {{"HOW", "3"}}).kind ==
        Exploit::Kind::kForbiddenSystemCall);
  const Measurement honest = MeasureUntilStable(Shared().Load("constructor.cc", {{"HOW", "4"}}));
  INFO(MeasurementFeedback(honest));
  CHECK(std::holds_alternative<MeasuredOk>(honest.outcome));
}

TEST_CASE("Features missing on a machine are reported and the rest works") {
  const TemporaryFolder folder("degraded");
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  const Candidate candidate = ReferenceCandidate(problem, "cpu").value();
  const worker::CancelToken cancel;

  worker::CpuTargetOptions no_runner = CpuFixture::Options(folder.File("a"));
  no_runner.compiler_sandbox = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";
  no_runner.runner.path = "/no/such/runner";
  auto target = worker::CpuTarget::Make(no_runner);
  REQUIRE(target.ok());
  CHECK((*target)->Describe().can_compile);
  CHECK_FALSE((*target)->Describe().can_measure);
  CHECK((*target)->Describe().unavailable_reason.find("/no/such/runner") != std::string::npos);
  const auto compiled = (*target)->Compile({problem, &candidate}, cancel);
  REQUIRE(compiled.ok());
  CHECK(absl::IsUnimplemented(
      (*target)
          ->Measure(
              {problem, candidate, std::get<worker::CompileSuccess>(compiled->result).artifact,
               MeasureLevel::kScreen},
              cancel)
          .status()));

  worker::CpuTargetOptions no_compiler = CpuFixture::Options(folder.File("b"));
  no_compiler.compiler = "no-such-compiler";
  target = worker::CpuTarget::Make(no_compiler);
  REQUIRE(target.ok());
  CHECK_FALSE((*target)->Describe().can_compile);
  CHECK((*target)->Describe().unavailable_reason.find("no-such-compiler") != std::string::npos);
  CHECK(absl::IsUnimplemented((*target)->Compile({problem, &candidate}, cancel).status()));
}

TEST_CASE("A problem whose own programs fail is distinguished from a wrong candidate") {
  CpuFixture& fixture = Shared();
  struct Row {
    const char* file;
    const char* from;
    const char* to;
    const char* says;
  };
  for (const Row& row :
       {Row{"reference.cc", "0.3f", "0.4f", "reference disagrees"},
        Row{"reference.cc", "return 0;", "return 5;", "reference returned 5"},
        Row{"reference.cc", "return 0;", "__builtin_trap();", "reference failed"},
        Row{"reference.cc", "return 0;", "return nowhere;", "does not compile"},
        Row{"oracle.cc", "return 0;", "y[0] = __builtin_nan(\"\"); return 0;", "NaN"},
        Row{"oracle.cc", "return 0;", "__builtin_trap();", "oracle failed"}}) {
    INFO(row.file << ": " << row.to);
    std::vector<ProblemFile> files = fixture.problem().files;
    for (ProblemFile& file : files) {
      if (file.path == row.file) {
        const size_t at = file.content.rfind(row.from);
        REQUIRE(at != std::string::npos);
        file.content.replace(at, std::string(row.from).size(), row.to);
      }
    }
    const Problem problem = ParseProblem(files).value();
    Candidate candidate = fixture.Load("vectorised.cc");
    candidate.problem_id = problem.problem_id;
    candidate.candidate_id = CandidateId(candidate);
    const worker::CancelToken cancel;
    const auto compiled = fixture.target().Compile({fixture.problem(), &candidate}, cancel);
    REQUIRE(compiled.ok());
    const auto measured = fixture.target().Measure(
        {problem, candidate, std::get<worker::CompileSuccess>(compiled->result).artifact,
         MeasureLevel::kScreen},
        cancel);
    REQUIRE_FALSE(measured.ok());
    CHECK(absl::IsFailedPrecondition(measured.status()));
    INFO(measured.status().message());
    CHECK(std::string(measured.status().message()).find(row.says) != std::string::npos);
  }
  CheckNextIsUnharmed();
}

TEST_CASE("An artefact of another machine, candidate or build is refused") {
  CpuFixture& fixture = Shared();
  const Candidate candidate = fixture.Load("vectorised.cc");
  const auto compiled =
      fixture.target().Compile({fixture.problem(), &candidate}, worker::CancelToken());
  REQUIRE(compiled.ok());
  const Artifact good = std::get<worker::CompileSuccess>(compiled->result).artifact;
  CHECK(fixture.target().Resolve(candidate, good).ok());
  Artifact by_name = good;
  by_name.content.clear();
  CHECK(fixture.target().Resolve(candidate, by_name)->content == good.content);
  Artifact elsewhere = good;
  elsewhere.architecture = "x86-64/other";
  CHECK(absl::IsFailedPrecondition(fixture.target().Resolve(candidate, elsewhere).status()));
  const Candidate other = fixture.Load("wrong.cc", {{"MISTAKE", "TAIL"}});
  CHECK(absl::IsInvalidArgument(fixture.target().Resolve(other, good).status()));
  Artifact damaged = good;
  damaged.content.resize(100);
  CHECK(absl::IsInvalidArgument(
      fixture.target()
          .Measure({fixture.problem(), candidate, damaged, MeasureLevel::kScreen},
                   worker::CancelToken())
          .status()));
}

}  // namespace
}  // namespace kernelcast::testing::cpu_target_test
