#ifndef KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_STORE_EVENT_STORE_SUITE_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_STORE_EVENT_STORE_SUITE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/orchestrator/core/event_store.h"

namespace kernelcast::orchestrator::testing {

// A log on which stores of one kind are opened, one after the other.
struct StoreUnderTest {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<EventStore>>()> open;
  // The same, by an operator who accepts the loss of events.
  std::function<absl::StatusOr<std::unique_ptr<EventStore>>()> open_accepting_loss;
  // Replaces the payload of event `sequence` with bytes that are not an event. No store may be
  // open.
  std::function<void(uint64_t sequence)> damage;
  // Runs SQL on the store's event table, named EVENTS. No store may be open.
  std::function<void(const std::string& sql)> execute;
};

// The requirements of every store, as sections of the calling test case. `fresh` makes an empty
// log.
void CheckEventStore(const std::function<StoreUnderTest()>& fresh);

Event Finishing(const std::string& search_id, int64_t time_ns);
absl::StatusOr<uint64_t> AppendOne(EventStore& store, const Event& event,
                                   const std::string& request_id, const std::string& search_id);

}  // namespace kernelcast::orchestrator::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_STORE_EVENT_STORE_SUITE_H_
