#include "common/domain/npy_file.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

namespace kernelcast {
namespace {

using Catch::Contains;

std::string Npy(const std::string& header, const std::string& data, char version = 1) {
  std::string file("\x93NUMPY", 6);
  file += version;
  file += '\0';
  const size_t length_bytes = version == 1 ? 2 : 4;
  for (size_t i = 0; i < length_bytes; ++i) {
    file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  return file + header + data;
}

std::string Header(const std::string& type, const std::string& shape, const char* order = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

template <class T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string ReadError(const std::string& file, DataType dtype = DataType::kFloat32) {
  const absl::StatusOr<std::string> elements = NpyElements(file, dtype);
  CHECK(elements.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(elements.status().message());
}

TEST_CASE("NumPy elements are read as the header says", "[npy_file]") {
  const std::string data = Bytes<float>({1, 2, 3, 4, 5, 6});
  for (const char version : {1, 2, 3}) {
    const auto elements =
        NpyElements(Npy(Header("<f4", "(2, 3)"), data, version), DataType::kFloat32);
    INFO(elements.status());
    REQUIRE(elements.ok());
    CHECK(*elements == data);
  }
  CHECK(*NpyElements(Npy(Header("<f4", "(6,)"), data), DataType::kFloat32) == data);
  CHECK(*NpyElements(Npy(Header("<f4", "()"), data), DataType::kFloat32) == data.substr(0, 4));
  CHECK(*NpyElements(Npy(Header("|u1", "(24,)"), data), DataType::kUint8) == data);
  CHECK(*NpyElements(Npy(Header("<V2", "(12,)"), data), DataType::kBfloat16) == data);
  CHECK(*NpyElements(Npy(Header("|u1", "(24,)"), data), DataType::kFloat8E4m3) == data);
}

TEST_CASE("An invalid NumPy file or element type is refused", "[npy_file]") {
  const std::string data = Bytes<float>({1, 2, 3, 4});
  CHECK_THAT(ReadError("numbers"), Contains("does not begin with the magic bytes"));
  CHECK_THAT(
      ReadError(Npy(Header("<f8", "(2,)"), data)),
      Contains("holds elements of type '<f8', and the tensor's type float32 is '<f4' there"));
  CHECK_THAT(ReadError(Npy(Header(">f4", "(4,)"), data)), Contains("holds elements of type '>f4'"));
  CHECK_THAT(ReadError(Npy(Header("<f4", "(4,)", "True"), data)), Contains("Fortran order"));
  CHECK_THAT(ReadError(Npy(Header("<f4", "(5,)"), data)),
             Contains("its header says 5 elements, and 16 bytes follow"));
  CHECK_THAT(ReadError(Npy(Header("<f4", "(9999999999, 9999999999)"), data)),
             Contains("not a tuple of sizes"));
  CHECK_THAT(ReadError(Npy(Header("<f4", "[4]"), data)), Contains("not a tuple"));
  CHECK_THAT(ReadError(Npy("{}", data)), Contains("lacks descr, fortran_order or shape"));
  CHECK_THAT(ReadError(Npy(Header("<f4", "(4,)"), data, 9)), Contains("format version 9"));
  // Truncating it anywhere is an error.
  const std::string whole = Npy(Header("<f4", "(4,)"), data);
  for (size_t length = 0; length < whole.size(); ++length) {
    CHECK_FALSE(NpyElements(whole.substr(0, length), DataType::kFloat32).ok());
  }
}

}  // namespace
}  // namespace kernelcast
