#include "services/orchestrator/rpc/log_streams.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/convert/convert.h"
#include "common/rpc/stream_writer.h"
#include "services/orchestrator/convert/convert.h"
#include "services/orchestrator/core/gate.h"

namespace kernelcast::orchestrator {

using ::kernelcast::ToProto;

namespace {

constexpr size_t kEventsPerPage = 256;

// A stream that is fed by a cursor.
template <class Message, class CursorType>
class CursorStream final : public WriteStream<Message> {
 public:
  template <class... Args>
  CursorStream(grpc::CallbackServerContext* context, std::shared_ptr<LogStreams> streams,
               Args&&... args)
      : WriteStream<Message>(context),
        streams_(std::move(streams)),
        cursor_(std::make_shared<CursorType>(this->sender(), std::forward<Args>(args)...)) {}

 private:
  void OnWritable() override { streams_->Feed(cursor_); }
  void OnCancelled() override { streams_->Forget(cursor_); }

  // Shared with the other streams.
  const std::shared_ptr<LogStreams> streams_;
  // Shared with the background thread, which may still read for a stream that is gone.
  const std::shared_ptr<CursorType> cursor_;
};

// OUT_OF_RANGE: the number is beyond that of the log's next event.
absl::Status CheckFromSequence(const EventStore& store, uint64_t from_sequence) {
  if (from_sequence <= 1) return absl::OkStatus();
  KC_ASSIGN_OR_RETURN(const uint64_t last, store.LastSequence());
  if (from_sequence <= last + 1) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("from_sequence: ", from_sequence,
                                            " is beyond the end of the log; from 0 to ", last + 1,
                                            " is allowed"));
}

// The event in the form sent to watchers of the search. Empty for events that are not sent.
std::optional<v1::SearchEvent> WatchEvent(const StoredEvent& stored, const State& before) {
  v1::SearchEvent event;
  const EventBody& body = stored.event.body;
  if (const auto* created = std::get_if<SearchCreated>(&body)) {
    *event.mutable_started()->mutable_spec() = ToProto(created->spec);
  } else if (const auto* accepted = std::get_if<EvaluationAccepted>(&body)) {
    auto* proposed = event.mutable_proposed();
    proposed->set_request_id(accepted->request_id);
    proposed->set_candidate_id(accepted->candidate.candidate_id);
    proposed->set_origin(SanitizeUtf8(accepted->candidate.origin));
    proposed->set_name(SanitizeUtf8(accepted->candidate.name));
    proposed->set_parent_candidate_id(accepted->candidate.parent_candidate_id);
  } else if (const auto* forecast = std::get_if<EvaluationForecast>(&body)) {
    const auto* value = std::get_if<Forecast>(&forecast->result);
    if (value == nullptr) return std::nullopt;
    auto* message = event.mutable_forecast();
    message->set_request_id(forecast->request_id);
    message->set_candidate_id(value->candidate_id);
    *message->mutable_forecast() = ToProto(*value);
  } else if (const auto* decided = std::get_if<EvaluationDecided>(&body)) {
    auto* message = event.mutable_decided();
    message->set_request_id(decided->request_id);
    if (const Evaluation* evaluation = before.FindEvaluation(decided->request_id)) {
      message->set_candidate_id(evaluation->candidate.candidate_id);
    }
    *message->mutable_decision() = ToProto(decided->decision);
  } else if (const auto* settled = std::get_if<EvaluationSettled>(&body)) {
    const Evaluation* evaluation = before.FindEvaluation(settled->request_id);
    if (evaluation == nullptr || !evaluation->decision) return std::nullopt;
    *event.mutable_settled() =
        ToProto(MakeRecord(*evaluation, *settled, stored.event.time_ns, stored.sequence), true);
  } else if (const auto* generation = std::get_if<GenerationSettled>(&body)) {
    *event.mutable_generation() = ToProto(*generation);
  } else if (const auto* advised = std::get_if<GenerationAdvised>(&body)) {
    *event.mutable_advice() = ToProto(*advised);
  } else if (const auto* finishing = std::get_if<SearchFinishing>(&body)) {
    event.mutable_ended()->set_reason(finishing->reason);
  } else if (const auto* closed = std::get_if<SearchClosed>(&body)) {
    event.mutable_ended()->set_reason(closed->reason);
  } else {
    return std::nullopt;
  }
  event.set_sequence(stored.sequence);
  *event.mutable_time() = TimestampToProto(stored.event.time_ns);
  return event;
}

// The searches on several device models that `id` stands for. Empty: none.
std::vector<std::string> SearchIdsOf(Engine* engine, const std::string& id) {
  std::vector<std::string> ids;
  engine->Inspect([&](const State& state) {
    for (const Search* search : state.FindSeveral(id)) ids.push_back(search->search_id);
  });
  return ids;
}

class WatchCursor final : public LogStreams::Cursor {
 public:
  WatchCursor(StreamSender<v1::SearchEvent> sender, Engine* engine, const EventStore* store,
              std::string search_id, uint64_t from_sequence)
      : sender_(std::move(sender)),
        engine_(engine),
        store_(store),
        search_id_(std::move(search_id)),
        from_sequence_(from_sequence) {}

  bool open() const override { return sender_.open(); }
  void End(const absl::Status& status) override { sender_.FinishWith(status); }

  bool SendPage() override {
    if (next_sequence_ == 1) {
      if (const absl::Status valid = CheckFromSequence(*store_, from_sequence_); !valid.ok()) {
        End(valid);
        return true;
      }
    }
    bool sent = false;
    while (!sent) {
      auto events = store_->ReadSearch(search_id_, next_sequence_, kEventsPerPage);
      if (!events.ok()) {
        End(events.status());
        return true;
      }
      if (events->empty()) {
        if (next_sequence_ == 1) {
          End(NoSuchSearch());
          return true;
        }
        return false;
      }
      for (const StoredEvent& stored : *events) {
        next_sequence_ = stored.sequence + 1;
        sent |= SendEvent(stored);
        if (std::holds_alternative<SearchClosed>(stored.event.body)) {
          End(absl::OkStatus());
          return true;
        }
      }
    }
    return true;
  }

 private:
  absl::Status NoSuchSearch() const {
    const std::vector<std::string> several = SearchIdsOf(engine_, search_id_);
    if (several.empty()) {
      return absl::NotFoundError(absl::StrCat("search_id: '", search_id_, "' is not known"));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "search_id: '", search_id_, "' is a search on several device models; watch one of ",
        absl::StrJoin(several, ", ")));
  }

  // Events are applied from the search's beginning, so that each one is sent with the counts of its
  // time.
  bool SendEvent(const StoredEvent& stored) {
    std::optional<v1::SearchEvent> event = WatchEvent(stored, state_);
    const std::string incumbent_before = IncumbentRequest();
    if (!state_.Apply(stored).ok()) return false;
    const Search* search = state_.FindSearch(search_id_);
    if (stored.sequence < from_sequence_ || search == nullptr) return false;
    auto stamp = [&](v1::SearchEvent& message) {
      message.set_search_id(search_id_);
      *message.mutable_counts() = ToProto(search->counts);
      message.set_status(ToProto(search->status));
    };
    if (event) {
      if (event->has_ended()) {
        const auto& best = search->confirmed ? search->confirmed : search->incumbent;
        if (event->ended().reason().empty()) event->mutable_ended()->set_reason(search->end_reason);
        if (best && !NothingCarriesOver(search->finalists)) {
          event->mutable_ended()->set_best_candidate_id(best->candidate.candidate_id);
          *event->mutable_ended()->mutable_best_speedup() =
              ToProto(*MeasuredSpeedup(best->measurement));
        }
      }
      stamp(*event);
      sender_.Send(*std::move(event));
    }
    if (IncumbentRequest() != incumbent_before) {
      v1::SearchEvent improved;
      improved.set_sequence(stored.sequence);
      *improved.mutable_time() = TimestampToProto(stored.event.time_ns);
      auto* message = improved.mutable_improved();
      message->set_request_id(search->incumbent->request_id);
      message->set_candidate_id(search->incumbent->candidate.candidate_id);
      *message->mutable_speedup() = ToProto(*MeasuredSpeedup(search->incumbent->measurement));
      stamp(improved);
      sender_.Send(std::move(improved));
    }
    return event.has_value();
  }

  std::string IncumbentRequest() const {
    const Search* search = state_.FindSearch(search_id_);
    return search != nullptr && search->incumbent ? search->incumbent->request_id : "";
  }

  const StreamSender<v1::SearchEvent> sender_;
  Engine* const engine_;
  const EventStore* const store_;
  const std::string search_id_;
  const uint64_t from_sequence_;
  uint64_t next_sequence_ = 1;
  State state_;
};

class ExportCursor final : public LogStreams::Cursor {
 public:
  ExportCursor(StreamSender<v1::ExportRecord> sender, Engine* engine, const EventStore* store,
               const v1::ExportRequest& request)
      : sender_(std::move(sender)),
        engine_(engine),
        store_(store),
        search_id_(request.search_id()),
        include_sources_(request.include_sources()),
        from_sequence_(std::max<uint64_t>(1, request.from_sequence())) {}

  bool open() const override { return sender_.open(); }
  void End(const absl::Status& status) override { sender_.FinishWith(status); }

  bool SendPage() override {
    if (parts_.empty()) {
      if (const absl::Status valid = CheckFromSequence(*store_, from_sequence_); !valid.ok()) {
        End(valid);
        return true;
      }
      FindParts();
    }
    bool sent = false;
    while (!sent) {
      auto events = NextEvents();
      if (!events.ok() || events->empty()) {
        End(events.status());
        return true;
      }
      for (const StoredEvent& stored : *events) {
        const auto* settled = std::get_if<EvaluationSettled>(&stored.event.body);
        if (settled == nullptr) continue;
        auto whole = store_->ReadEvaluation(settled->request_id);
        if (!whole.ok()) {
          End(whole.status());
          return true;
        }
        if (std::optional<EvaluationRecord> record = FoldEvaluation(*whole)) {
          const Context* const context = ContextOf(record->candidate, record->device_model);
          if (context == nullptr) {
            End(absl::UnavailableError("the orchestrator is stopping; export again"));
            return true;
          }
          sender_.Send(ToRecord(*record, *context));
          sent = true;
        }
      }
    }
    return true;
  }

 private:
  struct Context {
    std::string problem_name;
    CompileFacts reference_facts;
  };
  // A search, and its events that were read but not sent.
  struct Part {
    std::string search_id;
    uint64_t next_sequence = 0;
    std::deque<StoredEvent> read;
    bool ended = false;
  };

  // Finds one search, those on several device models, or everything.
  void FindParts() {
    std::vector<std::string> ids;
    if (!search_id_.empty()) ids = SearchIdsOf(engine_, search_id_);
    if (ids.empty()) ids = {search_id_};
    for (std::string& id : ids) parts_.push_back({std::move(id), from_sequence_, {}, false});
  }

  // The next events in the order of the log. Empty: no more.
  absl::StatusOr<std::vector<StoredEvent>> NextEvents() {
    std::vector<StoredEvent> events;
    while (events.size() < kEventsPerPage) {
      KC_RETURN_IF_ERROR(ReadPages());
      Part* first = nullptr;
      for (Part& part : parts_) {
        if (part.read.empty()) continue;
        if (first == nullptr || part.read.front().sequence < first->read.front().sequence) {
          first = &part;
        }
      }
      if (first == nullptr) break;
      events.push_back(std::move(first->read.front()));
      first->read.pop_front();
    }
    return events;
  }

  // Reads the next page of each part that has nothing left. If any part had events, parts without
  // new events are read again, so that no earlier event is skipped: the client resumes after the
  // last record it has seen.
  absl::Status ReadPages() {
    for (bool found = true; found;) {
      found = false;
      for (Part& part : parts_) {
        if (!part.read.empty() || part.ended) continue;
        KC_ASSIGN_OR_RETURN(std::vector<StoredEvent> page,
                            store_->ReadSearch(part.search_id, part.next_sequence, kEventsPerPage));
        part.ended = page.empty();
        if (page.empty()) continue;
        found = true;
        for (Part& other : parts_) other.ended = false;
        part.next_sequence = page.back().sequence + 1;
        part.read.assign(std::make_move_iterator(page.begin()),
                         std::make_move_iterator(page.end()));
      }
    }
    return absl::OkStatus();
  }

  v1::ExportRecord ToRecord(const EvaluationRecord& record, const Context& context) const {
    v1::ExportRecord message;
    message.set_sequence(record.settled_sequence);
    *message.mutable_evaluation() = ToProto(record, /*with_feedback=*/true);
    *message.mutable_candidate() = ToProto(record.candidate);
    if (!include_sources_) message.mutable_candidate()->clear_source();
    if (record.facts) *message.mutable_facts() = ToProto(*record.facts);
    if (!context.reference_facts.schema.empty()) {
      *message.mutable_reference_facts() = ToProto(context.reference_facts);
    }
    message.set_problem_name(context.problem_name);
    return message;
  }

  // Null once the engine has stopped.
  const Context* ContextOf(const Candidate& candidate, const std::string& device_model) {
    auto [entry, inserted] =
        contexts_.try_emplace({candidate.problem_id, candidate.target, device_model});
    if (inserted) {
      const bool inspected = engine_->Inspect([&, &context = entry->second](const State& state) {
        if (auto problem = state.FindProblem(candidate.problem_id)) {
          context.problem_name = problem->name;
        }
        if (const ReferenceDescribed* reference =
                state.FindReference(candidate.problem_id, candidate.target, device_model)) {
          context.reference_facts = reference->facts;
        }
      });
      if (!inspected) {
        contexts_.erase(entry);
        return nullptr;
      }
    }
    return &entry->second;
  }

  const StreamSender<v1::ExportRecord> sender_;
  Engine* const engine_;
  const EventStore* const store_;
  const std::string search_id_;
  const bool include_sources_;
  const uint64_t from_sequence_;
  std::vector<Part> parts_;  // empty before the first page
  std::map<std::tuple<std::string, std::string, std::string>, Context> contexts_;
};

}  // namespace

LogStreams::LogStreams(Engine* engine, const EventStore* store, std::shared_ptr<const void> owner)
    : owner_(std::move(owner)), engine_(engine), store_(store) {
  listener_ = engine_->AddListener([this](uint64_t) { WakeWaiting(); });
}

LogStreams::~LogStreams() { engine_->RemoveListener(listener_); }

grpc::ServerWriteReactor<v1::SearchEvent>* LogStreams::Watch(grpc::CallbackServerContext* context,
                                                             const std::string& search_id,
                                                             uint64_t from_sequence) {
  return new CursorStream<v1::SearchEvent, WatchCursor>(context, shared_from_this(), engine_,
                                                        store_, search_id, from_sequence);
}

grpc::ServerWriteReactor<v1::ExportRecord>* LogStreams::Export(grpc::CallbackServerContext* context,
                                                               const v1::ExportRequest& request) {
  return new CursorStream<v1::ExportRecord, ExportCursor>(context, shared_from_this(), engine_,
                                                          store_, request);
}

void LogStreams::Feed(const std::shared_ptr<Cursor>& cursor) {
  thread_.Submit([this, cursor] {
    const uint64_t events_before = engine_->figures().events;
    if (!cursor->open() || cursor->SendPage()) return;
    bool draining = false;
    {
      std::lock_guard lock(mutex_);
      draining = draining_;
      if (!draining) waiting_.insert(cursor);
    }
    if (draining) {
      cursor->End(absl::UnavailableError(
          "the orchestrator is draining; watch again from the last sequence number seen"));
    } else if (engine_->figures().events != events_before) {
      // A commit happened between the read and the registration.
      WakeWaiting();
    }
  });
}

void LogStreams::Forget(const std::shared_ptr<Cursor>& cursor) {
  std::lock_guard lock(mutex_);
  waiting_.erase(cursor);
}

void LogStreams::WakeWaiting() {
  std::set<std::shared_ptr<Cursor>> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
  }
  for (const auto& cursor : waiting) Feed(cursor);
}

void LogStreams::BeginDrain() {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  WakeWaiting();
}

}  // namespace kernelcast::orchestrator
