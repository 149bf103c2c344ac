#include "services/orchestrator/core/append_entry.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/services/orchestrator/event_history.h"

namespace kernelcast::orchestrator {
namespace {

using testing::EventHistory;

TEST_CASE("Each event is stored with the evaluation and search it belongs to") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  history.ProposeMeasured("s1/1", *history.search().generator->Next(), 2);
  history.Add(SearchFinishing{"s1", std::string(kStoppedReason)});
  State state;
  std::vector<std::string> belongs;
  for (const StoredEvent& stored : history.events()) {
    const AppendEntry entry = EntryFor(stored.event, state);
    belongs.push_back(absl::StrCat(entry.request_id, ":", entry.search_id));
    REQUIRE(state.Apply(stored).ok());
  }
  CHECK(belongs == std::vector<std::string>{":", ":s1", "s1/1:s1", "s1/1:s1", "s1/1:s1", "s1/1:s1",
                                            "s1/1:s1", ":s1"});
}

}  // namespace
}  // namespace kernelcast::orchestrator
