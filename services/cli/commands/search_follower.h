#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_SEARCH_FOLLOWER_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_SEARCH_FOLLOWER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/core/progress.h"
#include "services/cli/core/search_tree.h"
#include "services/cli/report/learning.h"

namespace kernelcast::cli {

// Parts of the display of a running search besides its figures.
struct FollowOptions {
  bool tree = false;
  bool archive = false;
  Prices prices;
};

// Shows a running search until it has ended or the user interrupts. SIGINT stops the search; other
// signals leave it as it is. Not thread-safe.
class SearchFollower {
 public:
  SearchFollower(Context& context, Connection& connection, const v1::Search& search,
                 const FollowOptions& options);

  // OK: the search has ended, or the user interrupted, which sets `interrupted`. After an interrupt
  // it waits at most a second for the search to end.
  absl::Status Follow(bool& interrupted);

 private:
  absl::Status Stop();
  // Says that the search has not ended, and how to follow it.
  std::string ContinuesText() const;
  std::string Label(const std::string& candidate_id) const;
  void Apply(const v1::SearchEvent& event);
  void ApplyGeneration(const v1::Generation& generation);
  void ApplySettled(const v1::Evaluation& evaluation);
  // Adds a settled candidate to the tree.
  void AddToTree(const std::string& candidate_id, TreeEntry::Fate fate, double speedup = 0);
  // Draws the tree and the archive again, if that is due.
  void UpdateDetails();
  void FetchArchive();
  void Show(int64_t tick);

  Context& context_;
  Connection& connection_;
  const FollowOptions options_;
  SearchProgress progress_;
  Pace pace_;
  LearningCounter learning_;
  std::map<std::string, std::string> names_;
  std::map<std::string, std::string> parents_;
  std::vector<TreeEntry> measured_;
  std::vector<TreeEntry> entries_;  // all that are settled, if the tree is shown
  double fastest_ = 0;
  std::vector<std::string> tree_lines_;
  std::vector<std::string> archive_lines_;
  size_t drawn_entries_ = 0;
  int64_t details_ns_ = 0;
  int64_t started_ns_ = 0;
  int64_t last_line_ns_ = 0;
  SearchProgress::Phase last_phase_ = SearchProgress::Phase::kStarting;
  std::string last_connection_;
  bool improved_ = false;
  bool model_away_ = false;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_SEARCH_FOLLOWER_H_
