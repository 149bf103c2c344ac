#include "services/worker/rpc/record_reader.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/finite_numbers.h"
#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast::worker {
namespace {

absl::StatusOr<ReplayRecord> FromLine(const std::string& line) {
  v1::ExportRecord message;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a later version may have added fields
  const auto parsed = google::protobuf::util::JsonStringToMessage(line, &message, options);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(parsed.ToString());
  }
  KC_RETURN_IF_ERROR(CheckFiniteNumbers(message));
  ReplayRecord record;
  record.candidate_id = message.evaluation().candidate_id();
  if (record.candidate_id.empty()) {
    record.candidate_id = message.candidate().candidate_id();
  }
  record.problem_id = message.candidate().problem_id();
  record.target = message.candidate().target();
  if (message.has_facts()) {
    record.facts = FromProto(message.facts());
  }
  if (message.has_reference_facts()) {
    record.reference_facts = FromProto(message.reference_facts());
  }
  if (message.evaluation().has_measured()) {
    KC_ASSIGN_OR_RETURN(Measurement measurement, FromProto(message.evaluation().measured()));
    if (record.problem_id.empty()) {
      record.problem_id = measurement.problem_id;
    }
    if (record.target.empty()) {
      record.target = measurement.target;
    }
    record.result = std::move(measurement);
  } else if (message.evaluation().rejected().has_compile_error()) {
    KC_ASSIGN_OR_RETURN(record.result, FromProto(message.evaluation().rejected().compile_error()));
  }
  if (record.candidate_id.empty() || record.target.empty()) {
    return absl::InvalidArgumentError("no candidate, or no target");
  }
  return record;
}

}  // namespace

absl::StatusOr<std::vector<ReplayRecord>> ReadRecords(const std::string& path) {
  std::vector<ReplayRecord> records;
  KC_RETURN_IF_ERROR(
      ForEachGzipLine(path, [&](int64_t number, const std::string& line) -> absl::Status {
        if (line.find_first_not_of(" \t\r") == std::string::npos) return absl::OkStatus();
        auto record = FromLine(line);
        if (!record.ok()) {
          return absl::InvalidArgumentError(
              absl::StrCat(path, ":", number, ": ", record.status().message()));
        }
        records.push_back(*std::move(record));
        return absl::OkStatus();
      }));
  return records;
}

}  // namespace kernelcast::worker
