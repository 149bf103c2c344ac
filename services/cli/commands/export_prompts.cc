#include "services/cli/commands/export_prompts.h"

#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/convert_forecaster.h"
#include "common/domain/bins.h"
#include "services/cli/core/row_outcomes.h"
#include "services/cli/report/analysis.h"

namespace kernelcast::cli {
namespace {

// The fields of a line about the label.
absl::StatusOr<RowJson> TargetOf(const Comparison& comparison, const std::string& scheme_id) {
  const EvaluationRow& row = comparison.row;
  KC_ASSIGN_OR_RETURN(const BinScheme* scheme, BinScheme::Find(scheme_id));
  int bin = row.true_bin;
  if (scheme_id != SchemeOfQuestion(row, "")) {
    KC_ASSIGN_OR_RETURN(bin, scheme->Label(row.aggregated_speedup));
  }
  RowJson target = {{"group_id", row.comparison_id},
                    {"pack", row.pack},
                    {"hardware", row.hardware},
                    {"pair_type", comparison.pair_type.empty() ? RowJson(nullptr)
                                                               : RowJson(comparison.pair_type)},
                    {"bin_scheme_id", scheme_id},
                    {"target_bin", bin},
                    {"speedup", row.aggregated_speedup}};
  if (comparison.details.has_value()) {
    const TrainingDetails& details = *comparison.details;
    KC_ASSIGN_OR_RETURN(const int low_bin, scheme->Label(details.speedup_low));
    KC_ASSIGN_OR_RETURN(const int high_bin, scheme->Label(details.speedup_high));
    target["speedup_low"] = details.speedup_low;
    target["speedup_high"] = details.speedup_high;
    target["speedup_confidence"] = details.confidence;
    target["low_bin"] = low_bin;
    target["high_bin"] = high_bin;
    target["provenance"] = details.provenance;
  } else {
    target["provenance"] = {{"source_id", row.origin.source_id},
                            {"source_search", row.origin.source_search},
                            {"internal_experiment", row.origin.internal_experiment}};
  }
  if (row.propensity.has_value()) target["propensity"] = *row.propensity;
  return target;
}

absl::StatusOr<PromptCounts> Render(const PromptExport& options, QuestionFile& questions,
                                    std::map<std::string, RowJson> targets, const WriteRow& write) {
  PromptCounts counts;
  const auto on_line = [&](const RowJson& line) -> absl::Status {
    const auto target = targets.find(line.value("id", ""));
    if (target == targets.end()) return absl::InternalError("a prompt of another question");
    if (line.contains("error")) {
      ++counts.too_long;
      return absl::OkStatus();
    }
    RowJson row = {{"prompt_version", line["prompt_version"]},
                   {"prompt_hash", options.listed.hash},
                   {"answer_schema_hash", options.listed.answer_schema_hash},
                   {"messages", line["messages"]}};
    for (const char* field : {"response_format", "tools", "tool_choice"}) {
      if (line.contains(field)) row[field] = line[field];
    }
    for (const auto& [field, value] : target->second.items()) row[field] = value;
    ++counts.prompts;
    return write(row);
  };
  if (questions.size() == 0) return counts;
  KC_RETURN_IF_ERROR(
      questions.Run(options.program_folder, "--render", options.prompt.Arguments(), on_line));
  return counts;
}

// The record's candidate with its source, which the record may lack.
Candidate WithSource(const RecordToExport& record, const std::string& source) {
  Candidate candidate = record.candidate.candidate;
  candidate.source = source;
  return candidate;
}

v1::ForecastRequest RequestOf(const TrainingRow& row, const TrainingRows::Origin& origin) {
  v1::ForecastRequest request;
  const ReportCandidate& candidate = origin.record->candidate;
  *request.mutable_candidate() = ToProto(WithSource(*origin.record, row.candidate_code));
  *request.mutable_facts() = ToProto(candidate.facts);
  *request.mutable_reference_facts() = ToProto(candidate.reference_facts);
  *request.mutable_device() = ToProto(candidate.measurement->device);
  request.set_bin_scheme_id(row.details->bin_scheme_id);
  if (origin.anchor == nullptr) return request;
  AnchorKernel anchor;
  anchor.candidate = WithSource(*origin.anchor, row.anchor_code);
  anchor.facts = origin.anchor->candidate.facts;
  const auto& ok = std::get<MeasuredOk>(origin.anchor->candidate.measurement->outcome);
  anchor.speedup = ok.speedup;
  for (const ShapeTiming& shape : ok.shapes) {
    anchor.times.push_back({shape.shape, shape.candidate.median_ns});
  }
  *request.mutable_anchor() = ToProto(anchor);
  return request;
}

}  // namespace

absl::StatusOr<PromptCounts> ExportPrompts(const Context& context, const PromptExport& options,
                                           const std::vector<Comparison>& comparisons,
                                           const WriteRow& write) {
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<QuestionFile> questions, QuestionFile::Create(context));
  std::map<std::string, RowJson> targets;
  for (const Comparison& comparison : comparisons) {
    const std::string scheme = SchemeOfQuestion(comparison.row, options.bin_scheme);
    KC_ASSIGN_OR_RETURN(RowJson target, TargetOf(comparison, scheme));
    if (!targets.emplace(comparison.row.comparison_id, std::move(target)).second) continue;
    questions->AddPair(comparison.row, scheme);
  }
  return Render(options, *questions, std::move(targets), write);
}

absl::StatusOr<PromptCounts> ExportPrompts(const Context& context, const PromptExport& options,
                                           const TrainingRows& rows, const WriteRow& write) {
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<QuestionFile> questions, QuestionFile::Create(context));
  std::map<std::string, RowJson> targets;
  uint64_t without_problem = 0;
  for (const TrainingRow& row : rows.rows) {
    const TrainingRows::Origin& origin = rows.origins.at(row.row_id);
    if (targets.count(row.row_id) > 0) continue;
    if (!questions->AddRequest(row.row_id, row.pack, RequestOf(row, origin))) {
      ++without_problem;
      continue;
    }
    const Comparison comparison = {AsComparison(row), std::string(Name(row.pair_type)),
                                   row.details};
    KC_ASSIGN_OR_RETURN(targets[row.row_id], TargetOf(comparison, row.details->bin_scheme_id));
  }
  KC_ASSIGN_OR_RETURN(PromptCounts counts, Render(options, *questions, std::move(targets), write));
  counts.without_problem = without_problem;
  return counts;
}

}  // namespace kernelcast::cli
