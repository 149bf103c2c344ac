#include "services/cli/launch/kept_addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/file.h"
#include "services/cli/core/paths.h"

namespace kernelcast::cli {
namespace {

constexpr char kHost[] = "127.0.0.1:";
constexpr char kAnyPort[] = "127.0.0.1:0";

// Returns 0 if the address is not a port of kHost.
int PortOf(const std::string& address) {
  if (address.rfind(kHost, 0) != 0) return 0;
  const long port = std::strtol(address.c_str() + sizeof kHost - 1, nullptr, 10);
  return port > 0 && port < 65536 ? static_cast<int>(port) : 0;
}

}  // namespace

bool CanListen(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool good =
      bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(fd, 1) == 0;
  close(fd);
  return good;
}

KeptAddresses::KeptAddresses(const std::string& state_dir) : path_(state_dir + "/ports.json") {
  const absl::StatusOr<std::string> text = ReadTextFile(path_, 1 << 16);
  if (!text.ok()) return;
  const nlohmann::json json = ParseBoundedJson(*text);
  if (!json.is_object()) return;
  for (const auto& [name, address] : json.items()) {
    if (address.is_string() && PortOf(address.get<std::string>()) > 0) {
      addresses_[name] = address.get<std::string>();
    }
  }
}

std::string KeptAddresses::Get(const std::string& name,
                               const std::function<void(const std::string&)>& notify) const {
  const auto found = addresses_.find(name);
  if (found == addresses_.end()) return kAnyPort;
  if (CanListen(PortOf(found->second))) return found->second;
  if (notify) notify(absl::StrCat(found->second, " is taken; the ", name, " gets another port"));
  return kAnyPort;
}

absl::Status KeptAddresses::Write() const {
  return WriteFileAtomically(path_, nlohmann::json(addresses_).dump(2) + "\n");
}

}  // namespace kernelcast::cli
