#ifndef KERNELCAST_SERVICES_CLI_RPC_PROTO_JSON_H_
#define KERNELCAST_SERVICES_CLI_RPC_PROTO_JSON_H_

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kernelcast::cli {

// protobuf's JSON on one line, with the field names of the protos. Fields at their default are left
// out; bytes are base64, 64-bit integers strings, as protobuf has it.
std::string ProtoToJson(const google::protobuf::Message& message);

// INVALID_ARGUMENT with protobuf's own words. Unknown fields are skipped, so that newer records can
// be read.
[[nodiscard]] absl::Status ProtoFromJson(std::string_view json, google::protobuf::Message* message);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_PROTO_JSON_H_
