#include "common/domain/npy_file.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr int64_t kMaxElements = int64_t{1} << 40;

// NumPy's codes for the type, without the byte order.
std::vector<std::string> TypeCodes(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat64: return {"f8"};
    case DataType::kFloat32: return {"f4"};
    case DataType::kFloat16: return {"f2"};
    case DataType::kBfloat16: return {"V2", "u2"};
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2: return {"V1", "u1"};
    case DataType::kInt64: return {"i8"};
    case DataType::kInt32: return {"i4"};
    case DataType::kInt8: return {"i1"};
    case DataType::kUint8: return {"u1"};
  }
  return {};
}

absl::Status Invalid(const std::string& what) {
  return absl::InvalidArgumentError("is not a .npy file that can be read: " + what);
}

// The text after `'key':` in the header, a Python dictionary, without leading spaces.
std::optional<std::string_view> ValueOf(std::string_view header, std::string_view key) {
  const std::string quoted = absl::StrCat("'", std::string(key), "'");
  size_t at = header.find(quoted);
  if (at == std::string_view::npos) return std::nullopt;
  at = header.find(':', at + quoted.size());
  if (at == std::string_view::npos) return std::nullopt;
  at = header.find_first_not_of(' ', at + 1);
  if (at == std::string_view::npos) return std::nullopt;
  return header.substr(at);
}

absl::StatusOr<int64_t> ElementCount(std::string_view shape) {
  const size_t end = shape.find(')');
  if (shape.empty() || shape[0] != '(' || end == std::string_view::npos) {
    return Invalid("its shape is not a tuple");
  }
  int64_t elements = 1;
  const char* at = shape.data() + 1;
  const char* const last = shape.data() + end;
  while (at < last) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    int64_t extent = 0;
    const auto [stop, error] = std::from_chars(at, last, extent);
    if (error != std::errc() || extent < 0 || (extent > 0 && elements > kMaxElements / extent)) {
      return Invalid("its shape is not a tuple of sizes");
    }
    elements *= extent;
    at = stop;
  }
  return elements;
}

}  // namespace

absl::StatusOr<std::string> NpyElements(std::string_view content, DataType dtype) {
  if (content.size() < 10 || content.substr(0, kMagic.size()) != kMagic) {
    return Invalid("it does not begin with the magic bytes");
  }
  const auto version = static_cast<unsigned char>(content[6]);
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t header_at = 8 + length_bytes;
  if (version < 1 || version > 3 || content.size() < header_at) {
    return Invalid(absl::StrCat("its format version ", version, " is not from 1 to 3"));
  }
  size_t header_bytes = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    header_bytes |= static_cast<size_t>(static_cast<unsigned char>(content[8 + i])) << (8 * i);
  }
  if (header_bytes > content.size() - header_at) return Invalid("its header is cut off");
  const std::string_view header = content.substr(header_at, header_bytes);
  const auto descr = ValueOf(header, "descr");
  const auto order = ValueOf(header, "fortran_order");
  const auto shape = ValueOf(header, "shape");
  if (!descr || !order || !shape) return Invalid("its header lacks descr, fortran_order or shape");
  if (!order->starts_with("False")) {
    return Invalid("it is in Fortran order; save numpy.ascontiguousarray of the array");
  }
  const size_t close = descr->find('\'', 1);
  if ((*descr)[0] != '\'' || close == std::string_view::npos || close < 3) {
    return Invalid("its descr is not a simple type");
  }
  const std::string_view type = descr->substr(1, close - 1);
  const std::vector<std::string> codes = TypeCodes(dtype);
  const bool known = std::ranges::find(codes, type.substr(1)) != codes.end();
  const bool little = type[0] == '<' || type[0] == '|' || (type[0] == '=' && SizeBytes(dtype) > 0);
  if (!known || !little) {
    return absl::InvalidArgumentError(
        absl::StrCat("holds elements of type ", Quoted(type), ", and the tensor's type ",
                     std::string(Name(dtype)), " is '<", codes[0], "' there"));
  }
  KC_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(*shape));
  const std::string_view data = content.substr(header_at + header_bytes);
  if (static_cast<int64_t>(data.size()) / SizeBytes(dtype) < elements) {
    return Invalid(absl::StrCat("its header says ", elements, " elements, and ", data.size(),
                                " bytes follow"));
  }
  return std::string(data.substr(0, static_cast<size_t>(elements * SizeBytes(dtype))));
}

}  // namespace kernelcast
