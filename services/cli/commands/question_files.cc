#include "services/cli/commands/question_files.h"

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "common/domain/bins.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/core/row_outcomes.h"
#include "services/cli/launch/forecaster_program.h"

namespace kernelcast::cli {
namespace {

constexpr const char* kQuestions = "/questions.jsonl";
constexpr const char* kOutput = "/output.jsonl";

// Reads the complete lines that another process appends to a file.
class LineTail {
 public:
  explicit LineTail(std::string path) : path_(std::move(path)) {}

  absl::Status Read(const QuestionFile::OnLine& on_line) {
    if (!file_.is_open()) file_.open(path_, std::ios::binary);
    if (!file_.is_open()) return absl::OkStatus();
    file_.clear();
    char buffer[1 << 16];
    while (file_.read(buffer, sizeof(buffer)), file_.gcount() > 0) {
      rest_.append(buffer, static_cast<size_t>(file_.gcount()));
    }
    size_t start = 0;
    for (size_t end; (end = rest_.find('\n', start)) != std::string::npos; start = end + 1) {
      const RowJson line = ParseBoundedJson<RowJson>(rest_.substr(start, end - start));
      if (!line.is_object()) return absl::InternalError("the forecaster wrote a malformed line");
      KC_RETURN_IF_ERROR(on_line(line));
    }
    rest_.erase(0, start);
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  std::ifstream file_;
  std::string rest_;  // the beginning of a line
};

}  // namespace

absl::StatusOr<std::vector<Comparison>> ReadComparisons(const std::vector<std::string>& files) {
  std::vector<Comparison> comparisons;
  for (const std::string& file : files) {
    std::optional<RowFormat> format;
    const auto read_line = [&](const RowJson& json, const std::string&) -> absl::Status {
      if (!format.has_value()) {
        KC_ASSIGN_OR_RETURN(format, DetectFormat(json));
      }
      if (*format == RowFormat::kEvaluationRows) {
        KC_ASSIGN_OR_RETURN(EvaluationRow row, EvaluationRowFromJson(json));
        comparisons.push_back({std::move(row), "", std::nullopt});
      } else if (*format == RowFormat::kTrainingRows) {
        KC_ASSIGN_OR_RETURN(TrainingRow row, TrainingRowFromJson(json));
        std::string type(Name(row.pair_type));
        std::optional<TrainingDetails> details = row.details;
        comparisons.push_back({AsComparison(std::move(row)), std::move(type), std::move(details)});
      } else if (*format == RowFormat::kDiscoveryPairs) {
        KC_ASSIGN_OR_RETURN(DiscoveryPair pair, DiscoveryPairFromJson(json));
        comparisons.push_back({AsComparison(std::move(pair)), "", std::nullopt});
      }
      return absl::OkStatus();
    };
    KC_RETURN_IF_ERROR(ReadJsonLines(file, read_line));
  }
  return comparisons;
}

std::string SchemeOfQuestion(const EvaluationRow& row, const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  return row.bin_scheme_id.empty() ? std::string(BinScheme::kPaperFormulaId) : row.bin_scheme_id;
}

absl::StatusOr<std::unique_ptr<QuestionFile>> QuestionFile::Create(const Context& context) {
  auto created = std::unique_ptr<QuestionFile>(new QuestionFile(context));
  KC_ASSIGN_OR_RETURN(created->folder_, ScratchFolder::Make());
  const std::string& folder = created->folder_->path();
  created->file_ = std::fopen((folder + kQuestions).c_str(), "we");
  if (created->file_ == nullptr) {
    return absl::PermissionDeniedError(absl::StrCat("cannot write ", folder, kQuestions));
  }
  return created;
}

QuestionFile::~QuestionFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void QuestionFile::WriteLine(const std::string& line) {
  written_ = written_ && std::fwrite(line.data(), 1, line.size(), file_) == line.size() &&
             std::fputc('\n', file_) != EOF;
}

const std::string& QuestionFile::ProblemId(const std::string& name) {
  const auto [found, added] = problems_.emplace(name, "");
  if (!added || name.empty()) return found->second;
  const absl::StatusOr<LoadedProblem> loaded = LoadProblem(context_, name);
  if (!loaded.ok()) return found->second;
  WriteLine(absl::StrCat("{\"problem\":", ProtoToJson(ProblemFilesToProto(loaded->problem)), "}"));
  found->second = loaded->problem.problem_id;
  return found->second;
}

void QuestionFile::AddPair(const EvaluationRow& row, const std::string& scheme) {
  const std::string& problem_id = ProblemId(row.pack);
  WriteLine(JsonLine({{"id", row.comparison_id},
                      {"pair",
                       {{"pack", row.pack},
                        {"anchor_code", row.anchor_code},
                        {"candidate_code", row.candidate_code},
                        {"hardware", row.hardware},
                        {"bin_scheme_id", scheme},
                        {"problem_id", problem_id}}}}));
  ++questions_;
}

bool QuestionFile::AddRequest(const std::string& id, const std::string& problem_name,
                              const v1::ForecastRequest& request) {
  if (ProblemId(problem_name) != request.candidate().problem_id()) return false;
  WriteLine(absl::StrCat("{\"id\":", JsonLine(id), ",\"request\":", ProtoToJson(request), "}"));
  ++questions_;
  return true;
}

absl::Status QuestionFile::Run(const std::string& program_folder, const std::string& mode,
                               const std::vector<std::string>& arguments, const OnLine& on_line) {
  written_ = std::fclose(file_) == 0 && written_;
  file_ = nullptr;
  if (!written_)
    return absl::ResourceExhaustedError(absl::StrCat("cannot write to ", folder_->path()));
  std::vector<std::string> all = {mode,
                                  folder_->path() + kQuestions,
                                  "--question-output",
                                  folder_->path() + kOutput,
                                  "--log-level",
                                  "error"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  LineTail tail(folder_->path() + kOutput);
  absl::Status read;
  const absl::StatusOr<std::string> ran =
      RunForecasterProgram(program_folder, all, context_.interrupt, [&] {
        read = tail.Read(on_line);
        return read.ok();
      });
  KC_RETURN_IF_ERROR(read);
  KC_RETURN_IF_ERROR(tail.Read(on_line));
  return ran.status();
}

}  // namespace kernelcast::cli
