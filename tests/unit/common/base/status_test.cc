#include "common/base/status.h"

#include <catch2/catch.hpp>
#include <memory>

namespace kernelcast {
namespace {

absl::StatusOr<std::unique_ptr<int>> Box(int value) {
  if (value < 0) {
    return absl::OutOfRangeError("negative");
  }
  return std::make_unique<int>(value);
}

absl::StatusOr<int> Sum(int a, int b) {
  KC_ASSIGN_OR_RETURN(std::unique_ptr<int> first, Box(a));
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<int> second, Box(b));
  return *first + *second;
}

absl::Status CheckSum(int a, int b) {
  KC_RETURN_IF_ERROR(Sum(a, b).status());
  return absl::OkStatus();
}

}  // namespace

TEST_CASE("The status macros pass values through and return the first error", "[status]") {
  CHECK(Sum(1, 2).value() == 3);
  CHECK(Sum(1, -2).status() == absl::OutOfRangeError("negative"));
  CHECK(CheckSum(1, 2).ok());
  CHECK(CheckSum(-1, 2) == absl::OutOfRangeError("negative"));
}

TEST_CASE("An error gets a prefix, and a value stays as it is", "[status]") {
  CHECK(WithPrefix("a: ", absl::OkStatus()).ok());
  CHECK(WithPrefix("a: ", absl::NotFoundError("b")) == absl::NotFoundError("a: b"));
  CHECK(WithPrefix("a: ", Sum(1, 2)).value() == 3);
  CHECK(WithPrefix("a: ", Sum(1, -2)).status() == absl::OutOfRangeError("a: negative"));
}

}  // namespace kernelcast
