#include "services/cli/commands/context.h"

#include <cmath>
#include <cstdlib>
#include <utility>

namespace kernelcast::cli {

CLI::App* AddCommand(CLI::App& app, Context& context, const std::string& name,
                     const std::string& description,
                     std::function<absl::StatusOr<ExitCode>()> run) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag_function(
      "--json", [&context](int64_t) { context.console.set_json(true); },
      "Print JSON, and nothing else, on standard output");
  command->add_flag_function(
      "-q,--quiet", [&context](int64_t) { context.console.set_quiet(true); }, "Print no progress");
  command->footer(ExitCodeHelp());
  command->callback([&context, run = std::move(run)] { context.chosen = run; });
  return command;
}

CLI::Validator NotNegative() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (end != text.c_str() && *end == '\0' && value >= 0 && std::isfinite(value)) return "";
        return "'" + OneLine(text) + "' is not a number from 0 on";
      },
      "");
}

}  // namespace kernelcast::cli
