#include "services/cli/commands/ask_model.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "kernelcast/v1/kernel.pb.h"
#include "services/cli/commands/question_files.h"
#include "services/cli/core/text.h"
#include "services/cli/report/row_export.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kModelsTimeoutNs = 5'000'000'000;

// Returns an answer's surrogate_label: the models, the prompt, and the number of pooled samples.
absl::StatusOr<std::string> LabelOf(const AskFlags& flags, const std::string& prompt_version) {
  KC_ASSIGN_OR_RETURN(const llm::LlmConfig config,
                      llm::ConfigFromFlags(flags.llm, kModelsTimeoutNs));
  std::set<std::string> models;
  for (const llm::EndpointConfig& endpoint : config.endpoints) models.insert(endpoint.model);
  std::string label = absl::StrCat(absl::StrJoin(models, "+"), " ", prompt_version);
  if (flags.samples > 1) absl::StrAppend(&label, " x", flags.samples);
  return label;
}

// The file of answers. A line that a killed run left incomplete is removed.
class PredictionFile {
 public:
  static absl::StatusOr<std::unique_ptr<PredictionFile>> Open(const std::string& path) {
    std::error_code error;
    if (fs::exists(path, error)) KC_RETURN_IF_ERROR(DropPartialLine(path));
    auto file = std::unique_ptr<PredictionFile>(new PredictionFile(path));
    file->file_ = std::fopen(path.c_str(), "ae");
    if (file->file_ == nullptr) return file->Refused();
    return file;
  }
  ~PredictionFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  PredictionFile(const PredictionFile&) = delete;
  PredictionFile& operator=(const PredictionFile&) = delete;

  // The comparisons with an answer of the surrogate.
  absl::StatusOr<std::set<std::string>> AnsweredBy(const std::string& label) const {
    std::set<std::string> answered;
    KC_RETURN_IF_ERROR(ReadJsonLines(path_, [&](const RowJson& json, const std::string&) {
      absl::StatusOr<PredictionRow> row = PredictionRowFromJson(json);
      if (!row.ok()) return row.status();
      if (row->surrogate_label == label) answered.insert(row->comparison_id);
      return absl::OkStatus();
    }));
    return answered;
  }
  // The row is in the file when this returns.
  absl::Status Append(const PredictionRow& row) {
    const std::string line = JsonLine(ToJson(row)) + "\n";
    const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size();
    return written && std::fflush(file_) == 0 ? absl::OkStatus()
                                              : absl::ResourceExhaustedError(Refused().message());
  }

 private:
  explicit PredictionFile(std::string path) : path_(std::move(path)) {}
  absl::Status Refused() const {
    return absl::PermissionDeniedError(absl::StrCat("--predictions: cannot write ", path_));
  }
  static absl::Status DropPartialLine(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    uintmax_t complete = 0;
    uintmax_t at = 0;
    char buffer[1 << 16];
    while (file.read(buffer, sizeof(buffer)), file.gcount() > 0) {
      for (std::streamsize i = 0; i < file.gcount(); ++i) {
        ++at;
        if (buffer[i] == '\n') complete = at;
      }
    }
    std::error_code error;
    if (complete < at) fs::resize_file(path, complete, error);
    return error ? absl::PermissionDeniedError(absl::StrCat("--predictions: cannot write ", path))
                 : absl::OkStatus();
  }

  const std::string path_;
  std::FILE* file_ = nullptr;
};

// The row of an answer. NOT_FOUND: there is none; the message is the reason.
absl::StatusOr<PredictionRow> RowOfAnswer(const RowJson& line) {
  if (line.contains("forecast")) {
    v1::Forecast forecast;
    KC_RETURN_IF_ERROR(ProtoFromJson(line["forecast"].dump(), &forecast));
    PredictionRow row = PredictionRowOf(FromProto(forecast));
    row.cost_dollars = forecast.token_usage().cost_dollars();
    return row;
  }
  v1::Abstention proto;
  KC_RETURN_IF_ERROR(ProtoFromJson(line.value("abstention", RowJson::object()).dump(), &proto));
  KC_ASSIGN_OR_RETURN(const Abstention abstention, FromProto(proto));
  PredictionRow row;
  switch (abstention.cause) {
    case Abstention::Cause::kModelDeferred:
      row.abstained = true;
      row.reasoning = abstention.reason;
      break;
    case Abstention::Cause::kUnparsable:
      row.parse_failed = true;
      row.parse_error = abstention.reason;
      break;
    default: return absl::NotFoundError(abstention.reason);
  }
  const v1::TokenUsage& usage = proto.model().token_usage();
  row.input_tokens = static_cast<int64_t>(usage.input_tokens());
  row.output_tokens = static_cast<int64_t>(usage.output_tokens());
  row.cost_dollars = usage.cost_dollars();
  return row;
}

std::vector<std::string> ForecasterArguments(const AskFlags& flags) {
  std::vector<std::string> arguments = llm::LlmArguments(flags.llm);
  const std::vector<std::string> prompt = flags.prompt.Arguments();
  arguments.insert(arguments.end(), prompt.begin(), prompt.end());
  arguments.insert(arguments.end(), {"--llm-samples", std::to_string(flags.samples)});
  return arguments;
}

absl::Status AskPrompt(Context& context, const AskFlags& flags,
                       const std::vector<Comparison>& comparisons, const std::string& bin_scheme) {
  const std::string& folder =
      flags.service_dir.empty() ? context.program_folder : flags.service_dir;
  KC_ASSIGN_OR_RETURN(const ListedPrompt prompt, FindPrompt(context, folder, flags.prompt));
  KC_ASSIGN_OR_RETURN(const std::string label, LabelOf(flags, prompt.version));
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<PredictionFile> predictions,
                      PredictionFile::Open(flags.predictions));
  KC_ASSIGN_OR_RETURN(const std::set<std::string> answered, predictions->AnsweredBy(label));
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<QuestionFile> questions, QuestionFile::Create(context));
  std::map<std::string, std::pair<std::string, std::string>> asked;  // id to pack and scheme
  for (const Comparison& comparison : comparisons) {
    const EvaluationRow& row = comparison.row;
    const std::string scheme = SchemeOfQuestion(row, bin_scheme);
    if (answered.count(row.comparison_id) > 0 ||
        !asked.emplace(row.comparison_id, std::make_pair(row.pack, scheme)).second) {
      continue;
    }
    questions->AddPair(row, scheme);
  }
  Console& console = context.console;
  console.Note(absl::StrCat("asking ", label, " ", FormatCount(questions->size()), " questions; ",
                            FormatCount(answered.size()), " are answered"));
  if (questions->size() == 0) return absl::OkStatus();
  uint64_t unanswered = 0;
  std::string first_reason;
  const auto on_line = [&](const RowJson& line) -> absl::Status {
    const auto found = asked.find(line.value("id", ""));
    if (found == asked.end()) return absl::InternalError("an answer to another question");
    absl::StatusOr<PredictionRow> row = RowOfAnswer(line);
    if (absl::IsNotFound(row.status())) {
      if (unanswered++ == 0) first_reason = std::string(row.status().message());
      return absl::OkStatus();
    }
    KC_RETURN_IF_ERROR(row.status());
    row->comparison_id = found->first;
    std::tie(row->pack, row->bin_scheme_id) = found->second;
    row->surrogate_label = label;
    return predictions->Append(*row);
  };
  KC_RETURN_IF_ERROR(questions->Run(folder, "--ask", ForecasterArguments(flags), on_line));
  if (unanswered > 0) {
    console.Warn(absl::StrCat(FormatCount(unanswered),
                              " questions have no answer; the same command asks them again. The "
                              "first: ",
                              OneLine(first_reason)));
  }
  return absl::OkStatus();
}

}  // namespace

void AddAskFlags(CLI::App& app, AskFlags& flags) {
  llm::AddLlmFlags(app, flags.llm);
  auto* predictions =
      app.add_option("--predictions", flags.predictions,
                     "With --llm: append the model's answers to this file, as prediction rows, and "
                     "ask only what has no answer there")
          ->type_name("FILE.jsonl");
  app.get_option("--llm")->needs(predictions);
  app.get_option("--llm-config")->needs(predictions);
  app.add_option("--prompt", flags.prompts,
                 "With --llm: prompt for the model; may be repeated, and each is a surrogate; "
                 "forced-bins/1 offers no abstention")
      ->allow_extra_args(false)
      ->type_name("VERSION");
  AddPromptDirectoryFlag(app, flags.prompt);
  app.add_option("--llm-samples", flags.samples,
                 "With --llm: number of answers per question, which are pooled")
      ->check(WholeNumberFrom(1, 64))
      ->type_name("K");
  app.add_option("--service-dir", flags.service_dir,
                 "Folder of kernelcast-forecaster, which asks the model [this program's folder]")
      ->type_name("DIR");
}

absl::Status AskModel(Context& context, const AskFlags& flags,
                      const std::vector<std::string>& files, const std::string& bin_scheme) {
  KC_ASSIGN_OR_RETURN(const std::vector<Comparison> comparisons, ReadComparisons(files));
  if (comparisons.empty()) {
    return absl::InvalidArgumentError(
        "--llm: the files hold no evaluation rows, training rows or discovery pairs to ask about");
  }
  AskFlags one = flags;
  if (flags.prompts.empty()) return AskPrompt(context, one, comparisons, bin_scheme);
  for (const std::string& prompt : flags.prompts) {
    one.prompt.prompt = prompt;
    KC_RETURN_IF_ERROR(AskPrompt(context, one, comparisons, bin_scheme));
  }
  return absl::OkStatus();
}

}  // namespace kernelcast::cli
