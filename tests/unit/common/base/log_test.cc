#include "common/base/log.h"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

namespace kernelcast {

TEST_CASE("A log line is one JSON object with time, level, service, message and fields", "[log]") {
  const std::string line =
      FormatLogLine(LogLevel::kWarning, 1'700'000'000'123'456'789, "worker", "queue full",
                    {{"request_id", "r1"},
                     {"depth", 7},
                     {"offset", -3},
                     {"seed", std::numeric_limits<uint64_t>::max()},
                     {"load", 0.5},
                     {"draining", true}});
  CHECK(line == R"({"time":"2023-11-14T22:13:20.123456Z","level":"warning","service":"worker",)"
                R"("message":"queue full","request_id":"r1","depth":7,"offset":-3,)"
                R"("seed":18446744073709551615,"load":0.5,"draining":true})"
                "\n");
}

TEST_CASE("Newlines, quotes and bytes that are not UTF-8 stay within one valid line", "[log]") {
  const std::string line = FormatLogLine(LogLevel::kError, 0, "", "a\nb\"c\xFF",
                                         {{"evil\nkey\xC0", std::string("\0\x80", 2)}});
  CHECK(line.find('\n') == line.size() - 1);
  const auto json = nlohmann::json::parse(line);
  CHECK(json["message"] == "a\nb\"c\xEF\xBF\xBD");
  CHECK(!json.contains("service"));
}

TEST_CASE("A number that JSON cannot hold becomes null", "[log]") {
  const auto json = nlohmann::json::parse(FormatLogLine(
      LogLevel::kInfo, 0, "", "", {{"ratio", std::numeric_limits<double>::quiet_NaN()}}));
  CHECK(json["ratio"].is_null());
}

TEST_CASE("Log levels parse by name, and others are refused with what is allowed", "[log]") {
  CHECK(ParseLogLevel("debug").value() == LogLevel::kDebug);
  CHECK(ParseLogLevel("error").value() == LogLevel::kError);
  const auto bad = ParseLogLevel("loud");
  CHECK(bad.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(bad.status().message()) ==
        "log level 'loud' is not one of debug, info, warning, error");
}

}  // namespace kernelcast
