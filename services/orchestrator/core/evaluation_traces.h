#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVALUATION_TRACES_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVALUATION_TRACES_H_

#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/trace_context.h"
#include "common/tracing/tracer.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// Spans of evaluations and searches:
//
//   kernelcast.search                        from its start to its close
//     kernelcast.evaluate                    from acceptance until the settlement is durable
//       .accept .compile .forecast .decide .measure .commit
//
// The parent of an evaluation is the call it came with, or otherwise its search, whose parent is
// the call that started it. Spans are not in the log: a restart ends them. Not thread-safe.
class EvaluationTraces {
 public:
  void BeginSearch(const Search& search, const TraceContext& parent);
  void EndSearch(const std::string& search_id, std::string_view reason);
  // Trace context for work on the search as a whole. Invalid: none.
  TraceContext OfSearch(const std::string& search_id) const;

  // `parent` may be invalid.
  void Begin(const Evaluation& evaluation, const TraceContext& parent);
  // Trace context for the evaluation's calls. Null: none.
  const TraceContext* Of(const std::string& request_id) const;
  // A child span of the evaluation.
  Span Part(const std::string& request_id, std::string_view name) const;
  // Spans for work outside the engine. One stage at a time per evaluation.
  void BeginStage(const std::string& request_id, std::string_view name);
  void EndStage(const std::string& request_id, const absl::Status& status);
  // Removes and returns the evaluation's span. End it when the settlement is durable.
  Span Settle(const Evaluation& evaluation, const EvaluationSettled& settled);

 private:
  struct Live {
    Span whole;
    Span stage;
  };
  std::unordered_map<std::string, Live> live_;      // by request
  std::unordered_map<std::string, Span> searches_;  // by search
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVALUATION_TRACES_H_
