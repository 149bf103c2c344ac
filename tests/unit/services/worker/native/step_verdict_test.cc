#include "services/worker/native/step_verdict.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::worker::step_verdict_test {
namespace {

CompilerStep Failed(const std::string& log, int exit_code = 1, int signal = 0) {
  CompilerStep step;
  step.log = log;
  step.exit_code = exit_code;
  step.signal = signal;
  return step;
}

CompilerStep Works() {
  CompilerStep step;
  step.ok = true;
  return step;
}

// The status of a step that ends in these ways in turn, or OK, and how often it was run.
struct Outcome {
  absl::StatusOr<CompilerStep> result = absl::UnknownError("");
  size_t runs = 0;
  int controls = 0;
};

Outcome Judge(Evidence evidence, const std::vector<CompilerStep>& ends,
              const CompilerStep& control = Works()) {
  Outcome outcome;
  outcome.result = RunWithVerdict(
      "/tmp", evidence,
      [&]() -> absl::StatusOr<CompilerStep> {
        return ends[std::min(outcome.runs++, ends.size() - 1)];
      },
      [&]() -> absl::StatusOr<CompilerStep> {
        ++outcome.controls;
        return control;
      });
  return outcome;
}

TEST_CASE("What a broken compiler prints does not look like an error at a line of a source") {
  for (const char* log : {
           "kernel.cc: In function 'int f()':\nkernel.cc:1:16: error: 'x' was not declared\n",
           "/usr/include/c++/12/bits/a.h:12: error: static assertion failed",
           "kernel.cu(3): error: identifier \"x\" is undefined",
           "kernel.cu(3): error #20: more",
           "kernel.s: Assembler messages:\nkernel.s:4: Error: no such instruction: `bogus'",
       }) {
    INFO(log);
    CHECK(HasErrorAtLine(log));
    CHECK(HasFatalDiagnostic(log));
  }
  for (const char* log : {
           "kernel.cc:1:10: fatal error: nope.h: No such file or directory",
           "kernel.cc:1:10: sorry, unimplemented: this",
           "kernel.cu(1): catastrophic error: cannot open source file \"nope.h\"",
           "cc1plus: fatal error: nope.h: No such file or directory",
           "ptxas error   : Entry function 'k' uses too much shared data",
           "ptxas kernel.ptx, line 22; error   : Arguments mismatch",
       }) {
    INFO(log);
    CHECK_FALSE(HasErrorAtLine(log));
    CHECK(HasFatalDiagnostic(log));
  }
  for (const char* log : {
           "",
           "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.",
           "g++: fatal error: cannot execute 'cc1plus': execvp: No such file or directory",
           "cc1plus: out of memory allocating 65536 bytes after a total of 1048576 bytes",
           "virtual memory exhausted: Cannot allocate memory",
           "kernel.cc:3:1: internal compiler error: Segmentation fault",
           "kernel.cc:3:1: warning: unused",
           "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
           "cannot run g++: No such file or directory",
       }) {
    INFO(log);
    CHECK_FALSE(HasErrorAtLine(log));
    CHECK_FALSE(HasFatalDiagnostic(log));
  }
}

TEST_CASE("A source with errors is refused at once") {
  const Outcome outcome = Judge(Evidence::kDiagnostic, {Failed("kernel.cc:1:16: error: bad")});
  REQUIRE(outcome.result.ok());
  CHECK_FALSE(outcome.result->ok);
  CHECK(outcome.runs == 1);
  CHECK(outcome.controls == 0);
}

TEST_CASE("A limit that the source has hit is its own fault") {
  CompilerStep limit = Failed("stopped");
  limit.limit = true;
  const Outcome outcome = Judge(Evidence::kDiagnostic, {limit});
  REQUIRE(outcome.result.ok());
  CHECK(outcome.result->limit);
  CHECK(outcome.runs == 1);
}

TEST_CASE("A compiler that fails once and then works has refused nothing") {
  const Outcome outcome = Judge(Evidence::kDiagnostic, {Failed("Killed", 1), Works()});
  REQUIRE(outcome.result.ok());
  CHECK(outcome.result->ok);
  const Outcome killed = Judge(Evidence::kExitCode, {Failed("", 0, 9), Works()});
  REQUIRE(killed.result.ok());
  CHECK(killed.result->ok);
}

TEST_CASE("A failure without a diagnostic of the compiler is never a refusal") {
  for (const CompilerStep& end :
       {Failed("g++: fatal error: Killed signal terminated program cc1plus"),
        Failed("cc1plus: out of memory allocating 8 bytes"),
        Failed("kernel.cc:1:1: internal compiler error: Segmentation fault", 4), Failed("", 126),
        Failed("kernel.cc:1:16: error: bad", 0, 9)}) {
    INFO(end.log);
    const Outcome outcome = Judge(Evidence::kDiagnostic, {end});
    CHECK(absl::IsUnavailable(outcome.result.status()));
    CHECK(outcome.runs == 2);
  }
  CHECK(absl::IsUnavailable(Judge(Evidence::kExitCode, {Failed("", 0, 11)}).result.status()));
}

TEST_CASE("A missing header or symbol counts if a correct source passes") {
  const CompilerStep missing = Failed("kernel.cc:1:10: fatal error: nope.h: No such file");
  const Outcome refused = Judge(Evidence::kDiagnostic, {missing});
  REQUIRE(refused.result.ok());
  CHECK_FALSE(refused.result->ok);
  CHECK(refused.controls == 1);
  CHECK(absl::IsUnavailable(Judge(Evidence::kDiagnostic, {missing}, missing).result.status()));
  const CompilerStep linked = Failed("undefined reference to `g()'");
  REQUIRE(Judge(Evidence::kExitCode, {linked}).result.ok());
  CHECK(absl::IsUnavailable(Judge(Evidence::kExitCode, {linked}, linked).result.status()));
}

}  // namespace
}  // namespace kernelcast::worker::step_verdict_test
