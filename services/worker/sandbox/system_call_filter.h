#ifndef KERNELCAST_SERVICES_WORKER_SANDBOX_SYSTEM_CALL_FILTER_H_
#define KERNELCAST_SERVICES_WORKER_SANDBOX_SYSTEM_CALL_FILTER_H_

#include <seccomp.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace kernelcast::worker::sandbox {

// A list of the system calls that a process may make (seccomp). Conditions on arguments are those
// of libseccomp, such as SCMP_A0(SCMP_CMP_EQ, 1). A rule applies if all its conditions hold.
class SystemCallFilter {
 public:
  using Calls = std::initializer_list<int>;
  using Conditions = std::initializer_list<scmp_arg_cmp>;

  // `default_action`: libseccomp's action for calls without a rule.
  explicit SystemCallFilter(uint32_t default_action);
  ~SystemCallFilter();
  SystemCallFilter(const SystemCallFilter&) = delete;
  SystemCallFilter& operator=(const SystemCallFilter&) = delete;

  void Allow(Calls calls, Conditions conditions = {});
  // The calls have no effect and return `error`. 0: they report success.
  void Fail(int error, Calls calls, Conditions conditions = {});

  // Returns the filter as instructions of the kernel's (struct sock_filter), for another process to
  // load. Calls of other architectures kill the process. Empty: a rule is invalid, or the machine
  // is out of memory.
  [[nodiscard]] std::string Instructions();

  // Applies the filter to all threads of this process and to its children, permanently. Calls of
  // other architectures kill the process. Requires no_new_privs. Returns false if a rule is invalid
  // or the kernel rejects the filter.
  [[nodiscard]] bool Load();

 private:
  void Add(uint32_t action, Calls calls, Conditions conditions);

  scmp_filter_ctx context_;
  bool ok_;
};

}  // namespace kernelcast::worker::sandbox

#endif  // KERNELCAST_SERVICES_WORKER_SANDBOX_SYSTEM_CALL_FILTER_H_
