#include "common/domain/safetensors_file.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

using Json = nlohmann::ordered_json;

// The file starts with the size of its header, in eight bytes.
constexpr size_t kSizeBytes = 8;
constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";
constexpr size_t kMaxKeysNamed = 8;

struct Type {
  std::string_view name;
  int64_t bytes;
};
constexpr Type kTypes[] = {{"F64", 8},     {"F32", 4},     {"F16", 2}, {"BF16", 2},
                           {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4},
                           {"I16", 2},     {"I8", 1},      {"U8", 1},  {"BOOL", 1}};

// Whether the tensor's entry is as the format asks for. Sets all but its elements.
bool ReadEntry(const Json& entry, SafeTensor& tensor, size_t& begin, size_t& end) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2) {
    return false;
  }
  tensor.dtype = entry["dtype"].get<std::string>();
  const auto type = std::ranges::find(kTypes, tensor.dtype, &Type::name);
  if (type == std::end(kTypes)) return false;
  int64_t bytes = type->bytes;
  for (const Json& size : entry["shape"]) {
    if (!size.is_number_unsigned()) return false;
    const auto extent = size.get<int64_t>();
    if (extent < 0 || (extent > 0 && bytes > INT64_MAX / extent)) return false;
    bytes *= extent;
    tensor.shape.push_back(extent);
  }
  const Json& offsets = entry["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) return false;
  begin = offsets[0].get<size_t>();
  end = offsets[1].get<size_t>();
  return begin <= end && end - begin == static_cast<size_t>(bytes);
}

std::string KeysOf(const Json& header) {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : header.items()) {
    if (key != "__metadata__" && keys.size() < kMaxKeysNamed) keys.push_back(Quoted(key));
  }
  return CommaList(keys);
}

}  // namespace

absl::StatusOr<SafeTensor> FindSafeTensor(std::string_view content, const std::string& key) {
  if (content.starts_with(kLfsPointer)) {
    return absl::InvalidArgumentError("is a pointer of Git LFS; 'git lfs pull' fetches the file");
  }
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kSizeBytes && i < content.size(); ++i) {
    header_bytes |= static_cast<uint64_t>(static_cast<unsigned char>(content[i])) << (8 * i);
  }
  const absl::Status no_file = absl::InvalidArgumentError("is no safetensors file");
  if (content.size() < kSizeBytes || header_bytes > content.size() - kSizeBytes) return no_file;
  const Json header = ParseBoundedJson<Json>(content.substr(kSizeBytes, header_bytes));
  if (!header.is_object()) return no_file;
  const auto found = header.find(key);
  if (found == header.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has no tensor ", Quoted(key), "; it has ", KeysOf(header)));
  }
  SafeTensor tensor;
  size_t begin = 0;
  size_t end = 0;
  const std::string_view data = content.substr(kSizeBytes + header_bytes);
  if (!ReadEntry(*found, tensor, begin, end) || end > data.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(key), ": has a type that is not supported, or does not fit its shape"));
  }
  tensor.elements = data.substr(begin, end - begin);
  return tensor;
}

}  // namespace kernelcast
