#ifndef KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_STORE_EVENT_STORE_SUITE_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_STORE_EVENT_STORE_SUITE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/orchestrator/core/event_store.h"

namespace kernelcast::orchestrator::testing {

// A log that stores of one kind are opened on, one after the other.
struct StoreUnderTest {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<EventStore>>()> open;
  // Puts bytes that are no event in the place of the payload of event `sequence`, behind the
  // store's back; no store is open meanwhile.
  std::function<void(uint64_t sequence)> damage;
};

// What every store must do, as sections of the calling test case. `fresh` makes an empty log.
void CheckEventStore(const std::function<StoreUnderTest()>& fresh);

Event Finishing(const std::string& search_id, int64_t time_ns);
absl::StatusOr<uint64_t> AppendOne(EventStore& store, const Event& event,
                                   const std::string& request_id, const std::string& search_id);

}  // namespace kernelcast::orchestrator::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_STORE_EVENT_STORE_SUITE_H_
