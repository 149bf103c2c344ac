#include "services/worker/native/toolchain.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/process/child_process.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kProbeTimeoutNs = 20'000'000'000;

absl::StatusOr<std::string> Ask(const std::string& compiler, std::vector<std::string> arguments) {
  ChildOptions options;
  options.argv = {compiler};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = CompilerEnvironment("/tmp");
  options.kept_output_bytes = 1 << 20;
  KC_ASSIGN_OR_RETURN(const auto child, ChildProcess::Spawn(options));
  const ChildExit exit = child->Wait(kProbeTimeoutNs);
  if (!exit.exited || exit.exit_code != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(compiler, " failed: ", exit.output.substr(0, 1000)));
  }
  return exit.output;
}

std::string Normal(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::weakly_canonical(path, ignored).string();
}

// Returns the processor name that -march=native stands for, as the driver passes it to the compiler
// proper.
std::string NativeArchitecture(const std::string& output) {
  for (const std::string mark : {" -march=", "\"-target-cpu\" \"", " -target-cpu "}) {
    for (size_t at = output.find(mark); at != std::string::npos; at = output.find(mark, at + 1)) {
      const size_t start = at + mark.size();
      const size_t end = output.find_first_of(" '\"\n", start);
      const std::string name = output.substr(start, end - start);
      if (!name.empty() && name != "native") {
        return name;
      }
    }
  }
  return "native";
}

// Wrappers that would run the compiler elsewhere, or read files of its user.
bool IsWrapper(const std::filesystem::path& program) {
  std::error_code ignored;
  const std::string name = std::filesystem::canonical(program, ignored).filename().string();
  return name == "ccache" || name == "distcc" || name == "icecc" || name == "sccache";
}

std::string SearchPath() {
  const char* const path = getenv("PATH");
  return path != nullptr && *path != '\0' ? path : "/usr/local/bin:/usr/bin:/bin";
}

// Finds a program on PATH and returns its absolute path. Returns `name` if it is not found.
std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return std::filesystem::absolute(name).lexically_normal().string();
  }
  for (const auto folder : absl::StrSplit(SearchPath(), ':', absl::SkipEmpty())) {
    const auto program = std::filesystem::path(std::string(folder)) / name;
    if (program.is_absolute() && access(program.c_str(), X_OK) == 0 && !IsWrapper(program)) {
      return program.string();
    }
  }
  return name;
}

// Folders after "libraries: =" in the output of -print-search-dirs, without links and as named: the
// libraries' own scripts name others by paths such as /lib/x86_64-linux-gnu, where /lib is a link.
std::vector<std::string> LibraryFolders(const std::string& output) {
  constexpr std::string_view kMark = "libraries: =";
  std::vector<std::string> folders;
  const size_t at = output.find(kMark);
  if (at == std::string::npos) return folders;
  const size_t start = at + kMark.size();
  const std::string line = output.substr(start, output.find('\n', start) - start);
  for (const auto folder : absl::StrSplit(line, ':', absl::SkipEmpty())) {
    const std::string path = Normal(std::string(folder));
    std::error_code ignored;
    // Skip system roots: a compiler without a library folder of its own prints "/".
    if (path.size() > 1 && path != "/usr" && std::filesystem::is_directory(path, ignored)) {
      folders.push_back(path);
      std::string named = std::filesystem::path(std::string(folder)).lexically_normal();
      if (named.ends_with('/')) named.pop_back();
      // After a link, ".." leads elsewhere than the name says.
      if (Normal(named) == path) folders.push_back(named);
    }
  }
  return folders;
}

absl::StatusOr<std::string> ProgramOf(const std::string& compiler, const char* program) {
  KC_ASSIGN_OR_RETURN(const std::string answer,
                      Ask(compiler, {absl::StrCat("-print-prog-name=", program)}));
  return FindProgram(answer.substr(0, answer.find('\n')));
}

absl::StatusOr<std::vector<std::string>> ReadOnlyPaths(const Toolchain& toolchain) {
  std::vector<std::string> paths = toolchain.include_directories;
  KC_ASSIGN_OR_RETURN(const std::string folders, Ask(toolchain.compiler, {"-print-search-dirs"}));
  for (std::string& folder : LibraryFolders(folders)) paths.push_back(std::move(folder));
  for (const char* program : {"cc1plus", "collect2", "as", "ld"}) {
    KC_ASSIGN_OR_RETURN(std::string path, ProgramOf(toolchain.compiler, program));
    paths.push_back(std::move(path));
  }
  // Needed to start any program.
  for (const char* path : {"/lib64/ld-linux-x86-64.so.2", "/etc/ld.so.cache"}) {
    paths.emplace_back(path);
  }
  paths.push_back(toolchain.compiler);
  std::erase_if(paths, [](const std::string& path) { return path.empty() || path[0] != '/'; });
  std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

}  // namespace

const std::vector<std::string>& BaseFlags() {
  static const std::vector<std::string> flags = {"-std=c++20", "-fPIC", "-O3", "-march=native"};
  return flags;
}

std::vector<std::string> LinkArguments(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "-shared",        "-fno-lto",     "-fno-use-linker-plugin", "-Wl,-z,defs",
      "-Wl,-z,now",     "-Wl,-z,relro", "-Wl,-z,noexecstack",     "-Wl,-z,text",
      "-Wl,--as-needed"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> CompilerEnvironment(const std::string& temporary_directory) {
  return {absl::StrCat("PATH=", SearchPath()), "LC_ALL=C",
          absl::StrCat("TMPDIR=", temporary_directory)};
}

absl::StatusOr<Toolchain> Toolchain::Probe(const std::string& compiler) {
  Toolchain toolchain;
  toolchain.compiler = FindProgram(compiler);
  if (!toolchain.compiler.starts_with('/')) {
    return absl::NotFoundError(
        absl::StrCat("there is no ", compiler, " on PATH (", SearchPath(), ")",
                     compiler == "g++" ? "; apt-get install g++ brings it" : ""));
  }
  KC_ASSIGN_OR_RETURN(const std::string version, Ask(toolchain.compiler, {"--version"}));
  std::vector<std::string> arguments = BaseFlags();
  for (const char* argument : {"-E", "-dM", "-v", "-x", "c++", "/dev/null"}) {
    arguments.emplace_back(argument);
  }
  KC_ASSIGN_OR_RETURN(const std::string output, Ask(toolchain.compiler, arguments));

  ContentHasher hasher;
  std::vector<std::string> macros;
  bool in_list = false;
  for (const auto line : absl::StrSplit(output, '\n')) {
    const std::string text(line);
    if (text.rfind("#define ", 0) == 0) {
      macros.push_back(text);
    } else if (text.rfind("#include <...>", 0) == 0) {
      in_list = true;
    } else if (text.rfind("End of search list", 0) == 0) {
      in_list = false;
    } else if (in_list && !text.empty() && text[0] == ' ') {
      toolchain.include_directories.push_back(Normal(text.substr(1)));
    }
  }
  std::sort(macros.begin(), macros.end());
  if (std::find(macros.begin(), macros.end(), "#define __x86_64__ 1") == macros.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(compiler, " does not compile for x86-64, which is all that is supported"));
  }
  if (toolchain.include_directories.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(compiler, " -v does not say where its headers are"));
  }
  for (const std::string& macro : macros) {
    hasher.Add(macro);
  }
  const std::string first_line = version.substr(0, version.find('\n'));
  std::string flags;
  for (const std::string& flag : BaseFlags()) {
    absl::StrAppend(&flags, flags.empty() ? "" : " ", flag);
  }
  toolchain.description = absl::StrCat(first_line, "; ", flags, "; ", hasher.Hex128().substr(0, 8));
  toolchain.architecture = absl::StrCat("x86-64/", NativeArchitecture(output));
  // Clang assembles by itself, and writes directives that other assemblers do not know.
  if (version.find("clang") == std::string::npos) {
    KC_ASSIGN_OR_RETURN(toolchain.assembler, ProgramOf(toolchain.compiler, "as"));
    if (!toolchain.assembler.starts_with('/')) toolchain.assembler.clear();
  }
  KC_ASSIGN_OR_RETURN(toolchain.read_only, ReadOnlyPaths(toolchain));
  return toolchain;
}

}  // namespace kernelcast::worker
