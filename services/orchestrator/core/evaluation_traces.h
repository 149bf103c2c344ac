#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVALUATION_TRACES_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVALUATION_TRACES_H_

#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/trace_context.h"
#include "common/tracing/tracer.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// The spans of evaluations and searches that belong to traces:
//
//   kernelcast.search                        from its start to its close
//     kernelcast.evaluate                    from acceptance until the settlement is durable
//       .accept .compile .forecast .decide .measure .commit
//
// An evaluation's parent is the call that it came with, or else its search, which has that of the
// call that started it. They are not in the log: a restart ends them. Not thread-safe.
class EvaluationTraces {
 public:
  void BeginSearch(const Search& search, const TraceContext& parent);
  void EndSearch(const std::string& search_id, std::string_view reason);
  // Where what is done for the search as a whole belongs; not valid: nowhere.
  TraceContext OfSearch(const std::string& search_id) const;

  // `parent` may not be valid.
  void Begin(const Evaluation& evaluation, const TraceContext& parent);
  // Where the evaluation's calls belong; null: nowhere.
  const TraceContext* Of(const std::string& request_id) const;
  // A piece of it, which ends with the span.
  Span Part(const std::string& request_id, std::string_view name) const;
  // One at a time: begins what the evaluation waits for outside, and ends it.
  void BeginStage(const std::string& request_id, std::string_view name);
  void EndStage(const std::string& request_id, const absl::Status& status);
  // The whole span, to be ended when the settlement is durable.
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
