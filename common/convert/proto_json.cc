#include "common/convert/proto_json.h"

#include <google/protobuf/util/json_util.h>

#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/convert/finite_numbers.h"

namespace kernelcast {

std::string ProtoToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  // Fails only for values that JSON cannot represent, such as a timestamp out of range.
  return status.ok() ? json : std::string("{}");
}

absl::Status ProtoFromJson(std::string_view json, google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json.data(), json.size()), message, options);
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(SanitizeUtf8(std::string(status.message())));
}

absl::Status RecordFromJson(std::string_view json, google::protobuf::Message* message) {
  KC_RETURN_IF_ERROR(ProtoFromJson(json, message));
  return CheckFiniteNumbers(*message);
}

}  // namespace kernelcast
