#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_APPEND_ENTRY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_APPEND_ENTRY_H_

#include "services/orchestrator/core/event.h"
#include "services/orchestrator/core/event_store.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// The ids that an event belongs to, for the store's index. `state` is the state before the event.
AppendEntry EntryFor(const Event& event, const State& state);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_APPEND_ENTRY_H_
