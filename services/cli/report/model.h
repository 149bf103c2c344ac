#ifndef KERNELCAST_SERVICES_CLI_REPORT_MODEL_H_
#define KERNELCAST_SERVICES_CLI_REPORT_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"

namespace kernelcast::cli {

// What a report is made from: the records of settled evaluations and, where one is at hand, the
// search that they belong to. Nothing here is escaped or trusted.

struct ReportCandidate {
  uint64_t sequence = 0;
  std::string request_id;
  Candidate candidate;  // the source may be absent
  CompileFacts facts;
  CompileFacts reference_facts;
  std::optional<Decision> decision;
  // The forecast on which it was decided.
  std::optional<Forecast> forecast;
  // At most one of these is set; none: settled on the forecast.
  std::optional<Measurement> measurement;
  std::optional<CompileError> compile_error;
  std::string rejection;  // other causes than a compile error, in words
  bool reused = false;
  std::string feedback;
  int64_t accepted_ns = 0;
  int64_t settled_ns = 0;
};

struct ReportBest {
  Candidate candidate;
  Measurement measurement;
  std::string request_id;
};

// How often winners were pruned, as the search's audits say; v1.SelectiveRisk has the meanings.
struct ReportRisk {
  double estimate = 0;
  double low = 0;
  double high = 1;
  uint64_t candidates = 0;
  uint64_t measured = 0;
  double certified_threshold = 0;
  double alpha = 0;
  double delta = 0;
  bool informative = false;
  uint64_t alarms = 0;
};

struct ReportSearch {
  std::string search_id;
  std::string status;  // "done", "running", ...
  std::string end_reason;
  std::string policy;
  uint64_t seed = 0;
  bool measure_everything = false;
  // "measurements" -> "80", in the order shown.
  std::vector<std::pair<std::string, std::string>> limits;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  // Absent where nothing was pruned or audited.
  std::optional<ReportRisk> risk;
  // The best, measured again at the final level.
  std::optional<ReportBest> confirmed;
  // The best by screening, with its source.
  std::optional<ReportBest> incumbent;
};

struct ReportInput {
  std::string problem_name;
  // Where the problem is at hand.
  std::string problem_title;
  std::string problem_description;
  std::string reference_source;
  uint64_t space_points = 0;
  std::string target;
  std::optional<ReportSearch> search;
  std::vector<ReportCandidate> candidates;
  int64_t generated_ns = 0;
  std::string generator_version;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_MODEL_H_
