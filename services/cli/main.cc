#include <cstdio>
#include <cstring>
#include <exception>

#include "services/cli/commands/command_line.h"
#include "services/cli/core/exit_code.h"
#include "services/cli/launch/local_services.h"

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], kernelcast::cli::kRunServiceCommand) == 0) {
    return kernelcast::cli::RunService(argc - 2, argv + 2);
  }
  try {
    return kernelcast::cli::RunCommandLine(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "kernelcast: internal error: %s\n", e.what());
    return static_cast<int>(kernelcast::cli::ExitCode::kInternal);
  }
}
