#include "common/convert/finite_numbers.h"

#include <google/protobuf/descriptor.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "kernelcast/v1/kernel.pb.h"

namespace kernelcast {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool MayBeAnything(const FieldDescriptor& field) {
  return field.containing_type() == v1::WrongResult::descriptor();
}

absl::Status CheckNumber(const std::string& path, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", NumberText(value), " is not a finite number"));
}

// "shapes[2]", below `path`.
std::string Below(const std::string& path, const FieldDescriptor& field, int index) {
  return absl::StrCat(path, path.empty() ? "" : ".", field.name(),
                      index < 0 ? "" : absl::StrCat("[", index, "]"));
}

absl::Status Check(const Message& message, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    const auto type = field->cpp_type();
    const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 0;
    if (type == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        KC_RETURN_IF_ERROR(Check(reflection.GetMessage(message, field), Below(path, *field, -1)));
      }
      for (int i = 0; i < size; ++i) {
        KC_RETURN_IF_ERROR(
            Check(reflection.GetRepeatedMessage(message, field, i), Below(path, *field, i)));
      }
    } else if (type == FieldDescriptor::CPPTYPE_DOUBLE && !MayBeAnything(*field)) {
      if (!field->is_repeated()) {
        KC_RETURN_IF_ERROR(
            CheckNumber(Below(path, *field, -1), reflection.GetDouble(message, field)));
      }
      for (int i = 0; i < size; ++i) {
        KC_RETURN_IF_ERROR(
            CheckNumber(Below(path, *field, i), reflection.GetRepeatedDouble(message, field, i)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFiniteNumbers(const Message& message) { return Check(message, ""); }

}  // namespace kernelcast
