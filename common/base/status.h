#ifndef KERNELCAST_COMMON_BASE_STATUS_H_
#define KERNELCAST_COMMON_BASE_STATUS_H_

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/strings.h"

// Returns from the enclosing function if `expr`, an absl::Status, is not OK.
#define KC_RETURN_IF_ERROR(expr)                            \
  do {                                                      \
    if (absl::Status kc_status = (expr); !kc_status.ok()) { \
      return kc_status;                                     \
    }                                                       \
  } while (false)

// Declares or assigns `lhs` from an absl::StatusOr, or returns its status.
#define KC_ASSIGN_OR_RETURN(lhs, expr) \
  KC_ASSIGN_OR_RETURN_IMPL_(KC_STATUS_CONCAT_(kc_statusor_, __LINE__), lhs, expr)

#define KC_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr) \
  auto statusor = (expr);                              \
  if (!statusor.ok()) {                                \
    return std::move(statusor).status();               \
  }                                                    \
  lhs = *std::move(statusor)

#define KC_STATUS_CONCAT_(a, b) KC_STATUS_CONCAT_INNER_(a, b)
#define KC_STATUS_CONCAT_INNER_(a, b) a##b

namespace kernelcast {

// Puts a prefix, such as "FILE: ", in front of the message of an error, and drops its payloads.
// Returns OK unchanged.
[[nodiscard]] inline absl::Status WithPrefix(std::string_view prefix, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(AbslView(prefix), status.message()));
}
template <class T>
[[nodiscard]] absl::StatusOr<T> WithPrefix(std::string_view prefix, absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return WithPrefix(prefix, result.status());
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_STATUS_H_
