// mcp: the server for coding agents, which is a program of the Python package.

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"
#include "services/cli/commands/context.h"

namespace kernelcast::cli {
namespace {

// Replaces this process. Returns only if that fails.
absl::Status ExecuteServer(const Context& context, std::vector<std::string> arguments) {
  const char* const named = std::getenv("KERNELCAST_PYTHON");
  std::string python = named != nullptr ? named : EnvironmentPython(context.program_folder);
  if (python.empty()) python = "python3";
  arguments.insert(arguments.begin(), {python, "-m", "kernelcast.mcp"});
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // The package starts services with the programs of this installation.
  setenv("KERNELCAST_BUNDLE", context.program_folder.c_str(), /*overwrite=*/0);
  execvp(python.c_str(), argv.data());
  return absl::UnavailableError(absl::StrCat("cannot run the Python interpreter ", Quoted(python),
                                             ": ", strerror(errno),
                                             "; KERNELCAST_PYTHON names another one"));
}

}  // namespace

void AddMcpCommand(CLI::App& app, Context& context) {
  CLI::App* mcp = app.add_subcommand(
      "mcp", "Serve tools to coding agents by the Model Context Protocol (Python package)");
  // The server has the options, and --help.
  mcp->set_help_flag();
  mcp->allow_extras();
  mcp->prefix_command();
  mcp->callback([&context, mcp] {
    context.chosen = [&context, mcp]() -> absl::StatusOr<ExitCode> {
      return ExecuteServer(context, mcp->remaining());
    };
  });
}

}  // namespace kernelcast::cli
