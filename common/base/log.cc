#include "common/base/log.h"

#include <errno.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/trace_context.h"

namespace kernelcast {
namespace {

std::atomic<LogLevel> minimum_level{LogLevel::kInfo};

std::string& Service() {
  // Leaked, because threads may log while static objects are destroyed.
  static std::string* const service = new std::string;
  return *service;
}

std::string_view Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "error";
}

}  // namespace

absl::StatusOr<LogLevel> ParseLogLevel(std::string_view name) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (name == Name(level)) {
      return level;
    }
  }
  return absl::InvalidArgumentError("log level '" + std::string(name) +
                                    "' is not one of debug, info, warning, error");
}

std::string FormatLogLine(LogLevel level, int64_t wall_ns, std::string_view service,
                          std::string_view message, std::span<const LogField> fields) {
  nlohmann::ordered_json line;
  line["time"] =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromUnixNanos(wall_ns), absl::UTCTimeZone());
  line["level"] = Name(level);
  if (!service.empty()) {
    line["service"] = service;
  }
  line["message"] = message;
  // Ids of the request that this thread is working on.
  if (const TraceContext* trace = CurrentTrace()) {
    line["trace_id"] = TraceIdHex(*trace);
    line["span_id"] = SpanIdHex(*trace);
  }
  for (const LogField& field : fields) {
    std::visit([&](const auto& value) { line[std::string(field.key)] = value; }, field.value);
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void Log(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (level < minimum_level.load(std::memory_order_relaxed)) {
    return;
  }
  const std::string line = FormatLogLine(level, Clock::Real().WallNs(), Service(), message, fields);
  // One call writes a line whole. A line that a full disk or a closed pipe refuses is lost.
  ssize_t written;
  do {
    written = write(STDERR_FILENO, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
}

void SetLogService(std::string_view service) { Service() = service; }

void SetLogLevel(LogLevel minimum) { minimum_level = minimum; }

}  // namespace kernelcast
