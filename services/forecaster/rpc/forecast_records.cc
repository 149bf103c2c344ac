#include "services/forecaster/rpc/forecast_records.h"

#include <cerrno>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/gzip_file.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "kernelcast/v1/forecaster.pb.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "nlohmann/json.hpp"

namespace kernelcast::forecaster {
namespace {

absl::StatusOr<RecordedForecast> FromRecord(const std::string& line) {
  v1::ForecastRecord message;
  KC_RETURN_IF_ERROR(RecordFromJson(line, &message));
  RecordedForecast record;
  record.problem_id = message.problem_id();
  record.target = message.target();
  record.candidate_id = message.candidate_id();
  record.baseline_candidate_id = message.baseline_candidate_id();
  record.bin_scheme_id = message.bin_scheme_id();
  record.time = message.time();
  record.device_model = message.device_model();
  if (message.has_forecast()) {
    Forecast forecast = kernelcast::FromProto(message.forecast());
    KC_RETURN_IF_ERROR(ValidateForecast(forecast));
    record.result = std::move(forecast);
  } else {
    KC_ASSIGN_OR_RETURN(record.result, kernelcast::FromProto(message.abstention()));
  }
  return record;
}

// Empty if the decision was made without a forecast.
absl::StatusOr<std::vector<RecordedForecast>> FromExport(const std::string& line) {
  v1::ExportRecord message;
  KC_RETURN_IF_ERROR(RecordFromJson(line, &message));
  const v1::Evaluation& evaluation = message.evaluation();
  if (!evaluation.has_decided_on() && !evaluation.has_forecast()) {
    return std::vector<RecordedForecast>();
  }
  RecordedForecast record;
  Forecast forecast = kernelcast::FromProto(evaluation.has_decided_on() ? evaluation.decided_on()
                                                                        : evaluation.forecast());
  KC_RETURN_IF_ERROR(ValidateForecast(forecast));
  record.problem_id = message.candidate().problem_id();
  record.target = message.candidate().target();
  record.candidate_id =
      forecast.candidate_id.empty() ? evaluation.candidate_id() : forecast.candidate_id;
  record.baseline_candidate_id = forecast.baseline_candidate_id;
  record.bin_scheme_id = forecast.bin_scheme_id;
  record.device_model = forecast.device_model;
  record.result = std::move(forecast);
  return std::vector<RecordedForecast>{std::move(record)};
}

absl::StatusOr<std::vector<RecordedForecast>> FromLine(const std::string& line) {
  const nlohmann::json object = ParseBoundedJson(line);
  if (!object.is_object()) return absl::InvalidArgumentError("no JSON object");
  if (object.contains("evaluation")) return FromExport(line);
  KC_ASSIGN_OR_RETURN(RecordedForecast record, FromRecord(line));
  if (record.candidate_id.empty() || record.problem_id.empty() || record.target.empty()) {
    return absl::InvalidArgumentError("no candidate, problem or target");
  }
  return std::vector<RecordedForecast>{std::move(record)};
}

std::string NameOf(const RecordedForecast& record) {
  return absl::StrCat(record.candidate_id, " ", record.target, " ", record.baseline_candidate_id,
                      " ", record.bin_scheme_id, " ", record.device_model);
}

v1::ForecastRecord ToProto(const RecordedForecast& record) {
  v1::ForecastRecord message;
  message.set_problem_id(record.problem_id);
  message.set_target(record.target);
  message.set_candidate_id(record.candidate_id);
  message.set_baseline_candidate_id(record.baseline_candidate_id);
  message.set_bin_scheme_id(record.bin_scheme_id);
  message.set_time(record.time);
  message.set_device_model(record.device_model);
  if (const auto* forecast = std::get_if<Forecast>(&record.result)) {
    *message.mutable_forecast() = kernelcast::ToProto(*forecast);
    message.mutable_forecast()->clear_latency();
  } else {
    *message.mutable_abstention() = kernelcast::ToProto(std::get<Abstention>(record.result));
  }
  return message;
}

}  // namespace

absl::StatusOr<std::vector<RecordedForecast>> ReadForecastRecords(const std::string& path) {
  // An exported forecast has no request count; its position in the file is used instead.
  std::map<std::string, uint64_t> exported;
  std::vector<RecordedForecast> records;
  KC_RETURN_IF_ERROR(ForEachGzipRecord(path, [&](const std::string& line) -> absl::Status {
    KC_ASSIGN_OR_RETURN(std::vector<RecordedForecast> read, FromLine(line));
    for (RecordedForecast& record : read) {
      if (record.time == 0) record.time = ++exported[NameOf(record)];
      records.push_back(std::move(record));
    }
    return absl::OkStatus();
  }));
  return records;
}

ForecastRecorder::ForecastRecorder(std::ofstream file, std::string path, Backend* backend)
    : backend_(*backend), path_(std::move(path)), file_(std::move(file)) {}

ForecastRecorder::~ForecastRecorder() = default;

absl::StatusOr<std::unique_ptr<ForecastRecorder>> ForecastRecorder::Open(const std::string& path,
                                                                         Backend* backend) {
  std::ofstream file(path, std::ios::binary | std::ios::app);
  if (!file) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
  }
  return std::unique_ptr<ForecastRecorder>(new ForecastRecorder(std::move(file), path, backend));
}

void ForecastRecorder::Forecast(ForecastInput input, const ForecastCall& call, Done done) {
  auto record = std::make_shared<RecordedForecast>();
  record->problem_id = input.candidate.problem_id;
  record->target = input.candidate.target;
  record->candidate_id = input.candidate.candidate_id;
  record->baseline_candidate_id = input.baseline_candidate_id;
  record->bin_scheme_id = input.bin_scheme->id();
  record->device_model = input.device_model;
  {
    std::lock_guard lock(mutex_);
    record->time = ++asked_[NameOf(*record)];
  }
  backend_.Forecast(std::move(input), call,
                    [this, record, done = std::move(done)](ForecastResult result) {
                      record->result = result;
                      writer_.Submit([this, record] { Record(*record); });
                      done(std::move(result));
                    });
}

void ForecastRecorder::Record(const RecordedForecast& record) {
  const v1::ForecastRecord message = ToProto(record);
  v1::ForecastRecord bare = message;
  bare.clear_time();
  if (bare.has_forecast()) bare.mutable_forecast()->clear_token_usage();
  ContentHasher hasher;
  hasher.Add(bare.SerializeAsString());
  std::string hash = hasher.Hex128();
  Last& last = last_[NameOf(record)];
  // Answers may arrive in a different order than the requests.
  if (last.hash == hash && record.time > last.time) return;
  last = {std::move(hash), record.time};
  file_ << ProtoToJson(message) << '\n' << std::flush;
  if (file_.good() || broken_) return;
  broken_ = true;
  Log(LogLevel::kError, "forecasts are no longer recorded", {{"file", path_}});
}

}  // namespace kernelcast::forecaster
