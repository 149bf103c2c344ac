#ifndef KERNELCAST_COMMON_CONVERT_CONVERT_INTERNAL_H_
#define KERNELCAST_COMMON_CONVERT_CONVERT_INTERNAL_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/domain/problem.h"
#include "kernelcast/v1/kernel.pb.h"

namespace kernelcast::convert_internal {

// Text made valid for a `string` field.
inline std::string Utf8(const std::string& text) {
  return IsValidUtf8(text) ? text : SanitizeUtf8(text);
}

inline void AddStrings(const std::vector<std::string>& from,
                       google::protobuf::RepeatedPtrField<std::string>* to) {
  to->Reserve(static_cast<int>(from.size()));
  for (const std::string& text : from) {
    *to->Add() = Utf8(text);
  }
}

inline std::vector<std::string> Strings(
    const google::protobuf::RepeatedPtrField<std::string>& from) {
  return {from.begin(), from.end()};
}

// Converts enums by a table of pairs, which serves both directions.
template <class Domain, class Proto, size_t N>
Proto EnumToProto(const std::pair<Domain, Proto> (&table)[N], Domain value) {
  for (const auto& [domain, proto] : table) {
    if (domain == value) {
      return proto;
    }
  }
  return static_cast<Proto>(0);
}

template <class Domain, class Proto, size_t N>
absl::StatusOr<Domain> EnumFromProto(const std::pair<Domain, Proto> (&table)[N], Proto value,
                                     std::string_view path) {
  for (const auto& [domain, proto] : table) {
    if (proto == value) {
      return domain;
    }
  }
  const std::string field(path);
  return absl::InvalidArgumentError(
      value == 0 ? absl::StrCat(field, ": not set")
                 : absl::StrCat(field, ": ", static_cast<int>(value), " is not a known value"));
}

v1::AxisValues AxisValuesToProto(const AxisValues& values);
AxisValues AxisValuesFromProto(const v1::AxisValues& values);

}  // namespace kernelcast::convert_internal

#endif  // KERNELCAST_COMMON_CONVERT_CONVERT_INTERNAL_H_
