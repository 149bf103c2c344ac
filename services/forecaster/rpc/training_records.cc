#include "services/forecaster/rpc/training_records.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "common/domain/device_model.h"
#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast::forecaster {
namespace {

namespace fs = std::filesystem;

absl::Status AddRecord(const std::string& line, MeasuredProblem& problem) {
  v1::ExportRecord record;
  KC_RETURN_IF_ERROR(RecordFromJson(line, &record));
  if (!record.evaluation().has_measured()) return absl::OkStatus();
  KC_ASSIGN_OR_RETURN(const Candidate candidate, kernelcast::FromProto(record.candidate()));
  if (problem.target.empty()) problem.target = candidate.target;
  if (candidate.target != problem.target) {
    return absl::InvalidArgumentError("records of more than one target");
  }
  const std::string device_model =
      DeviceModelOrUnknown(record.evaluation().measured().device().model());
  if (problem.device_model.empty()) problem.device_model = device_model;
  if (device_model != problem.device_model) {
    return absl::InvalidArgumentError("records of more than one device model");
  }
  TrainingRow row;
  row.features = MakeFeatures(*problem.context, candidate, kernelcast::FromProto(record.facts()),
                              kernelcast::FromProto(record.reference_facts()), device_model);
  if (record.evaluation().measured().has_ok()) {
    const double speedup = record.evaluation().measured().ok().speedup().value();
    if (!(speedup > 0) || !std::isfinite(speedup)) {
      return absl::InvalidArgumentError("a speedup is not positive");
    }
    row.log2_speedup = std::log2(speedup);
  }
  problem.rows.push_back(std::move(row));
  problem.candidate_ids.push_back(candidate.candidate_id);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MeasuredProblem> ReadMeasuredProblem(const std::string& path,
                                                    const std::string& problems) {
  MeasuredProblem measured;
  measured.name = fs::path(path).filename().string();
  measured.name.resize(std::min(measured.name.find('.'), measured.name.size()));
  KC_ASSIGN_OR_RETURN(std::vector<ProblemFile> files,
                      ReadProblemFolder(absl::StrCat(problems, "/", measured.name)));
  KC_ASSIGN_OR_RETURN(Problem problem, ParseProblem(std::move(files)));
  measured.family = problem.family;
  measured.context = std::make_shared<const ProblemContext>(std::move(problem));
  KC_RETURN_IF_ERROR(
      ForEachGzipRecord(path, [&](const std::string& line) { return AddRecord(line, measured); }));
  return measured;
}

absl::StatusOr<std::vector<MeasuredProblem>> ReadMeasuredProblems(const std::string& folder,
                                                                  const std::string& problems) {
  std::set<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (IsRecordFile(path)) paths.insert(path);
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
  std::vector<MeasuredProblem> all;
  for (const std::string& path : paths) {
    KC_ASSIGN_OR_RETURN(MeasuredProblem measured, ReadMeasuredProblem(path, problems));
    all.push_back(std::move(measured));
  }
  return all;
}

absl::StatusOr<std::string> TrainPrior(const std::vector<MeasuredProblem>& measured,
                                       uint64_t seed) {
  std::map<PriorKey, std::map<std::string, ProblemRows>> rows;
  for (const MeasuredProblem& problem : measured) {
    ProblemRows& of = rows[{problem.target, problem.device_model}][problem.name];
    of.family = problem.family;
    of.encoder = &problem.context->EncoderFor(problem.target);
    for (const TrainingRow& row : problem.rows) of.rows.push_back(&row);
  }
  std::map<PriorKey, SharedModel> models;
  for (const auto& [key, of_key] : rows) {
    KC_ASSIGN_OR_RETURN(SharedModel model, SharedModel::Train(of_key, seed));
    models.emplace(key, std::move(model));
  }
  if (models.empty()) return absl::NotFoundError("no records to learn from");
  return SerializePrior(models);
}

}  // namespace kernelcast::forecaster
