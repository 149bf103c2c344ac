#include "services/cli/core/exit_code.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::cli {
namespace {

TEST_CASE("Exit codes distinguish bad input, an unreachable service and an interruption") {
  CHECK(ExitCodeFor(absl::OkStatus()) == ExitCode::kOk);
  CHECK(ExitCodeFor(absl::InvalidArgumentError("")) == ExitCode::kUsage);
  CHECK(ExitCodeFor(absl::NotFoundError("")) == ExitCode::kUsage);
  CHECK(ExitCodeFor(absl::UnavailableError("")) == ExitCode::kUnreachable);
  CHECK(ExitCodeFor(absl::DeadlineExceededError("")) == ExitCode::kUnreachable);
  CHECK(ExitCodeFor(absl::ResourceExhaustedError("")) == ExitCode::kUnreachable);
  CHECK(ExitCodeFor(absl::CancelledError("")) == ExitCode::kInterrupted);
  CHECK(ExitCodeFor(absl::InternalError("")) == ExitCode::kInternal);
  CHECK(ExitCodeFor(absl::DataLossError("")) == ExitCode::kInternal);
}

TEST_CASE("Every exit code is in the help") {
  const std::string help = ExitCodeHelp();
  for (int code = 0; code <= static_cast<int>(ExitCode::kInternal); ++code) {
    CHECK_THAT(help, Catch::Contains("\n  " + std::to_string(code) + "  "));
  }
}

}  // namespace
}  // namespace kernelcast::cli
