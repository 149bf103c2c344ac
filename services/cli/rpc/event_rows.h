#ifndef KERNELCAST_SERVICES_CLI_RPC_EVENT_ROWS_H_
#define KERNELCAST_SERVICES_CLI_RPC_EVENT_ROWS_H_

#include <vector>

#include "kernelcast/v1/orchestrator.pb.h"
#include "services/cli/core/paper_rows.h"

namespace kernelcast::cli {

// Converts a search's events to the published kinds, numbered from 0. A proposed candidate is
// "mutation_completed"; one to be measured is "candidate_selected", a pruned one
// "candidate_deferred"; a measurement or rejection is "evaluation_completed" or
// "evaluation_failed". The log has no events for requests, and there is no published kind for
// improvements.
class EventRowMaker {
 public:
  explicit EventRowMaker(const v1::Search& search) : search_(search) {}

  std::vector<SearchEventRow> Rows(const v1::SearchEvent& event);

 private:
  SearchEventRow& Add(const char* kind, RowJson payload, std::vector<SearchEventRow>& rows);
  void AddSettled(const v1::Evaluation& evaluation, std::vector<SearchEventRow>& rows);

  const v1::Search search_;
  int64_t next_index_ = 0;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_EVENT_ROWS_H_
