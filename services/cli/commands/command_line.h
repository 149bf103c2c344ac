#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_COMMAND_LINE_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_COMMAND_LINE_H_

namespace kernelcast::cli {

// Runs the program `kernelcast`: parses the command line, runs the command and returns the exit
// code. Prints help, results and errors itself. For main().
int RunCommandLine(int argc, char** argv);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_COMMAND_LINE_H_
