#include "services/orchestrator/core/engine_ids.h"

#include "absl/strings/str_cat.h"

namespace kernelcast::orchestrator {
namespace {

constexpr size_t kMaxIdBytes = 128;

}  // namespace

absl::Status CheckId(std::string_view field, const std::string& id) {
  if (id.empty() || id.size() > kMaxIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": has ", id.size(),
                                                   " bytes; 1 to ", kMaxIdBytes, " are allowed"));
  }
  for (unsigned char c : id) {
    if (c <= ' ' || c > '~') {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(field), ": holds a byte of value ", static_cast<int>(c),
                       "; printable ASCII without blanks is allowed"));
    }
  }
  return absl::OkStatus();
}

std::string HandlingName(Stage stage, const std::string& request_id) {
  return absl::StrCat("stage ", static_cast<int>(stage), ":", request_id);
}

}  // namespace kernelcast::orchestrator
