#ifndef KERNELCAST_COMMON_CONVERT_FIELDS_H_
#define KERNELCAST_COMMON_CONVERT_FIELDS_H_

#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/utf8.h"
#include "common/convert/convert.h"

// One list of fields converts a domain type to its message and back:
//
//   KC_FIELDS(Timeout, v1::Timeout) {
//     KC_SAME(stage, shape);      // the members and the fields have one name; at most 27
//     KC_FIELD(limit_ns, limit);  // a member, and the field of the message
//   }
//
// The kinds of both decide how a value is converted: numbers and texts, nanoseconds and well-known
// types, lists, maps, std::optional, and types with a list of their own. Enums need a table, the
// function Pairs(DomainEnum). In `string` fields invalid UTF-8 becomes U+FFFD.
#define KC_FIELDS(Domain, Message)                                      \
  template <class Io, class D, class M>                                 \
  requires std::same_as<std::remove_const_t<D>, Domain> && /* NOLINT */ \
      std::same_as<std::remove_const_t<M>, Message>                     \
  void MapFields(Io& io, D& d, M& m)
#define KC_FIELD(member, field) io.Field(#field, d.member, m, KC_ACCESS(field))
#define KC_SAME(...) KC_RESCAN(KC_SAME_LIST(__VA_ARGS__))
#define KC_SAME_LIST(field, ...) \
  KC_FIELD(field, field) __VA_OPT__(, KC_SAME_LATER KC_PARENTHESES(__VA_ARGS__))
#define KC_SAME_LATER() KC_SAME_LIST
#define KC_PARENTHESES ()
#define KC_RESCAN(...) KC_RESCAN_9(KC_RESCAN_9(KC_RESCAN_9(__VA_ARGS__)))
#define KC_RESCAN_9(...) KC_RESCAN_3(KC_RESCAN_3(KC_RESCAN_3(__VA_ARGS__)))
#define KC_RESCAN_3(...) KC_RESCAN_1(KC_RESCAN_1(KC_RESCAN_1(__VA_ARGS__)))
#define KC_RESCAN_1(...) __VA_ARGS__
// A `bytes` field, copied unchanged.
#define KC_BYTES(field) io.Bytes(d.field, m, KC_ACCESS(field))
// An enum that may have a value that this version does not know: the first one of its table.
#define KC_LENIENT(field) io.Lenient(d.field, m, KC_ACCESS(field))
// A type that ToProto and FromProto convert.
#define KC_NESTED(field) io.Nested(#field, d.field, m, KC_ACCESS(field))
// One alternative of the variant `member`, and its field of the oneof. The second converts by
// ToProto and FromProto.
#define KC_ARM(member, Type, field) io.template Arm<Type>(#field, d.member, m, KC_ACCESS(field))
#define KC_NESTED_ARM(member, Type, field) \
  io.template NestedArm<Type>(#field, d.member, m, KC_ACCESS(field))
#define KC_ACCESS(field)                                           \
  [](auto& message) -> decltype(auto) { return message.field(); }, \
      [](auto& message, auto&& value) {                            \
        message.set_##field(std::forward<decltype(value)>(value)); \
      },                                                           \
      [](auto& message) { return message.mutable_##field(); },     \
      [](auto& message) { return message.has_##field(); }

namespace kernelcast {

namespace convert_internal {

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
concept Number = std::is_arithmetic_v<T>;
template <class T>
concept Enum = std::is_enum_v<T>;

// Text made valid for a `string` field.
inline std::string Utf8(const std::string& text) {
  return IsValidUtf8(text) ? text : SanitizeUtf8(text);
}

template <Enum T>
using ProtoEnum = typename decltype(Pairs(T()))::value_type::second_type;

template <Enum T>
ProtoEnum<T> EnumToProto(T value) {
  for (const auto& [domain, proto] : Pairs(T())) {
    if (domain == value) return proto;
  }
  return ProtoEnum<T>(0);
}

template <Enum T>
absl::StatusOr<T> EnumFromProto(int value, std::string_view field) {
  for (const auto& [domain, proto] : Pairs(T())) {
    if (proto == value) return domain;
  }
  return absl::InvalidArgumentError(
      value == 0 ? absl::StrCat(std::string(field), ": not set")
                 : absl::StrCat(std::string(field), ": ", value, " is not a known value"));
}

}  // namespace convert_internal

class FieldWriter {
 public:
  static constexpr bool kReads = false;

  template <class T, class M, class Get, class Set, class Mutable, class Has>
  void Field(const char* name, const T& value, M& message, Get get, Set set, Mutable mut, Has has) {
    using Wire = std::remove_cvref_t<decltype(get(message))>;
    if constexpr (convert_internal::kIsOptional<T>) {
      if (value) Field(name, *value, message, get, set, mut, has);
    } else if constexpr (convert_internal::Enum<T>) {
      set(message, convert_internal::EnumToProto(value));
    } else if constexpr (std::same_as<T, std::string>) {
      set(message, convert_internal::Utf8(value));
    } else if constexpr (std::same_as<Wire, google::protobuf::Duration>) {
      *mut(message) = DurationToProto(value);
    } else if constexpr (std::same_as<Wire, google::protobuf::Timestamp>) {
      *mut(message) = TimestampToProto(value);
    } else if constexpr (convert_internal::Number<T>) {
      set(message, static_cast<Wire>(value));
    } else {
      Write(value, *mut(message));
    }
  }
  template <class T, class M, class Get, class Set, class Mutable, class Has>
  void Bytes(const T& value, M& message, Get, Set set, Mutable, Has) {
    set(message, value);
  }
  template <class T, class M, class Get, class Set, class Mutable, class Has>
  void Lenient(const T& value, M& message, Get get, Set set, Mutable mut, Has has) {
    Field("", value, message, get, set, mut, has);
  }
  template <class T, class M, class Get, class Set, class Mutable, class Has>
  void Nested(const char*, const T& value, M& message, Get, Set, Mutable mut, Has) {
    *mut(message) = ToProto(value);
  }
  template <class T, class V, class M, class Get, class Set, class Mutable, class Has>
  void Arm(const char*, const V& arms, M& message, Get, Set, Mutable mut, Has) {
    if (const T* arm = std::get_if<T>(&arms)) Write(*arm, *mut(message));
  }
  template <class T, class V, class M, class Get, class Set, class Mutable, class Has>
  void NestedArm(const char*, const V& arms, M& message, Get, Set, Mutable mut, Has) {
    if (const T* arm = std::get_if<T>(&arms)) *mut(message) = ToProto(*arm);
  }

 private:
  void Write(const std::vector<std::string>& list,
             google::protobuf::RepeatedPtrField<std::string>& message) {
    message.Reserve(static_cast<int>(list.size()));
    for (const std::string& text : list) *message.Add() = convert_internal::Utf8(text);
  }
  template <class T, class W>
  void Write(const std::vector<T>& list, google::protobuf::RepeatedField<W>& message) {
    if constexpr (convert_internal::Enum<T>) {
      for (const T value : list) message.Add(convert_internal::EnumToProto(value));
    } else {
      message.Add(list.begin(), list.end());
    }
  }
  template <class T, class W>
  void Write(const std::vector<T>& list, google::protobuf::RepeatedPtrField<W>& message) {
    message.Reserve(static_cast<int>(list.size()));
    for (const T& value : list) Write(value, *message.Add());
  }
  template <class T, class Less, class W>
  void Write(const std::map<std::string, T, Less>& map,
             google::protobuf::Map<std::string, W>& message) {
    for (const auto& [key, value] : map) message[convert_internal::Utf8(key)] = value;
  }
  template <class T, class M>
  void Write(const T& value, M& message) {
    MapFields(*this, value, message);
  }
};

class FieldReader {
 public:
  static constexpr bool kReads = true;

  // INVALID_ARGUMENT: the path of the first field that has no value of the domain type, and why.
  const absl::Status& status() const { return status_; }
  void Fail(std::string_view field, std::string_view why) {
    if (!status_.ok()) return;
    std::string path = absl::StrJoin(path_, ".");
    absl::StrAppend(&path, path.empty() ? "" : ".", std::string(field), ": ", std::string(why));
    status_ = absl::InvalidArgumentError(path);
  }

  template <class T, class M, class Get, class Set, class Mutable, class Has>
  void Field(const char* name, T& value, const M& message, Get get, Set set, Mutable mut, Has has) {
    using Wire = std::remove_cvref_t<decltype(get(message))>;
    if constexpr (convert_internal::kIsOptional<T>) {
      if constexpr (convert_internal::Enum<Wire>) {
        if (get(message) == 0) return;
      } else if (!has(message)) {
        return;
      }
      Field(name, value.emplace(), message, get, set, mut, has);
    } else if constexpr (std::same_as<T, std::string>) {
      value = get(message);
    } else if constexpr (convert_internal::Enum<T>) {
      ReadEnum(name, get(message), value);
    } else if constexpr (std::same_as<Wire, google::protobuf::Duration> ||
                         std::same_as<Wire, google::protobuf::Timestamp>) {
      value = ToNanoseconds(get(message));
    } else if constexpr (convert_internal::Number<T>) {
      value = static_cast<T>(get(message));
    } else {
      path_.push_back(name);
      Read(get(message), value);
      path_.pop_back();
    }
  }
  template <class T, class M, class Get, class Set, class Mutable, class Has>
  void Bytes(T& value, const M& message, Get get, Set, Mutable, Has) {
    value = get(message);
  }
  template <class T, class M, class Get, class Set, class Mutable, class Has>
  void Lenient(T& value, const M& message, Get get, Set, Mutable, Has) {
    value = convert_internal::EnumFromProto<T>(get(message), "").value_or(Pairs(T())[0].first);
  }
  template <class T, class M, class Get, class Set, class Mutable, class Has>
  void Nested(const char* name, T& value, const M& message, Get get, Set, Mutable, Has has) {
    if constexpr (convert_internal::kIsOptional<T>) {
      if (has(message)) Convert(name, get(message), value.emplace());
    } else {
      Convert(name, get(message), value);
    }
  }
  template <class T, class V, class M, class Get, class Set, class Mutable, class Has>
  void Arm(const char* name, V& arms, const M& message, Get get, Set, Mutable, Has has) {
    if (!has(message)) return;
    path_.push_back(name);
    Read(get(message), arms.template emplace<T>());
    path_.pop_back();
  }
  template <class T, class V, class M, class Get, class Set, class Mutable, class Has>
  void NestedArm(const char* name, V& arms, const M& message, Get get, Set, Mutable, Has has) {
    if (has(message)) Convert(name, get(message), arms.template emplace<T>());
  }

 private:
  template <class T>
  void ReadEnum(const char* name, int proto, T& value) {
    absl::StatusOr<T> read = convert_internal::EnumFromProto<T>(proto, name);
    if (read.ok()) {
      value = *read;
    } else {
      const std::string_view text(read.status().message().data(), read.status().message().size());
      Fail(name, text.substr(std::string_view(name).size() + 2));
    }
  }
  template <class M, class T>
  void Convert(const char* name, const M& message, T& value) {
    auto converted = FromProto(message);
    if constexpr (std::same_as<decltype(converted), T>) {
      value = std::move(converted);
    } else if (converted.ok()) {
      value = *std::move(converted);
    } else {
      Fail(name, std::string(converted.status().message()));
    }
  }
  void Read(const google::protobuf::RepeatedPtrField<std::string>& message,
            std::vector<std::string>& list) {
    list.assign(message.begin(), message.end());
  }
  template <class W, class T>
  void Read(const google::protobuf::RepeatedField<W>& message, std::vector<T>& list) {
    if constexpr (convert_internal::Enum<T>) {
      const char* const name = path_.back();
      path_.pop_back();
      for (const int value : message) ReadEnum(name, value, list.emplace_back());
      path_.push_back(name);
    } else {
      list.assign(message.begin(), message.end());
    }
  }
  template <class W, class T>
  void Read(const google::protobuf::RepeatedPtrField<W>& message, std::vector<T>& list) {
    list.reserve(message.size());
    for (const W& value : message) Read(value, list.emplace_back());
  }
  template <class W, class T, class Less>
  void Read(const google::protobuf::Map<std::string, W>& message,
            std::map<std::string, T, Less>& map) {
    map.insert(message.begin(), message.end());
  }
  template <class M, class T>
  void Read(const M& message, T& value) {
    MapFields(*this, value, message);
  }

  absl::InlinedVector<const char*, 8> path_;
  absl::Status status_;
};

KC_FIELDS(AxisValues, v1::AxisValues) { io.Field("values", d, m, KC_ACCESS(values)); }

template <class M, class D>
M WriteFields(const D& value) {
  M message;
  FieldWriter writer;
  MapFields(writer, value, message);
  return message;
}

template <class D, class M>
absl::StatusOr<D> ReadFields(const M& message) {
  D value;
  FieldReader reader;
  MapFields(reader, value, message);
  if (!reader.status().ok()) return reader.status();
  return value;
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_FIELDS_H_
