#ifndef KERNELCAST_TESTS_SUPPORT_TEST_NETWORK_H_
#define KERNELCAST_TESTS_SUPPORT_TEST_NETWORK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/process/child_process.h"

namespace kernelcast::testing {

// A network that nobody else sees: a bridge, and members with an address each, every one in a
// network namespace of its own. It goes away with the process. Not thread-safe.
class TestNetwork {
 public:
  // Moves the calling thread, and those that it starts from then on, into a network namespace that
  // holds the bridge; so it must be called before there are others. PERMISSION_DENIED: the kernel
  // grants no namespaces; UNAVAILABLE: a tool is missing or refuses.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TestNetwork>> Create();

  // Returns the member's number.
  [[nodiscard]] absl::StatusOr<int> AddMember();
  // The member's address, without port.
  std::string address(int member) const;
  // Starts a program, given as further arguments, as a process of the member, with its output
  // appended to a file. `hosts`: a file that it sees in the place of /etc/hosts; empty: none.
  std::vector<std::string> Launcher(int member, const std::string& output,
                                    const std::string& hosts = "") const;
  // Takes the member's cable out, and puts it back.
  [[nodiscard]] absl::Status Cut(int member);
  [[nodiscard]] absl::Status Mend(int member);

 private:
  TestNetwork() = default;

  // Processes that do nothing but keep a namespace.
  std::vector<std::unique_ptr<ChildProcess>> members_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_TEST_NETWORK_H_
