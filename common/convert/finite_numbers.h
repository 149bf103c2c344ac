#ifndef KERNELCAST_COMMON_CONVERT_FINITE_NUMBERS_H_
#define KERNELCAST_COMMON_CONVERT_FINITE_NUMBERS_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"

namespace kernelcast {

// For messages from a file: protobuf's JSON has "NaN" and "Infinity" for any floating-point field.
// INVALID_ARGUMENT, naming the field and the value: a number of the message, at any depth, is not
// finite. What a kernel yielded may be anything: got, expected and normwise_error of WrongResult.
[[nodiscard]] absl::Status CheckFiniteNumbers(const google::protobuf::Message& message);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_FINITE_NUMBERS_H_
