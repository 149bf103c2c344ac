#include "services/orchestrator/core/engine_ids.h"

#include "absl/strings/ascii.h"
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

std::string IdForDevice(std::string_view id, std::string_view device_model) {
  std::string name = absl::StrCat(std::string(id), "@");
  for (const char c : device_model) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c));
    if (plain || !name.ends_with('-')) name += plain ? absl::ascii_tolower(c) : '-';
  }
  return name;
}

std::string_view IdOfSeveral(std::string_view search_id) {
  return search_id.substr(0, search_id.rfind('@'));
}

std::string HandlingName(Stage stage, const std::string& request_id) {
  return absl::StrCat("stage ", static_cast<int>(stage), ":", request_id);
}

}  // namespace kernelcast::orchestrator
