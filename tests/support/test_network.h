#ifndef KERNELCAST_TESTS_SUPPORT_TEST_NETWORK_H_
#define KERNELCAST_TESTS_SUPPORT_TEST_NETWORK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/process/child_process.h"

namespace kernelcast::testing {

// A private network: a bridge and members, each with an address in its own network namespace. It
// disappears with the process. Not thread-safe.
class TestNetwork {
 public:
  // Moves the calling thread, and threads it starts later, into a network namespace that holds the
  // bridge, so it must be called before other threads exist. PERMISSION_DENIED: the kernel grants
  // no namespaces. UNAVAILABLE: a tool is missing or fails.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TestNetwork>> Create();

  // Returns the member's number.
  [[nodiscard]] absl::StatusOr<int> AddMember();
  // The member's address, without port.
  std::string address(int member) const;
  // Starts a program, given as further arguments, as a process of the member and appends its output
  // to a file. `hosts`: a file that replaces /etc/hosts for it; empty: none.
  std::vector<std::string> Launcher(int member, const std::string& output,
                                    const std::string& hosts = "") const;
  // Disconnects the member, and reconnects it.
  [[nodiscard]] absl::Status Cut(int member);
  [[nodiscard]] absl::Status Mend(int member);

 private:
  TestNetwork() = default;

  // Idle processes that keep a namespace alive.
  std::vector<std::unique_ptr<ChildProcess>> members_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_TEST_NETWORK_H_
