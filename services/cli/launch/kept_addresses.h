#ifndef KERNELCAST_SERVICES_CLI_LAUNCH_KEPT_ADDRESSES_H_
#define KERNELCAST_SERVICES_CLI_LAUNCH_KEPT_ADDRESSES_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace kernelcast::cli {

// Whether a port of 127.0.0.1 is free to listen on; 0: any port.
bool CanListen(int port);

// Addresses on 127.0.0.1 of the services of a state folder, stored in STATE/ports.json so that they
// are reused at the next start.
class KeptAddresses {
 public:
  // Empty if the file is missing or damaged.
  explicit KeptAddresses(const std::string& state_dir);

  // Returns the address stored under `name`, or "127.0.0.1:0" if there is none. If its port is
  // taken, calls `notify` and returns "127.0.0.1:0".
  std::string Get(const std::string& name,
                  const std::function<void(const std::string&)>& notify) const;
  void Set(const std::string& name, const std::string& address) { addresses_[name] = address; }
  [[nodiscard]] absl::Status Write() const;

 private:
  const std::string path_;
  std::map<std::string, std::string> addresses_;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_LAUNCH_KEPT_ADDRESSES_H_
