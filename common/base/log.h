#ifndef KERNELCAST_COMMON_BASE_LOG_H_
#define KERNELCAST_COMMON_BASE_LOG_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "absl/status/statusor.h"

namespace kernelcast {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

[[nodiscard]] absl::StatusOr<LogLevel> ParseLogLevel(std::string_view name);

// One key of a log line. The value is copied when the line is written, not before.
struct LogField {
  std::string_view key;
  std::variant<std::string_view, int64_t, uint64_t, double, bool> value;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  template <class T>
  requires std::is_integral_v<T> LogField(std::string_view k, T v)
      : key(k), value(static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(v)) {}
};

// Writes one JSON object on one line to standard error: time, level, service, message, fields.
// Thread-safe: each line is a single write(2). Invalid UTF-8 becomes U+FFFD.
void Log(LogLevel level, std::string_view message, std::span<const LogField> fields);
inline void Log(LogLevel level, std::string_view message,
                std::initializer_list<LogField> fields = {}) {
  Log(level, message, std::span(fields.begin(), fields.size()));
}

// Returns the line that Log writes, including the newline. For tests. `wall_ns` counts from the
// Unix epoch.
std::string FormatLogLine(LogLevel level, int64_t wall_ns, std::string_view service,
                          std::string_view message, std::span<const LogField> fields);
inline std::string FormatLogLine(LogLevel level, int64_t wall_ns, std::string_view service,
                                 std::string_view message, std::initializer_list<LogField> fields) {
  return FormatLogLine(level, wall_ns, service, message, std::span(fields.begin(), fields.size()));
}

// Call once in main, before threads start.
void SetLogService(std::string_view service);
void SetLogLevel(LogLevel minimum);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_LOG_H_
