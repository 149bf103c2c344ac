#include "services/orchestrator/clients/address_watch.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/host_and_port.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace kernelcast::orchestrator {
namespace {

constexpr std::chrono::seconds kPatience{2};
constexpr std::string_view kDnsScheme = "dns:";

absl::StatusOr<HostAndPort> ParseDnsName(const std::string& address) {
  const auto bad = [&address](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("address '", address, "' ", what));
  };
  std::string_view rest = std::string_view(address).substr(kDnsScheme.size());
  if (rest.substr(0, 2) == "//") {
    rest.remove_prefix(2);
    if (rest.empty() || rest.front() != '/')
      return bad("names a DNS server, which is not supported");
    rest.remove_prefix(1);
  }
  std::optional<HostAndPort> name = SplitHostAndPort(rest);
  if (!name.has_value() || name->port == 0) return bad("is not dns:///NAME:PORT");
  return *std::move(name);
}

std::string Join(const std::string& ip, int port) {
  return ip.find(':') == std::string::npos ? absl::StrCat(ip, ":", port)
                                           : absl::StrCat("[", ip, "]:", port);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LookUpHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    const std::string message = absl::StrCat(host, ": ", gai_strerror(error));
    return error == EAI_NONAME || error == EAI_NODATA ? absl::NotFoundError(message)
                                                      : absl::UnavailableError(message);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text);
    }
  }
  return addresses;
}

struct AddressWatch::Shared {
  struct Name {
    std::string authority;
    HostAndPort name;
    std::vector<PeerAddress> peers;
    bool asked = false;   // another look-up was requested
    bool failed = false;  // the last look-up failed, and that has been logged
  };

  AddressWatchOptions options;
  std::vector<PeerAddress> fixed;

  // Held while on_change runs. Never taken with `mutex` held.
  std::mutex reporting;
  OnChange on_change ABSL_GUARDED_BY(reporting);
  std::vector<PeerAddress> reported ABSL_GUARDED_BY(reporting);

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Name> names ABSL_GUARDED_BY(mutex);
  size_t following ABSL_GUARDED_BY(mutex) = 0;
  bool stopping ABSL_GUARDED_BY(mutex) = false;

  void Report(bool even_if_same) {
    const std::lock_guard reporting_lock(reporting);
    // If two entries resolve to the same peer, the first one names it.
    std::vector<PeerAddress> peers;
    {
      const std::lock_guard lock(mutex);
      if (stopping) return;
      std::set<std::string> seen;
      const auto add = [&](const PeerAddress& peer) {
        if (seen.insert(peer.address).second) peers.push_back(peer);
      };
      for (const PeerAddress& peer : fixed) add(peer);
      for (const Name& name : names) {
        for (const PeerAddress& peer : name.peers) add(peer);
      }
    }
    if (peers == reported && !even_if_same) return;
    reported = peers;
    on_change(peers);
  }
};

absl::StatusOr<std::unique_ptr<AddressWatch>> AddressWatch::Start(AddressWatchOptions options,
                                                                  OnChange on_change) {
  auto shared = std::make_shared<Shared>();
  for (const std::string& address : options.addresses) {
    if (address.rfind(kDnsScheme, 0) != 0) {
      shared->fixed.push_back({address, ""});
      continue;
    }
    Shared::Name name;
    KC_ASSIGN_OR_RETURN(name.name, ParseDnsName(address));
    name.authority = absl::StrCat(name.name.host, ":", name.name.port);
    shared->names.push_back(std::move(name));
  }
  shared->options = std::move(options);
  shared->on_change = std::move(on_change);
  shared->following = shared->names.size();
  shared->Report(/*even_if_same=*/true);
  std::unique_ptr<AddressWatch> watch(new AddressWatch(shared));
  for (size_t i = 0; i < shared->names.size(); ++i) {
    watch->threads_.emplace_back([shared, i] { Follow(shared, i); });
  }
  return watch;
}

AddressWatch::~AddressWatch() {
  bool ended = false;
  {
    const std::lock_guard reporting_lock(shared_->reporting);
    std::unique_lock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->changed.notify_all();
  }
  {
    std::unique_lock lock(shared_->mutex);
    ended = shared_->changed.wait_for(lock, kPatience, [this] { return shared_->following == 0; });
  }
  for (std::thread& thread : threads_) {
    // getaddrinfo cannot be cancelled and may take half a minute.
    ended ? thread.join() : thread.detach();
  }
}

void AddressWatch::LookAgain() {
  const std::lock_guard lock(shared_->mutex);
  for (Shared::Name& name : shared_->names) name.asked = true;
  shared_->changed.notify_all();
}

void AddressWatch::Follow(const std::shared_ptr<Shared>& shared, size_t index) {
  const auto wait = [](absl::Duration duration) { return absl::ToChronoNanoseconds(duration); };
  std::unique_lock lock(shared->mutex);
  const HostAndPort name = shared->names[index].name;
  while (!shared->stopping) {
    shared->names[index].asked = false;
    lock.unlock();
    const absl::StatusOr<std::vector<std::string>> found = shared->options.look_up(name.host);
    const bool useful = found.ok() && !found->empty();
    bool newly_failed = false;
    lock.lock();
    {
      Shared::Name& entry = shared->names[index];
      newly_failed = !useful && !entry.failed;
      entry.failed = !useful;
      if (useful) {
        entry.peers.clear();
        for (const std::string& ip : *found) {
          entry.peers.push_back({Join(ip, name.port), entry.authority});
        }
        std::ranges::sort(entry.peers);
      }
    }
    lock.unlock();
    if (newly_failed) {
      Log(LogLevel::kWarning, "a name cannot be looked up; its last addresses stay in use",
          {{"name", name.host},
           {"error", found.ok() ? "it has no address" : std::string(found.status().message())}});
    }
    if (useful) shared->Report(/*even_if_same=*/false);
    lock.lock();
    shared->changed.wait_for(lock, wait(shared->options.least_interval),
                             [&] { return shared->stopping; });
    shared->changed.wait_for(lock, wait(shared->options.interval - shared->options.least_interval),
                             [&] { return shared->stopping || shared->names[index].asked; });
  }
  --shared->following;
  shared->changed.notify_all();
}

}  // namespace kernelcast::orchestrator
