// Requests for several device models: one search or evaluation for each of them.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/engine_ids.h"

namespace kernelcast::orchestrator {

SearchSnapshot Engine::SnapshotOf(const Search& search) const {
  SearchSnapshot snapshot = Snapshot(search, state_);
  if (const auto wait = waits_.find(search.search_id); wait != waits_.end()) {
    snapshot.wait_reason = wait->second.reason;
    snapshot.waiting_since_ns = wait->second.since_ns;
  }
  return snapshot;
}

std::vector<const Search*> Engine::SearchesOf(const std::string& id) const {
  if (const Search* search = state_.FindSearch(id)) return {search};
  return state_.FindSeveral(id);
}

absl::StatusOr<SearchSnapshot> Engine::SnapshotAll(const std::string& id, bool with_archive) const {
  const std::vector<const Search*> searches = SearchesOf(id);
  if (searches.empty()) {
    return absl::NotFoundError(absl::StrCat("search_id: '", id, "' is not known"));
  }
  const auto snapshot = [&](const Search& search) {
    SearchSnapshot one = SnapshotOf(search);
    if (with_archive) one.archive = search.Overview();
    return one;
  };
  SearchSnapshot first = snapshot(*searches.front());
  for (size_t i = 1; i < searches.size(); ++i) first.further.push_back(snapshot(*searches[i]));
  return first;
}

bool Engine::IsAboutSeveral(const EvaluateCommand& command) const {
  if (command.device_models.size() > 1) return true;
  return !command.search_id.empty() && state_.FindSearch(command.search_id) == nullptr &&
         !state_.FindSeveral(command.search_id).empty();
}

void Engine::EvaluateOnEach(EvaluateCommand command, EvaluateDone done) {
  std::vector<EvaluateCommand> commands;
  if (command.device_models.size() > 1) {
    for (const std::string& model : command.device_models) {
      EvaluateCommand& one = commands.emplace_back(command);
      one.request_id = IdForDevice(command.request_id, model);
      one.device_models = {model};
    }
  } else {
    for (const Search* search : state_.FindSeveral(command.search_id)) {
      EvaluateCommand& one = commands.emplace_back(command);
      one.search_id = search->search_id;
      one.request_id =
          absl::StrCat(command.request_id, search->search_id.substr(command.search_id.size()));
    }
  }
  // Shared by the answers, which arrive one at a time on the engine's thread. The last one replies.
  struct Gathered {
    std::vector<EvaluationRecord> records;
    size_t missing = 0;
    absl::Status error;
    EvaluateDone done;
  };
  const auto gathered = std::make_shared<Gathered>();
  gathered->records.resize(commands.size());
  gathered->missing = commands.size();
  gathered->done = std::move(done);
  for (size_t i = 0; i < commands.size(); ++i) {
    HandleEvaluate(std::move(commands[i]), [gathered, i](absl::StatusOr<EvaluationRecord> record) {
      if (record.ok()) {
        gathered->records[i] = *std::move(record);
      } else if (gathered->error.ok()) {
        gathered->error = record.status();
      }
      if (--gathered->missing > 0) return;
      if (!gathered->error.ok()) {
        gathered->done(gathered->error);
        return;
      }
      EvaluationRecord first = std::move(gathered->records.front());
      first.further.assign(std::make_move_iterator(gathered->records.begin() + 1),
                           std::make_move_iterator(gathered->records.end()));
      gathered->done(std::move(first));
    });
  }
}

}  // namespace kernelcast::orchestrator
