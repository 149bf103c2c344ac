#ifndef KERNELCAST_COMMON_CONVERT_PROTO_JSON_H_
#define KERNELCAST_COMMON_CONVERT_PROTO_JSON_H_

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kernelcast {

// protobuf's JSON on one line, with the field names of the protos, for messages of the services.
// Default values are left out, and 64-bit integers are strings, as protobuf defines. `bytes` are
// text, in which invalid UTF-8 becomes U+FFFD, except `content`, which is base64.
std::string ProtoToJson(const google::protobuf::Message& message);

// INVALID_ARGUMENT: protobuf's message. Unknown fields are ignored, so that newer records can be
// read.
[[nodiscard]] absl::Status ProtoFromJson(std::string_view json, google::protobuf::Message* message);
// As ProtoFromJson, for a record of a file. Its numbers must be finite: see CheckFiniteNumbers.
[[nodiscard]] absl::Status RecordFromJson(std::string_view json,
                                          google::protobuf::Message* message);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_PROTO_JSON_H_
