#include "services/orchestrator/core/append_entry.h"

#include <string>
#include <type_traits>
#include <variant>

namespace kernelcast::orchestrator {

AppendEntry EntryFor(const Event& event, const State& state) {
  AppendEntry entry;
  entry.event = &event;
  auto of_evaluation = [&](const std::string& request_id) {
    entry.request_id = request_id;
    if (const Evaluation* evaluation = state.FindEvaluation(request_id)) {
      entry.search_id = evaluation->search_id;
    }
  };
  std::visit(
      [&](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, EvaluationAccepted>) {
          entry.request_id = body.request_id;
          entry.search_id = body.search_id;
        } else if constexpr (std::is_same_v<Body, EvaluationCompiled> ||
                             std::is_same_v<Body, EvaluationForecast> ||
                             std::is_same_v<Body, EvaluationDecided> ||
                             std::is_same_v<Body, MeasurementRepeated> ||
                             std::is_same_v<Body, EvaluationSettled>) {
          of_evaluation(body.request_id);
        } else if constexpr (std::is_same_v<Body, SearchCreated> ||
                             std::is_same_v<Body, GenerationRequested> ||
                             std::is_same_v<Body, GenerationSettled> ||
                             std::is_same_v<Body, GenerationAdvised> ||
                             std::is_same_v<Body, PrunedRanked> ||
                             std::is_same_v<Body, SearchFinishing> ||
                             std::is_same_v<Body, SearchClosed>) {
          entry.search_id = body.search_id;
        } else if constexpr (std::is_same_v<Body, DeviceChosen>) {
          if (body.request_id.empty()) {
            entry.search_id = body.search_id;
          } else {
            of_evaluation(body.request_id);
          }
        }
      },
      event.body);
  return entry;
}

}  // namespace kernelcast::orchestrator
