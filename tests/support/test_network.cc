#include "tests/support/test_network.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"

namespace kernelcast::testing {
namespace {

constexpr int64_t kCommandLimitNs = 20'000'000'000;
constexpr auto kNamespaceLimit = std::chrono::seconds(10);

std::vector<std::string> Environment() {
  // Administration tools are not in every PATH.
  const char* const path = std::getenv("PATH");
  return {absl::StrCat("PATH=", path != nullptr ? path : "/usr/bin:/bin", ":/usr/sbin:/sbin")};
}

absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(const std::vector<std::string>& command) {
  ChildOptions options;
  options.argv = {"env"};
  options.argv.insert(options.argv.end(), command.begin(), command.end());
  options.environment = Environment();
  return ChildProcess::Spawn(options);
}

absl::Status Run(const std::vector<std::string>& command) {
  KC_ASSIGN_OR_RETURN(auto child, Spawn(command));
  const ChildExit exit = child->Wait(kCommandLimitNs);
  if (exit.exited && exit.exit_code == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(absl::StrJoin(command, " "), ": ", exit.output));
}

std::string NamespaceOf(const std::string& process) {
  std::error_code ignored;
  return std::filesystem::read_symlink(absl::StrCat("/proc/", process, "/ns/net"), ignored)
      .string();
}

std::string Cable(int member) { return absl::StrCat("cable", member); }

}  // namespace

absl::StatusOr<std::unique_ptr<TestNetwork>> TestNetwork::Create() {
  if (unshare(CLONE_NEWNET) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("no network namespace is granted: ", std::strerror(errno)));
  }
  std::unique_ptr<TestNetwork> network(new TestNetwork);
  KC_RETURN_IF_ERROR(Run({"ip", "link", "set", "lo", "up"}));
  KC_RETURN_IF_ERROR(Run({"ip", "link", "add", "bridge", "type", "bridge"}));
  KC_RETURN_IF_ERROR(Run({"ip", "address", "add", "10.77.0.1/24", "dev", "bridge"}));
  KC_RETURN_IF_ERROR(Run({"ip", "link", "set", "bridge", "up"}));
  return network;
}

absl::StatusOr<int> TestNetwork::AddMember() {
  const int member = static_cast<int>(members_.size());
  KC_ASSIGN_OR_RETURN(auto holder, Spawn({"unshare", "--net", "sleep", "infinity"}));
  const std::string pid = absl::StrCat(holder->pid());
  const auto limit = std::chrono::steady_clock::now() + kNamespaceLimit;
  while (NamespaceOf(pid) == NamespaceOf("thread-self") || NamespaceOf(pid).empty()) {
    if (holder->Poll() || std::chrono::steady_clock::now() > limit) {
      return absl::UnavailableError(absl::StrCat("no namespace for a member: ", holder->output()));
    }
    // There is no notification of the change.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  members_.push_back(std::move(holder));
  const std::string cable = Cable(member);
  const std::vector<std::string> inside = {"nsenter", absl::StrCat("--net=/proc/", pid, "/ns/net"),
                                           "ip"};
  const auto run_inside = [&](std::vector<std::string> command) {
    command.insert(command.begin(), inside.begin(), inside.end());
    return Run(command);
  };
  KC_RETURN_IF_ERROR(
      Run({"ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", pid}));
  KC_RETURN_IF_ERROR(Run({"ip", "link", "set", cable, "master", "bridge", "up"}));
  KC_RETURN_IF_ERROR(
      run_inside({"address", "add", absl::StrCat(address(member), "/24"), "dev", "eth0"}));
  KC_RETURN_IF_ERROR(run_inside({"link", "set", "eth0", "up"}));
  KC_RETURN_IF_ERROR(run_inside({"link", "set", "lo", "up"}));
  return member;
}

std::string TestNetwork::address(int member) const { return absl::StrCat("10.77.0.", member + 2); }

std::vector<std::string> TestNetwork::Launcher(int member, const std::string& output,
                                               const std::string& hosts) const {
  std::vector<std::string> launcher = {
      "nsenter", absl::StrCat("--net=/proc/", members_[member]->pid(), "/ns/net")};
  if (!hosts.empty()) launcher.insert(launcher.end(), {"unshare", "--mount"});
  launcher.insert(launcher.end(),
                  {"sh", "-c",
                   absl::StrCat("output=$0 && ",
                                hosts.empty() ? "" : "mount --bind \"$1\" /etc/hosts && shift && ",
                                "exec \"$@\" >>\"$output\" 2>&1"),
                   output});
  if (!hosts.empty()) launcher.push_back(hosts);
  return launcher;
}

absl::Status TestNetwork::Cut(int member) {
  return Run({"ip", "link", "set", Cable(member), "down"});
}

absl::Status TestNetwork::Mend(int member) {
  return Run({"ip", "link", "set", Cable(member), "up"});
}

}  // namespace kernelcast::testing
