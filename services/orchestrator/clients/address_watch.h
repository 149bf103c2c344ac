#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_ADDRESS_WATCH_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_ADDRESS_WATCH_H_

#include <compare>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kernelcast::orchestrator {

// A process that can be called.
struct PeerAddress {
  std::string address;  // "host:port" or "unix:PATH"
  // Name to verify in its certificate. Empty: the name in the address.
  std::string authority;

  bool operator==(const PeerAddress&) const = default;
  auto operator<=>(const PeerAddress&) const = default;
};

// Resolves a host to numeric addresses with the system's resolver: /etc/hosts, DNS and other
// sources in nsswitch.conf. Blocks as long as resolv.conf allows. NOT_FOUND: no such name.
// UNAVAILABLE: the look-up failed.
absl::StatusOr<std::vector<std::string>> LookUpHost(const std::string& host);

struct AddressWatchOptions {
  // "host:port" and "unix:PATH" stand for one peer each, "dns:///NAME:PORT" for one peer per
  // address of the name.
  std::vector<std::string> addresses;
  absl::Duration interval = absl::Seconds(5);
  // Minimum time between two look-ups of a name, even if more are requested.
  absl::Duration least_interval = absl::Milliseconds(500);
  std::function<absl::StatusOr<std::vector<std::string>>(const std::string& host)> look_up =
      LookUpHost;
};

// Tracks the peers behind a list of addresses. gRPC's own resolver is not enough: it gives a
// channel all addresses of a name and does not tell which of them a call used, so credits and
// health of single peers could not be tracked.
//
// Each name is looked up on its own thread, so that a name server that does not answer delays
// neither calls nor other names. A look-up that fails or finds nothing changes nothing: peers are
// removed only by a DNS answer without them. Thread-safe.
class AddressWatch {
 public:
  using OnChange = std::function<void(const std::vector<PeerAddress>& peers)>;

  // `on_change` is called with all peers, each once and in order: before Start returns, and then
  // after every change. Calls do not overlap. INVALID_ARGUMENT names an address that cannot be
  // used.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AddressWatch>> Start(
      AddressWatchOptions options, OnChange on_change);
  // No call of `on_change` follows. Waits briefly for a running look-up; its thread may end later.
  ~AddressWatch();

  // Looks all names up soon, because a peer is lost and may have moved.
  void LookAgain();

 private:
  struct Shared;
  explicit AddressWatch(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  static void Follow(const std::shared_ptr<Shared>& shared, size_t index);

  // Shared with threads that may be left behind in a look-up.
  const std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_ADDRESS_WATCH_H_
