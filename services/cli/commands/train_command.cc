#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "services/cli/commands/context.h"
#include "services/cli/core/paths.h"
#include "services/cli/launch/forecaster_program.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

struct TrainFlags {
  std::vector<std::string> folders;
  std::string problems = "examples/problems";
  std::string output;
  std::string service_dir;
  uint64_t seed = 1;
};

absl::StatusOr<ExitCode> RunTrain(Context& context, const TrainFlags& flags) {
  std::vector<std::string> arguments;
  std::error_code error;
  for (const std::string& folder : flags.folders) {
    if (!fs::is_directory(folder, error)) {
      return absl::NotFoundError(absl::StrCat("there is no folder '", folder, "'"));
    }
    arguments.insert(arguments.end(), {"--train", folder});
  }
  if (!fs::is_directory(flags.problems, error)) {
    return absl::NotFoundError(absl::StrCat("--problems: there is no folder '", flags.problems,
                                            "'; it holds the problems that were measured"));
  }
  // Before the training, so that a file that cannot be written is reported at once.
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> output, OutputFile::Open(flags.output));
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<ScratchFolder> folder, ScratchFolder::Make());
  const std::string trained = folder->path() + "/prior.json";
  arguments.insert(arguments.end(), {"--train-problems", flags.problems, "--train-output", trained,
                                     "--seed", std::to_string(flags.seed)});
  const std::string program_folder =
      flags.service_dir.empty() ? context.program_folder : flags.service_dir;
  KC_ASSIGN_OR_RETURN(std::string text,
                      RunForecasterProgram(program_folder, arguments, context.interrupt));
  KC_ASSIGN_OR_RETURN(const std::string content, ReadFile(trained));
  KC_RETURN_IF_ERROR(output->Write(content));
  KC_RETURN_IF_ERROR(output->Commit());
  // "FILE: prior/..., 12345 bytes, from ..."
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.rfind(trained, 0) == 0) text = flags.output + text.substr(trained.size());
  if (flags.output == "-") {
    context.console.Note(text);
    return ExitCode::kOk;
  }
  context.console.Out(text + "\n");
  context.console.Line({{"output", flags.output}, {"printed", text}});
  return ExitCode::kOk;
}

}  // namespace

void AddTrainCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* train = AddCommand(
      app, context, "train",
      "Train the model that the forecaster starts from (--prior) on measured spaces; the same "
      "records and seed give the same bytes",
      [&context, flags] { return RunTrain(context, *flags); });
  train
      ->add_option("DIR", flags->folders,
                   "Folders of PROBLEM.jsonl or PROBLEM.jsonl.gz from kernelcast export")
      ->required();
  train->add_option("--problems", flags->problems, "Folder of the problems that were measured")
      ->capture_default_str()
      ->type_name("DIR");
  train->add_option("-o,--output", flags->output, "Output file for the model; - is standard output")
      ->required()
      ->type_name("FILE.json");
  train->add_option("--seed", flags->seed, "Seed of the training")
      ->check(WholeNumberFrom(0))
      ->capture_default_str();
  train
      ->add_option("--service-dir", flags->service_dir,
                   "Folder of kernelcast-forecaster [this program's folder]")
      ->type_name("DIR");
}

}  // namespace kernelcast::cli
