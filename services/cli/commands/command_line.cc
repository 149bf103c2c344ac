#include "services/cli/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/domain/text.h"
#include "services/cli/commands/console.h"
#include "services/cli/commands/context.h"
#include "services/cli/core/text.h"
#include "services/cli/launch/interrupt.h"
#include "services/cli/launch/local_services.h"

namespace kernelcast::cli {
namespace {

// Width of help written to a file or a pager.
constexpr int kHelpWidth = 100;

}  // namespace

int RunCommandLine(int argc, char** argv) {
  const Interrupt interrupt;
  SetLogService("cli");
  Console console;
  Context context{console, interrupt, ProcessEnvironment(), ProgramFolder(), nullptr};

  CLI::App app("Forecasts kernel run times and measures only where a forecast is not enough.",
               "kernelcast");
  app.set_version_flag("--version", absl::StrCat("kernelcast ", std::string(Version()), " (",
                                                 std::string(Revision()), ")"));
  app.require_subcommand(1);
  app.footer(
      absl::StrCat("Run kernelcast COMMAND --help for details.\n\nEnvironment:\n"
                   "  KERNELCAST_ORCHESTRATOR  address of a running orchestrator\n"
                   "  KERNELCAST_PROBLEMS      folders of problems, separated by ':'\n"
                   "  KERNELCAST_TOKEN_FILE    file of the token for the services\n"
                   "  NO_COLOR                 no colours, and progress as plain lines\n\n",
                   ExitCodeHelp()));
  AddSearchCommands(app, context);
  AddBestCommand(app, context);
  AddEvaluateCommand(app, context);
  AddUpCommand(app, context);
  AddRecordCommands(app, context);
  AddExportCommand(app, context);
  AddEvalCommand(app, context);
  AddTrainCommand(app, context);
  AddLessonsCommand(app, context);
  AddWorkerCommands(app, context);
  AddProblemsCommand(app, context);
  AddTokenCommand(app, context);
  AddDoctorCommand(app, context);
  AddCompletionCommand(app, context);

  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
  }
  if (argc > 1 && argv[1][0] != '-' &&
      std::find(commands.begin(), commands.end(), argv[1]) == commands.end()) {
    const std::string near = NearestWord(argv[1], commands);
    console.Error(absl::InvalidArgumentError(
        absl::StrCat("no command ", Quoted(argv[1]), "; ",
                     near.empty() ? absl::StrCat("there are: ", CommaList(commands))
                                  : absl::StrCat("did you mean '", near, "'?"))));
    return static_cast<int>(ExitCode::kUsage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    std::ostringstream help;
    app.exit(e, help, help);
    console.Out(WrapHelp(help.str(), app.get_formatter()->get_column_width(),
                         console.width() > 0 ? console.width() : kHelpWidth));
    return static_cast<int>(ExitCode::kOk);
  } catch (const CLI::CallForVersion& e) {
    app.exit(e);
    return static_cast<int>(ExitCode::kOk);
  } catch (const CLI::ParseError& e) {
    const auto parsed = app.get_subcommands();
    const std::string command = parsed.empty() ? "" : " " + parsed.front()->get_name();
    console.Error(absl::InvalidArgumentError(
        absl::StrCat(e.what(), "\nRun kernelcast", command, " --help for more.")));
    return static_cast<int>(ExitCode::kUsage);
  }

  const absl::StatusOr<ExitCode> result = context.chosen();
  console.Draw({});
  if (result.ok()) return static_cast<int>(*result);
  console.Error(result.status());
  if (interrupt.requested()) return static_cast<int>(ExitCode::kInterrupted);
  return static_cast<int>(ExitCodeFor(result.status()));
}

}  // namespace kernelcast::cli
