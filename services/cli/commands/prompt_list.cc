#include "services/cli/commands/prompt_list.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/path.h"
#include "common/base/status.h"
#include "services/cli/core/text.h"
#include "services/cli/launch/forecaster_program.h"

namespace kernelcast::cli {

std::vector<std::string> PromptFlags::Arguments() const {
  std::vector<std::string> arguments;
  // "speedup-bins/2@0123abcd", of which the forecaster takes the first part.
  if (!prompt.empty()) {
    arguments.insert(arguments.end(), {"--prompt", prompt.substr(0, prompt.find('@'))});
  }
  if (!directory.empty()) {
    arguments.insert(arguments.end(), {"--prompt-directory", AbsolutePath(directory)});
  }
  return arguments;
}

void AddPromptDirectoryFlag(CLI::App& app, PromptFlags& flags) {
  app.add_option("--prompt-directory", flags.directory,
                 "Folder of a custom prompt, instead of --prompt")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
}

absl::StatusOr<ListedPrompt> FindPrompt(const Context& context, const std::string& program_folder,
                                        const PromptFlags& flags) {
  std::vector<std::string> arguments = {"--list-prompts"};
  if (!flags.directory.empty()) {
    arguments.insert(arguments.end(), {"--prompt-directory", AbsolutePath(flags.directory)});
  }
  KC_ASSIGN_OR_RETURN(const std::string output,
                      RunForecasterProgram(program_folder, arguments, context.interrupt));
  std::vector<std::string> known;
  for (size_t start = 0; start < output.size();) {
    const size_t end = std::min(output.find('\n', start), output.size());
    const Json line = ParseBoundedJson<Json>(output.substr(start, end - start));
    start = end + 1;
    if (!line.is_object() || !line.contains("version")) continue;
    const std::string version = line.value("version", "");
    // "speedup-bins/2@0123abcd", which users give as the first part only.
    const std::string name = version.substr(0, version.find('@'));
    const bool wanted = flags.prompt.empty() || !flags.directory.empty()
                            ? line.value("default", false)
                            : flags.prompt == name || flags.prompt == version;
    if (wanted)
      return ListedPrompt{version, line.value("hash", ""), line.value("answer_schema_hash", "")};
    known.push_back(name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--prompt: '", OneLine(flags.prompt), "' is not one of ", Join(known, ", ")));
}

}  // namespace kernelcast::cli
