#ifndef KERNELCAST_SERVICES_CLI_RPC_EVENT_ROWS_H_
#define KERNELCAST_SERVICES_CLI_RPC_EVENT_ROWS_H_

#include <vector>

#include "kernelcast/v1/orchestrator.pb.h"
#include "services/cli/core/paper_rows.h"

namespace kernelcast::cli {

// A search's events as the published kinds, numbered from 0. A candidate that is proposed is
// "mutation_completed"; one that is to be measured "candidate_selected", one that is pruned
// "candidate_deferred"; what came of measuring it, or why it was rejected, "evaluation_completed"
// or "evaluation_failed". Requests are not in our log and improvements not among the kinds.
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
