#include "common/convert/proto_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/convert/finite_numbers.h"
#include "kernelcast/v1/forecaster.pb.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "kernelcast/v1/worker.pb.h"

namespace kernelcast {
namespace {

namespace pb = ::google::protobuf;

constexpr char kTypeUrl[] = "type.googleapis.com";

void MakeTexts(pb::DescriptorProto& message) {
  for (pb::FieldDescriptorProto& field : *message.mutable_field()) {
    if (field.type() == pb::FieldDescriptorProto::TYPE_BYTES && field.name() != "content") {
      field.set_type(pb::FieldDescriptorProto::TYPE_STRING);
    }
  }
  for (pb::DescriptorProto& nested : *message.mutable_nested_type()) MakeTexts(nested);
}

void Build(const pb::FileDescriptor& file, pb::DescriptorPool& pool) {
  if (pool.FindFileByName(file.name()) != nullptr) return;
  for (int i = 0; i < file.dependency_count(); ++i) Build(*file.dependency(i), pool);
  pb::FileDescriptorProto copy;
  file.CopyTo(&copy);
  for (pb::DescriptorProto& message : *copy.mutable_message_type()) MakeTexts(message);
  pool.BuildFile(copy);
}

// The messages of the services with text in place of `bytes`. Both are the same on the wire.
pb::util::TypeResolver& Resolver() {
  static auto* const resolver = [] {
    auto* const pool = new pb::DescriptorPool();
    for (const pb::Descriptor* message :
         {v1::ExportRecord::descriptor(), v1::ForecastRecord::descriptor(),
          v1::MeasureRequest::descriptor()}) {
      Build(*message->file(), *pool);
    }
    return pb::util::NewTypeResolverForDescriptorPool(kTypeUrl, pool);
  }();
  return *resolver;
}

bool IsText(const pb::FieldDescriptor& field) {
  return field.type() == pb::FieldDescriptor::TYPE_BYTES && field.name() != "content";
}

// protobuf drops invalid UTF-8 together with what follows it.
void SanitizeTexts(pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    if (field->is_map()) continue;
    if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < size; ++i) {
        SanitizeTexts(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                           : *reflection.MutableMessage(&message, field));
      }
    } else if (IsText(*field)) {
      const std::string text = reflection.GetString(message, field);
      if (!IsValidUtf8(text)) reflection.SetString(&message, field, SanitizeUtf8(text));
    }
  }
}

std::string TypeUrl(const pb::Message& message) {
  return absl::StrCat(kTypeUrl, "/", message.GetDescriptor()->full_name());
}

}  // namespace

std::string ProtoToJson(const pb::Message& message) {
  pb::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  const std::unique_ptr<pb::Message> copy(message.New());
  copy->CopyFrom(message);
  SanitizeTexts(*copy);
  std::string json;
  const auto status = pb::util::BinaryToJsonString(&Resolver(), TypeUrl(message),
                                                   copy->SerializeAsString(), &json, options);
  // Fails only for values that JSON cannot represent, such as a timestamp out of range.
  return status.ok() ? json : std::string("{}");
}

absl::Status ProtoFromJson(std::string_view json, pb::Message* message) {
  pb::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  std::string binary;
  const auto status = pb::util::JsonToBinaryString(
      &Resolver(), TypeUrl(*message), pb::StringPiece(json.data(), json.size()), &binary, options);
  if (status.ok() && message->ParseFromString(binary)) return absl::OkStatus();
  return absl::InvalidArgumentError(SanitizeUtf8(std::string(status.message())));
}

absl::Status RecordFromJson(std::string_view json, pb::Message* message) {
  KC_RETURN_IF_ERROR(ProtoFromJson(json, message));
  return CheckFiniteNumbers(*message);
}

}  // namespace kernelcast
