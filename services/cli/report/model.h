#ifndef KERNELCAST_SERVICES_CLI_REPORT_MODEL_H_
#define KERNELCAST_SERVICES_CLI_REPORT_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/domain/archive_overview.h"
#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"
#include "common/domain/model_answer.h"
#include "services/cli/core/cost.h"

namespace kernelcast::cli {

// Input of a report: the records of settled evaluations and, if available, their search. Nothing
// here is escaped or trusted.

struct ReportCandidate {
  uint64_t sequence = 0;
  std::string request_id;
  Candidate candidate;  // the source may be absent
  CompileFacts facts;
  CompileFacts reference_facts;
  std::optional<Decision> decision;
  // The forecast used for the decision.
  std::optional<Forecast> forecast;
  // At most one of these is set; none: settled on the forecast.
  std::optional<Measurement> measurement;
  std::optional<CompileError> compile_error;
  std::string rejection;  // causes other than a compile error
  bool reused = false;
  // Device time of unstable attempts before the measurement. The first includes the second.
  double unstable_seconds = 0;
  double unstable_preparing_seconds = 0;
  std::string feedback;
  int64_t accepted_ns = 0;
  int64_t settled_ns = 0;
};

struct ReportBest {
  Candidate candidate;
  Measurement measurement;
  std::string request_id;
};

// How often winners were pruned, estimated from the search's audits. See v1.SelectiveRisk.
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
  bool certifies = false;
};

// A candidate measured at the final level at the end of the search. See v1.Finalist.
struct ReportFinalist {
  enum class Gate { kNotMeasured, kCarriesOver, kDoesNotCarryOver, kFailed };

  std::string candidate_id;
  Ratio speedup;
  uint32_t measurements = 0;
  Ratio screening;
  bool tied = false;
  bool failed = false;
  Gate gate = Gate::kNotMeasured;
  Ratio held_out_speedup = {};        // if it was measured there and is right
  std::string held_out_outcome = {};  // if it failed there
};

// Requests to a model for kernels. See v1.GenerationCounts.
struct ReportGeneration {
  uint64_t requested = 0;
  uint64_t written = 0;
  uint64_t duplicates = 0;
  uint64_t unusable = 0;
  uint64_t unanswered = 0;
  uint64_t given_up = 0;
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  double cost = 0;
  uint64_t advised = 0;  // answers of the critic
};

// Device time of the search by purpose.
struct ReportDeviceTime {
  double spent_seconds = 0;  // all of it
  double preparing_seconds = 0;
  double confirming_seconds = 0;
  double avoided_seconds = 0;
};

// Tokens of a request for a kernel, or to a critic, when it had ended.
struct ReportTokenSpend {
  int64_t time_ns = 0;
  uint64_t tokens = 0;
};

struct ReportSearch {
  std::string search_id;
  std::string status;  // "done", "running", ...
  std::string end_reason;
  std::string policy;
  uint64_t seed = 0;
  bool measure_everything = false;
  // E.g. "measurements" -> "80", in the order shown.
  std::vector<std::pair<std::string, std::string>> limits;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  std::string device_model;  // empty: none was chosen
  std::string waiting;       // why the search is blocked
  std::optional<ReportGeneration> generation;
  std::optional<ModelUse> model_use;  // of the forecasts
  TokenUsage unpriced_tokens;         // of requests to endpoints without prices
  std::optional<ArchiveOverview> archive;
  uint64_t lessons = 0;  // of earlier searches, at the start
  std::optional<ReportDeviceTime> device_time;
  std::vector<ReportFinalist> finalists;  // best first
  // Absent if nothing was pruned or audited.
  std::optional<ReportRisk> risk;
  // The best candidate, measured again at the final level. Absent if no finalist carries over to
  // the held-out bench shapes.
  std::optional<ReportBest> confirmed;
  // The best candidate by screening, with its source.
  std::optional<ReportBest> incumbent;
};

struct ReportInput {
  std::string problem_name;
  // If the problem is available.
  std::string problem_title;
  std::string problem_description;
  std::string reference_source;
  uint64_t space_points = 0;
  std::string target;
  std::optional<ReportSearch> search;
  std::vector<ReportCandidate> candidates;
  std::vector<ReportTokenSpend> token_spends;
  Prices prices;
  int64_t generated_ns = 0;
  std::string generator_version;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_MODEL_H_
