#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_QUESTION_FILES_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_QUESTION_FILES_H_

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernelcast/v1/forecaster.pb.h"
#include "services/cli/commands/context.h"
#include "services/cli/core/paper_rows.h"
#include "services/cli/core/paths.h"

namespace kernelcast::cli {

// A labelled pair from published rows: evaluation rows, training rows or discovery pairs.
struct Comparison {
  EvaluationRow row;
  std::string pair_type;                   // training rows only
  std::optional<TrainingDetails> details;  // as in TrainingRow
};

// Reads the pairs of all files and skips rows of other formats. INVALID_ARGUMENT: as ReadJsonLines.
[[nodiscard]] absl::StatusOr<std::vector<Comparison>> ReadComparisons(
    const std::vector<std::string>& files);

// The scheme that a question about the row shows: `chosen`, else the row's, else the published
// formula.
std::string SchemeOfQuestion(const EvaluationRow& row, const std::string& chosen);

// Questions for the forecaster's program, which asks or renders them without serving.
class QuestionFile {
 public:
  // PERMISSION_DENIED: there is no room for temporary files.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<QuestionFile>> Create(const Context& context);
  // Removes the files.
  ~QuestionFile();
  QuestionFile(const QuestionFile&) = delete;
  QuestionFile& operator=(const QuestionFile&) = delete;

  // A pair, as the problem that its pack names, if that is found.
  void AddPair(const EvaluationRow& row, const std::string& scheme);
  // A request about the problem with this name. False, and not added: it is not found in exactly
  // the version of the candidate.
  bool AddRequest(const std::string& id, const std::string& problem_name,
                  const v1::ForecastRequest& request);
  size_t size() const { return questions_; }

  // Runs the program with `arguments` and `mode`, "--ask" or "--render". Calls `on_line` with each
  // line of its output when it is complete. Errors of `on_line` and of RunForecasterProgram.
  using OnLine = std::function<absl::Status(const RowJson& line)>;
  [[nodiscard]] absl::Status Run(const std::string& program_folder, const std::string& mode,
                                 const std::vector<std::string>& arguments, const OnLine& on_line);

 private:
  explicit QuestionFile(const Context& context) : context_(context) {}
  // The id of a problem by its name, after its line has been written; empty: not found.
  const std::string& ProblemId(const std::string& name);
  void WriteLine(const std::string& line);

  const Context& context_;
  std::unique_ptr<ScratchFolder> folder_;
  std::FILE* file_ = nullptr;
  bool written_ = true;
  size_t questions_ = 0;
  std::map<std::string, std::string> problems_;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_QUESTION_FILES_H_
