#include "common/rpc/protocol_version.h"

#include "absl/strings/str_cat.h"

namespace kernelcast {

absl::Status CheckProtocolVersion(uint32_t version, uint32_t own) {
  if (version == 0) {
    return absl::FailedPreconditionError("reports no version of the protocol");
  }
  if (version <= own + 1 && own <= version + 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("speaks version ", version, " of the protocol, and this process version ", own,
                   "; they may be one apart: upgrade ", version < own ? "that one" : "this one"));
}

}  // namespace kernelcast
