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

// One process that can be called.
struct PeerAddress {
  std::string address;  // "host:port" or "unix:PATH"
  // The name that its certificate is checked against; empty: that of the address.
  std::string authority;

  bool operator==(const PeerAddress&) const = default;
  auto operator<=>(const PeerAddress&) const = default;
};

// The numeric addresses of a host, by the system's resolver: /etc/hosts, DNS and whatever else
// nsswitch.conf says. Blocks, for as long as resolv.conf says. NOT_FOUND: no such name;
// UNAVAILABLE: nobody knows.
absl::StatusOr<std::vector<std::string>> LookUpHost(const std::string& host);

struct AddressWatchOptions {
  // "host:port" and "unix:PATH" stand for one peer, "dns:///NAME:PORT" for one at each address that
  // the name has.
  std::vector<std::string> addresses;
  absl::Duration interval = absl::Seconds(5);
  // Between two look-ups of a name, however often they are asked for.
  absl::Duration least_interval = absl::Milliseconds(500);
  std::function<absl::StatusOr<std::vector<std::string>>(const std::string& host)> look_up =
      LookUpHost;
};

// Follows which peers a list of addresses stands for. gRPC's own resolver is no help: it gives a
// channel all addresses of a name, and does not tell which of them a call went to, so that credits
// and health of single peers could not be kept.
//
// Every name is looked up on a thread of its own, so that a name server that does not answer holds
// up neither calls nor other names. A look-up that fails, or finds nothing, changes nothing: peers
// are left by a record that says so, not by a name server that is away. Thread-safe.
class AddressWatch {
 public:
  using OnChange = std::function<void(const std::vector<PeerAddress>& peers)>;

  // `on_change` is called with all peers, each once and in order: before Start returns, and from
  // then on whenever they have changed, one call after the other. INVALID_ARGUMENT names an address
  // that cannot be used.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AddressWatch>> Start(
      AddressWatchOptions options, OnChange on_change);
  // `on_change` is not called any more. A look-up under way is waited for, but not for long: its
  // thread then ends by itself.
  ~AddressWatch();

  // Looks all names up soon: a peer is lost, and may be elsewhere by now.
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
