#include "services/worker/cpu/cpu_target.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <variant>

#include "absl/strings/str_cat.h"
#include "services/worker/runner/control.h"
#include "tests/integration/worker/cpu_fixture.h"

namespace kernelcast::testing {
namespace {

using Defines = std::vector<std::pair<std::string, std::string>>;

// One target for all cases: each candidate that misbehaves is followed by one that does not, and
// both see what the earlier ones left.
CpuFixture& Shared() {
  static CpuFixture fixture;
  return fixture;
}

// Measures again while the machine is too noisy to tell, as the orchestrator does.
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

TEST_CASE("A right and faster candidate is measured as faster, with all that a result holds") {
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
  CHECK(shape.roofline_floor_ns > 0);
  CHECK(shape.call_overhead_ns > 0);
  CHECK_FALSE(shape.stop_reason.empty());
}

TEST_CASE("The reference measured as a candidate is not told from itself") {
  CpuFixture& fixture = Shared();
  const Measurement measurement =
      MeasureUntilStable(ReferenceCandidate(fixture.problem(), "cpu").value());
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->speedup.low < 1.05);
  CHECK(ok->speedup.high > 0.95);
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

TEST_CASE("Every way of being wrong is told apart") {
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

TEST_CASE("A candidate that ends its process is a crash with the signal or the code") {
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
    // In its first call, and while it is being timed.
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

TEST_CASE("A candidate that hangs is stopped at its limit") {
  const auto timeout = MeasureAs<Timeout>("crash.cc", {{"HOW", "HANG"}, {"AFTER", "0"}});
  CHECK(timeout.stage == "check");
  CHECK(timeout.limit_ns >= 1'000'000'000);
  CHECK(MeasureAs<Timeout>("crash.cc", {{"HOW", "HANG"}, {"AFTER", "80"}}).stage != "check");
  CheckNextIsUnharmed();
}

TEST_CASE("A candidate that eats memory hits its limit") {
  for (const char* how : {"1", "2", "3"}) {
    INFO("HOW " << how);
    CHECK(MeasureAs<Crash>("memory_eater.cc", {{"HOW", how}}).cause == Crash::Cause::kMemoryLimit);
  }
  CheckNextIsUnharmed();
}

TEST_CASE("A candidate that prints without end hits its limit") {
  const auto crash = MeasureAs<Crash>("output_flood.cc", {});
  CHECK(crash.cause == Crash::Cause::kOutputLimit);
  CHECK(crash.output_tail.size() <= 4096);
  CHECK(crash.output_tail.find("lazy dog") != std::string::npos);
  CheckNextIsUnharmed();
}

TEST_CASE("System calls that no kernel needs are exploits, by name") {
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
        Row{"EXECUTABLE_MEMORY", "mmap"}, Row{"OPEN_FILE", "openat"}, Row{"OTHER_ABI", ""}}) {
    INFO(row.what);
    const auto exploit = MeasureAs<Exploit>("system_calls.cc", {{"WHAT", row.what}});
    CHECK(exploit.kind == Exploit::Kind::kForbiddenSystemCall);
    CHECK(exploit.evidence.find(row.name) != std::string::npos);
  }
  CheckNextIsUnharmed();
}

TEST_CASE("Writing to an input or beside an output is an exploit") {
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

TEST_CASE("Answers from memory are exploits, whether remembered by place or by value") {
  CHECK(MeasureAs<Exploit>("cheat.cc", {{"HOW", "CACHE_BY_POINTER"}}).kind ==
        Exploit::Kind::kCachedOutput);
  CHECK(MeasureAs<Exploit>("cheat.cc", {{"HOW", "CACHE_BY_VALUE"}}).kind ==
        Exploit::Kind::kCachedOutput);
  CheckNextIsUnharmed();
}

TEST_CASE("A kernel that is held up after pauses is not taken for one that remembers") {
  MeasureAs<MeasuredOk>("held_up.cc", {});
}

TEST_CASE("A quick kernel that reads much memory is not taken for one that remembers") {
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

TEST_CASE("Work skipped in timed calls is an exploit") {
  CHECK(MeasureAs<Exploit>("cheat.cc", {{"HOW", "SKIP_AFTER_WARM_UP"}}).kind ==
        Exploit::Kind::kSkippedWork);
  CHECK(MeasureAs<Exploit>("cheat.cc", {{"HOW", "HALF_THE_WORK"}}).kind ==
        Exploit::Kind::kSkippedWork);
  CHECK(MeasureAs<Exploit>("cheat.cc", {{"HOW", "ONLY_WHERE_POISONED"}}).kind ==
        Exploit::Kind::kSkippedWork);
  CheckNextIsUnharmed();
}

TEST_CASE("Less precise work in timed calls is a wrong result") {
  CHECK(MeasureAs<WrongResult>("cheat.cc", {{"HOW", "WRONG_WHEN_TIMED"}}).cause ==
        WrongResult::Cause::kTimedOutput);
  CheckNextIsUnharmed();
}

TEST_CASE("Saying done before it is is an exploit") {
  using Block = worker::runner::ControlBlock;
  const Defines defines = {{"MARK", absl::StrCat(worker::runner::kMagic)},
                           {"DONE_WORD", absl::StrCat(offsetof(Block, done_sequence) / 4)},
                           {"COMMAND_WORD", absl::StrCat(offsetof(Block, command_sequence) / 4)}};
  if (worker::Placement::Choose().alone()) {
    // The judge sleeps until the runner wakes it, so the forger gains nothing.
    const auto ok = MeasureAs<MeasuredOk>("forged_answer.cc", defines);
    CHECK(ok.speedup.value < 1.1);
  } else {
    const auto exploit = MeasureAs<Exploit>("forged_answer.cc", defines);
    CHECK(exploit.kind == Exploit::Kind::kSkippedWork);
  }
  CheckNextIsUnharmed();
}

TEST_CASE("Working ahead between calls is an exploit") {
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

TEST_CASE("What is missing on a machine is said, and the rest works") {
  const TemporaryFolder folder("degraded");
  const Problem problem = LoadProblem("tests/candidates/iterated_map");
  const Candidate candidate = ReferenceCandidate(problem, "cpu").value();
  const worker::CancelToken cancel;

  worker::CpuTargetOptions no_runner = CpuFixture::Options(folder.File("a"));
  no_runner.runner.path = "/no/such/runner";
  auto target = worker::CpuTarget::Make(no_runner);
  REQUIRE(target.ok());
  CHECK((*target)->Describe().can_compile);
  CHECK_FALSE((*target)->Describe().can_measure);
  CHECK((*target)->Describe().unavailable_reason.find("/no/such/runner") != std::string::npos);
  const auto compiled = (*target)->Compile(problem, candidate, cancel);
  REQUIRE(compiled.ok());
  CHECK(absl::IsUnimplemented(
      (*target)
          ->Measure(problem, candidate, std::get<worker::CompileSuccess>(compiled->result).artifact,
                    MeasureLevel::kScreen, cancel)
          .status()));

  worker::CpuTargetOptions no_compiler = CpuFixture::Options(folder.File("b"));
  no_compiler.compiler = "no-such-compiler";
  target = worker::CpuTarget::Make(no_compiler);
  REQUIRE(target.ok());
  CHECK_FALSE((*target)->Describe().can_compile);
  CHECK((*target)->Describe().unavailable_reason.find("no-such-compiler") != std::string::npos);
  CHECK(absl::IsUnimplemented((*target)->Compile(problem, candidate, cancel).status()));
}

TEST_CASE("A problem whose own programs are at fault is told from a wrong candidate") {
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
    const auto compiled = fixture.target().Compile(fixture.problem(), candidate, cancel);
    REQUIRE(compiled.ok());
    const auto measured = fixture.target().Measure(
        problem, candidate, std::get<worker::CompileSuccess>(compiled->result).artifact,
        MeasureLevel::kScreen, cancel);
    REQUIRE_FALSE(measured.ok());
    CHECK(absl::IsFailedPrecondition(measured.status()));
    INFO(measured.status().message());
    CHECK(std::string(measured.status().message()).find(row.says) != std::string::npos);
  }
  CheckNextIsUnharmed();
}

TEST_CASE("An artefact of another machine, candidate or make is refused") {
  CpuFixture& fixture = Shared();
  const Candidate candidate = fixture.Load("vectorised.cc");
  const auto compiled =
      fixture.target().Compile(fixture.problem(), candidate, worker::CancelToken());
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
  CHECK(absl::IsInvalidArgument(fixture.target()
                                    .Measure(fixture.problem(), candidate, damaged,
                                             MeasureLevel::kScreen, worker::CancelToken())
                                    .status()));
}

}  // namespace
}  // namespace kernelcast::testing
