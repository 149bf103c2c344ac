#include "services/cli/commands/context.h"

#include <utility>

namespace kernelcast::cli {

absl::Status CheckInterrupt(const Context& context) {
  return context.interrupt.requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
}

CLI::App* AddCommand(CLI::App& app, Context& context, const std::string& name,
                     const std::string& description,
                     std::function<absl::StatusOr<ExitCode>()> run) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag_function(
      "--json", [&context](int64_t) { context.console.set_json(true); },
      "Print only JSON on standard output");
  command->add_flag_function(
      "-q,--quiet", [&context](int64_t) { context.console.set_quiet(true); }, "Print no progress");
  command->footer(ExitCodeHelp());
  command->callback([&context, run = std::move(run)] { context.chosen = run; });
  return command;
}

}  // namespace kernelcast::cli
