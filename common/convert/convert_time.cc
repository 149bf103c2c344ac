#include <limits>

#include "common/convert/convert.h"

namespace kernelcast {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

int64_t Saturate(int64_t seconds, int32_t nanos) {
  using Limits = std::numeric_limits<int64_t>;
  const __int128 ns = static_cast<__int128>(seconds) * kNsPerSecond + nanos;
  if (ns < Limits::min()) return Limits::min();
  if (ns > Limits::max()) return Limits::max();
  return static_cast<int64_t>(ns);
}

}  // namespace

google::protobuf::Duration DurationToProto(int64_t ns) {
  google::protobuf::Duration duration;
  duration.set_seconds(ns / kNsPerSecond);
  duration.set_nanos(static_cast<int32_t>(ns % kNsPerSecond));
  return duration;
}

google::protobuf::Timestamp TimestampToProto(int64_t ns) {
  int64_t seconds = ns / kNsPerSecond;
  int64_t nanos = ns % kNsPerSecond;
  if (nanos < 0) {  // a timestamp's nanoseconds count forward
    nanos += kNsPerSecond;
    --seconds;
  }
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(seconds);
  timestamp.set_nanos(static_cast<int32_t>(nanos));
  return timestamp;
}

int64_t ToNanoseconds(const google::protobuf::Duration& duration) {
  return Saturate(duration.seconds(), duration.nanos());
}

int64_t ToNanoseconds(const google::protobuf::Timestamp& timestamp) {
  return Saturate(timestamp.seconds(), timestamp.nanos());
}

}  // namespace kernelcast
