#ifndef KERNELCAST_SERVICES_CLI_RPC_SEARCH_WATCH_H_
#define KERNELCAST_SERVICES_CLI_RPC_SEARCH_WATCH_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"

namespace kernelcast::cli {

// Follows a search from a sequence number of the log. A broken stream is opened again at the last
// sequence number seen, after a growing pause, until the search has ended or the watch is stopped.
// Thread-safe.
class SearchWatch {
 public:
  // Returns the channel to use, at first and after each break. May block and fail.
  using Reconnect = std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>()>;

  SearchWatch(std::string search_id, Reconnect reconnect, uint64_t from_sequence = 0,
              absl::Duration give_up_after = absl::Minutes(2));
  // Stops the watch.
  ~SearchWatch();
  SearchWatch(const SearchWatch&) = delete;
  SearchWatch& operator=(const SearchWatch&) = delete;

  struct Update {
    std::vector<v1::SearchEvent> events;  // in order, each once
    // The error, while the connection is lost.
    std::string trouble;
    // Set once nothing more will come. OK: the search has ended. UNAVAILABLE: the orchestrator did
    // not come back in time. Otherwise the call's error.
    std::optional<absl::Status> ended;
  };
  // Returns new events, waiting at most `timeout` for them.
  Update Next(absl::Duration timeout);

  void Stop();

 private:
  void Run();
  // Runs one stream until it breaks or ends.
  absl::Status Follow(const std::shared_ptr<grpc::Channel>& channel);

  const std::string search_id_;
  const Reconnect reconnect_;
  const absl::Duration give_up_after_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<v1::SearchEvent> events_;
  std::string trouble_;
  std::optional<absl::Status> ended_;
  grpc::ClientContext* context_ = nullptr;
  bool stopped_ = false;

  // Used only by the thread.
  uint64_t last_sequence_;
  // Kinds of events seen with that number: one entry of the log may produce several events.
  std::set<int> last_kinds_;
  bool saw_event_ = false;
  bool saw_end_ = false;

  std::thread thread_;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_SEARCH_WATCH_H_
