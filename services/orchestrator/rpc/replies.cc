#include "services/orchestrator/rpc/replies.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/convert/convert.h"
#include "common/domain/facts.h"
#include "common/domain/search_names.h"
#include "common/rpc/status_conversion.h"
#include "services/orchestrator/convert/convert.h"

namespace kernelcast::orchestrator {

using ::kernelcast::FromProto;

namespace {

constexpr uint32_t kMaxPageSize = 1000;
constexpr absl::Duration kOverloadPause = absl::Milliseconds(200);
constexpr uint32_t kDefaultPageSize = 100;

void AddSchema(const absl::StatusOr<const FactSchema*>& schema, v1::Evaluation& evaluation) {
  if (!schema.ok()) return;
  v1::FactSchema& added = *evaluation.add_fact_schemas();
  added.set_schema(std::string((*schema)->id));
  for (const std::string_view name : (*schema)->names) added.add_names(std::string(name));
  for (const std::string_view meaning : (*schema)->meanings) {
    added.add_meanings(std::string(meaning));
  }
}

void AddFacts(const CompileFacts& facts, v1::Evaluation& evaluation) {
  *evaluation.mutable_facts() = ::kernelcast::ToProto(facts);
  AddSchema(FindFactSchema(facts.schema), evaluation);
  std::set<std::string_view> simulated;
  for (const ShapeSimulation& simulation : facts.simulations) simulated.insert(simulation.schema);
  for (const std::string_view schema : simulated) {
    AddSchema(FindSimulationSchema(schema), evaluation);
  }
}

size_t PageSize(const v1::ListSearchesRequest& request) {
  return request.page_size() == 0 ? kDefaultPageSize : request.page_size();
}

}  // namespace

absl::Status WithRetryHint(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kResourceExhausted && !RetryAfter(status)) {
    return OverloadedError(std::string(status.message()), kOverloadPause);
  }
  return status;
}

absl::StatusOr<Engine::EvaluateCommand> CommandFromProto(const v1::EvaluateRequest& request) {
  Engine::EvaluateCommand command;
  command.request_id = request.request_id();
  command.search_id = request.search_id();
  if (!request.has_candidate()) {
    return absl::InvalidArgumentError("candidate: is missing");
  }
  KC_ASSIGN_OR_RETURN(command.mode, FromProto(request.mode()));
  KC_ASSIGN_OR_RETURN(command.candidate, FromProto(request.candidate()));
  KC_ASSIGN_OR_RETURN(command.device_models,
                      DeviceModelsFromProto("device_models", request.device_models()));
  return command;
}

v1::EvaluateReply ReplyFromRecord(const std::string& request_id, const EvaluationRecord& record,
                                  bool with_facts) {
  const auto evaluation_of = [with_facts](const EvaluationRecord& one) {
    v1::Evaluation evaluation = ToProto(one, /*with_feedback=*/true);
    if (with_facts && one.facts) AddFacts(*one.facts, evaluation);
    return evaluation;
  };
  v1::EvaluateReply reply;
  reply.set_request_id(request_id);
  *reply.mutable_evaluation() = evaluation_of(record);
  for (const EvaluationRecord& other : record.further) *reply.add_further() = evaluation_of(other);
  return reply;
}

v1::EvaluateReply ReplyFromError(const std::string& request_id, const absl::Status& error) {
  const absl::Status status = WithRetryHint(error);
  v1::EvaluateReply reply;
  reply.set_request_id(request_id);
  reply.mutable_error()->set_code(static_cast<int>(status.code()));
  reply.mutable_error()->set_message(ToGrpc(status).error_message());
  if (auto pause = RetryAfter(status)) {
    *reply.mutable_error()->mutable_retry_after() =
        DurationToProto(absl::ToInt64Nanoseconds(*pause));
  }
  return reply;
}

absl::Status UnavailableFor(const std::string& message, absl::Duration pause) {
  absl::Status status = absl::UnavailableError(message);
  OverloadedError(message, pause)
      .ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
        status.SetPayload(url, payload);
      });
  return status;
}

v1::OrchestratorDescription MakeDescription(const WorkerPool& workers,
                                            const ForecasterPool& forecasters,
                                            const EngineFigures& figures, bool draining) {
  v1::OrchestratorDescription description;
  description.set_version(std::string(Version()));
  for (const WorkerView& view : workers.View()) {
    auto* worker = description.add_workers();
    worker->set_address(view.address);
    worker->set_healthy(view.healthy);
    worker->set_unhealthy_reason(view.unhealthy_reason);
    worker->set_ejected(view.ejected);
    *worker->mutable_description() = view.description;
  }
  for (const ForecasterView& view : forecasters.View()) {
    auto* forecaster = description.add_forecasters();
    forecaster->set_address(view.address);
    forecaster->set_healthy(view.healthy);
    forecaster->set_unhealthy_reason(view.unhealthy_reason);
    forecaster->set_pending_labels(view.pending_labels);
    if (view.model_use) *forecaster->mutable_model_use() = *view.model_use;
  }
  for (const Workers::Device& device : workers.Devices()) {
    auto* measurable = description.add_devices();
    measurable->set_target(device.target);
    measurable->set_device_model(device.model);
    measurable->set_measure_slots(device.measure_slots);
  }
  description.set_events(figures.events);
  description.set_draining(draining);
  for (const std::string_view policy : PolicyNames()) description.add_policies(std::string(policy));
  return description;
}

absl::Status CheckPage(const v1::ListSearchesRequest& request) {
  if (request.page_size() <= kMaxPageSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("page_size: is ", request.page_size(),
                                                 "; at most ", kMaxPageSize, " is allowed"));
}

v1::ListSearchesReply MakePage(const v1::ListSearchesRequest& request,
                               const std::vector<SearchSnapshot>& searches) {
  v1::ListSearchesReply page;
  // The page token is the last id returned.
  for (const SearchSnapshot& search : searches) {
    if (search.search_id <= request.page_token()) continue;
    if (request.status() != v1::SEARCH_STATUS_UNSPECIFIED &&
        ToProto(search.status) != request.status()) {
      continue;
    }
    if (static_cast<size_t>(page.searches_size()) == PageSize(request)) {
      page.set_next_page_token(page.searches(page.searches_size() - 1).search_id());
      break;
    }
    v1::Search& added = *page.add_searches();
    added = ToProto(search);
    // They could exceed the size of a message.
    added.mutable_spec()->clear_lessons();
  }
  return page;
}

v1::ListSearchesReply JoinPages(const v1::ListSearchesRequest& request,
                                const std::vector<v1::ListSearchesReply>& parts) {
  std::vector<const v1::Search*> all;
  bool more = false;
  for (const v1::ListSearchesReply& part : parts) {
    for (const v1::Search& search : part.searches()) all.push_back(&search);
    more |= !part.next_page_token().empty();
  }
  std::sort(all.begin(), all.end(), [](const v1::Search* a, const v1::Search* b) {
    return a->search_id() < b->search_id();
  });
  // A part that has more returned a full page, so none of its later ids belongs on this page.
  more |= all.size() > PageSize(request);
  all.resize(std::min(all.size(), PageSize(request)));
  v1::ListSearchesReply page;
  for (const v1::Search* search : all) *page.add_searches() = *search;
  if (more && !all.empty()) page.set_next_page_token(all.back()->search_id());
  return page;
}

}  // namespace kernelcast::orchestrator
