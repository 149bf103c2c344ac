#include "services/cli/commands/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/domain/text.h"
#include "services/cli/commands/console.h"
#include "services/cli/commands/context.h"
#include "services/cli/core/exit_code.h"
#include "services/cli/core/paths.h"
#include "services/cli/core/text.h"
#include "services/cli/launch/interrupt.h"
#include "services/cli/rpc/channel.h"

namespace kernelcast::cli {
namespace {

// Width of help written to a file or a pager.
constexpr int kHelpWidth = 100;

// Opens standard streams that the caller has closed, so that no other file gets their numbers.
// Writing to standard output then fails.
void OpenMissingStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// The command that the command line chose, such as `lessons learn`, or the program itself.
const CLI::App& ChosenCommand(const CLI::App& app) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  return *chosen;
}

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// The options that `word` may stand for: those that continue it, or else the nearest one.
std::vector<std::string> OptionsLike(const std::string& word,
                                     const std::vector<std::string>& options) {
  std::vector<std::string> like;
  for (const std::string& option : options) {
    if (option.rfind(word, 0) == 0) like.push_back(option);
  }
  if (!like.empty()) return like;
  std::string near = NearestWord(word, options);
  if (!near.empty()) like.push_back(std::move(near));
  return like;
}

// Explains a command line that does not parse: an option that the command does not have,
// if there is one, or else the parser's message.
std::string Mistake(const CLI::App& command, const std::vector<std::string>& arguments,
                    const CLI::ParseError& error) {
  const std::vector<std::string> options = OptionNames(command);
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    const std::string word = argument.substr(0, argument.find('='));
    if (word.rfind("--", 0) != 0 || std::ranges::find(options, word) != options.end()) continue;
    const std::vector<std::string> like = OptionsLike(word, options);
    return absl::StrCat(
        "no option ", Quoted(word),
        like.empty() ? std::string() : absl::StrCat("; did you mean ", WordList(like, "or"), "?"));
  }
  return error.what();
}

// `help` is `--help`, and `help COMMAND` is `COMMAND --help`.
std::vector<std::string> ArgumentsOf(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  return arguments;
}

ExitCode RunIn(Console& console, const Interrupt& interrupt, int argc, char** argv) {
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
  AddSuiteCommand(app, context);
  AddCompareCommand(app, context);
  AddUpCommand(app, context);
  AddRecordCommands(app, context);
  AddExportCommand(app, context);
  AddEvalCommand(app, context);
  AddTrainCommand(app, context);
  AddLessonsCommand(app, context);
  AddWorkerCommands(app, context);
  AddProblemsCommand(app, context);
  AddMcpCommand(app, context);
  AddTokenCommand(app, context);
  AddDoctorCommand(app, context);
  AddCompletionCommand(app, context);

  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
  }
  const std::vector<std::string> arguments = ArgumentsOf(argc, argv);
  if (!arguments.empty() && arguments.front().rfind('-', 0) != 0 &&
      std::ranges::find(commands, arguments.front()) == commands.end()) {
    const std::string near = NearestWord(arguments.front(), commands);
    console.Error(absl::InvalidArgumentError(
        absl::StrCat("no command ", Quoted(arguments.front()), "; ",
                     near.empty() ? absl::StrCat("there are: ", CommaList(commands))
                                  : absl::StrCat("did you mean '", near, "'?"))));
    return ExitCode::kUsage;
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp& e) {
    std::ostringstream help;
    app.exit(e, help, help);
    console.Out(WrapHelp(help.str(), app.get_formatter()->get_column_width(),
                         console.width() > 0 ? console.width() : kHelpWidth));
    return ExitCode::kOk;
  } catch (const CLI::CallForVersion& e) {
    console.Out(absl::StrCat(e.what(), "\n"));
    return ExitCode::kOk;
  } catch (const CLI::ParseError& e) {
    const CLI::App& command = ChosenCommand(app);
    std::string names;
    for (const CLI::App* at = &command; at != &app; at = at->get_parent()) {
      names = absl::StrCat(" ", at->get_name(), names);
    }
    console.Error(absl::InvalidArgumentError(absl::StrCat(
        Mistake(command, arguments, e), "\nRun kernelcast", names, " --help for more.")));
    return ExitCode::kUsage;
  }

  const absl::StatusOr<ExitCode> result = context.chosen();
  console.Draw({});
  if (result.ok()) return *result;
  const bool interrupted = interrupt.requested();
  console.Error(interrupted && absl::IsCancelled(result.status())
                    ? absl::CancelledError("interrupted")
                    : result.status());
  return interrupted ? ExitCode::kInterrupted : ExitCodeFor(result.status());
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  OpenMissingStreams();
  const Interrupt interrupt(CancelCalls);
  SetLogService("cli");
  Console console;
  ExitCode code = RunIn(console, interrupt, argc, argv);
  const absl::Status written = console.output_status();
  if (!written.ok() && (code == ExitCode::kOk || code == ExitCode::kNegative)) {
    console.Error(written);
    code = ExitCodeFor(written);
  }
  return static_cast<int>(code);
}

}  // namespace kernelcast::cli
