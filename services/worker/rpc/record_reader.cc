#include "services/worker/rpc/record_reader.h"

#include <utility>

#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast::worker {
namespace {

absl::StatusOr<ReplayRecord> FromLine(const std::string& line) {
  v1::ExportRecord message;
  KC_RETURN_IF_ERROR(RecordFromJson(line, &message));
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
  KC_RETURN_IF_ERROR(ForEachGzipRecord(path, [&](const std::string& line) -> absl::Status {
    KC_ASSIGN_OR_RETURN(records.emplace_back(), FromLine(line));
    return absl::OkStatus();
  }));
  return records;
}

}  // namespace kernelcast::worker
