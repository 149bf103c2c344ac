// mcp: the server for coding agents, which is a program of the Python package.

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"
#include "services/cli/commands/context.h"

namespace kernelcast::cli {
namespace {

// Runs the server. Where the interpreter lacks the package, says so in place of Python's own
// message.
constexpr std::string_view kStart = R"(
import importlib.util, runpy, sys
try:
    found = importlib.util.find_spec("kernelcast.mcp")
except ImportError:
    found = None
if found is not None:
    runpy.run_module("kernelcast.mcp", run_name="__main__", alter_sys=True)
else:
    missing = f"{sys.executable} does not have the Python package kernelcast"
    if {"-h", "--help"} & set(sys.argv[1:]):
        print("Serve tools to coding agents by the Model Context Protocol\n\nkernelcast mcp TASK... [OPTIONS]\n\n"
              f"The options are those of the package:\n  {missing}.\n"
              "Install it with the extra mcp, or name its interpreter with KERNELCAST_PYTHON.")
        sys.exit(0)
    print(f"kernelcast mcp: {missing}; install it with the extra mcp, or name its interpreter with "
          "KERNELCAST_PYTHON", file=sys.stderr)
    sys.exit(3)
)";

// Replaces this process. Returns only if that fails.
absl::Status ExecuteServer(const Context& context, std::vector<std::string> arguments) {
  const char* const named = std::getenv("KERNELCAST_PYTHON");
  std::string python = named != nullptr ? named : EnvironmentPython(context.program_folder);
  if (python.empty()) python = "python3";
  arguments.insert(arguments.begin(), {python, "-c", std::string(kStart)});
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
