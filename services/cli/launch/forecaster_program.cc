#include "services/cli/launch/forecaster_program.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/process/child_process.h"

namespace kernelcast::cli {
namespace {

// Poll interval. An interrupt is noticed at once.
constexpr int kForecasterPollMs = 20;

}  // namespace

absl::StatusOr<std::string> RunForecasterProgram(const std::string& program_folder,
                                                 const std::vector<std::string>& arguments,
                                                 const Interrupt& interrupt,
                                                 const std::function<bool()>& on_poll) {
  ChildOptions options;
  options.argv = {absl::StrCat(program_folder, "/kernelcast-forecaster")};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    options.environment.emplace_back(*variable);
  }
  absl::StatusOr<std::unique_ptr<ChildProcess>> child = ChildProcess::Spawn(options);
  if (!child.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot start ", options.argv[0], ": ",
                                               std::string(child.status().message())));
  }
  while (!(*child)->Poll()) {
    if (interrupt.requested()) return absl::CancelledError("interrupted");
    pollfd signal{interrupt.fd(), POLLIN, 0};
    poll(&signal, 1, kForecasterPollMs);
    if (on_poll && !on_poll()) return absl::CancelledError("killed");
  }
  const ChildExit ended = (*child)->Wait(0);
  if (ended.exited && ended.exit_code == 0) return ended.output;
  std::string message = ended.output;
  while (!message.empty() && message.back() == '\n') message.pop_back();
  if (message.empty()) {
    message = ended.exited ? absl::StrCat("it exited with code ", ended.exit_code)
                           : absl::StrCat("it was killed by signal ", ended.signal);
  }
  return absl::FailedPreconditionError(absl::StrCat("kernelcast-forecaster: ", message));
}

}  // namespace kernelcast::cli
