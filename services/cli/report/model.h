#ifndef KERNELCAST_SERVICES_CLI_REPORT_MODEL_H_
#define KERNELCAST_SERVICES_CLI_REPORT_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"
#include "kernelcast/v1/orchestrator.pb.h"
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

// Tokens of a request for a kernel, or to a critic, when it had ended.
struct ReportTokenSpend {
  int64_t time_ns = 0;
  uint64_t tokens = 0;
};

struct ReportInput {
  std::string problem_name;
  // If the problem is available.
  std::string problem_title;
  std::string problem_description;
  std::string reference_source;
  uint64_t space_points = 0;
  std::string target;
  std::optional<v1::Search> search;
  // The best candidate of the search, measured again at the final level. Absent if no finalist
  // carries over to the held-out bench shapes.
  std::optional<ReportBest> confirmed;
  std::vector<ReportCandidate> candidates;
  std::vector<ReportTokenSpend> token_spends;
  Prices prices;
  int64_t generated_ns = 0;
  std::string generator_version;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_MODEL_H_
