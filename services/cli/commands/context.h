#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_CONTEXT_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_CONTEXT_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/cli/commands/console.h"
#include "services/cli/core/exit_code.h"
#include "services/cli/core/paths.h"
#include "services/cli/launch/interrupt.h"

namespace kernelcast::cli {

// State shared by all commands. Outlives them.
struct Context {
  Console& console;
  const Interrupt& interrupt;
  Environment environment;
  std::string program_folder;
  // The command chosen on the command line.
  std::function<absl::StatusOr<ExitCode>()> chosen;
  // Folders or files of the problems that --problem names, by the problem's name.
  std::map<std::string, std::string> named_problems = {};
};

// CANCELLED: the user has interrupted the command.
[[nodiscard]] absl::Status CheckInterrupt(const Context& context);

// Adds a subcommand with the flags that all commands have (--json, --quiet). `run` implements it.
CLI::App* AddCommand(CLI::App& app, Context& context, const std::string& name,
                     const std::string& description, std::function<absl::StatusOr<ExitCode>()> run);

// One function per command. Flags live in a shared pointer held by the command's function.
void AddUpCommand(CLI::App& app, Context& context);
void AddSearchCommands(CLI::App& app, Context& context);  // search, watch
void AddBestCommand(CLI::App& app, Context& context);
void AddEvaluateCommand(CLI::App& app, Context& context);
void AddSuiteCommand(CLI::App& app, Context& context);
void AddCompareCommand(CLI::App& app, Context& context);
void AddWorkerCommands(CLI::App& app, Context& context);  // compile, measure, forecast
void AddEvalCommand(CLI::App& app, Context& context);
void AddExportCommand(CLI::App& app, Context& context);
void AddTrainCommand(CLI::App& app, Context& context);
void AddRecordCommands(CLI::App& app, Context& context);  // report, searches, stop
void AddLessonsCommand(CLI::App& app, Context& context);
void AddProblemsCommand(CLI::App& app, Context& context);
void AddMcpCommand(CLI::App& app, Context& context);
void AddTokenCommand(CLI::App& app, Context& context);
void AddDoctorCommand(CLI::App& app, Context& context);
void AddCompletionCommand(CLI::App& app, Context& context);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_CONTEXT_H_
