#include "services/cli/launch/state_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "services/cli/core/paths.h"

namespace kernelcast::cli {
namespace {

std::string LockPath(const std::string& state_dir) { return state_dir + "/lock"; }
std::string AddressesPath(const std::string& state_dir) { return state_dir + "/services.json"; }

}  // namespace

absl::StatusOr<std::unique_ptr<StateLock>> StateLock::Acquire(const std::string& state_dir) {
  KC_RETURN_IF_ERROR(MakeFolders(state_dir));
  const std::string path = LockPath(state_dir);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    const int code = errno;
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write in the state folder ", state_dir, ": ", std::strerror(code)));
  }
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    const ssize_t length = pread(fd, holder, sizeof holder - 1, 0);
    close(fd);
    std::string who = length > 0 ? std::string(holder, static_cast<size_t>(length)) : "";
    while (!who.empty() && (who.back() == '\n' || who.back() == ' ')) who.pop_back();
    return absl::AlreadyExistsError(
        absl::StrCat("another kernelcast", who.empty() ? "" : absl::StrCat(" (process ", who, ")"),
                     " uses the state folder ", state_dir,
                     "; stop it, or choose another folder with --state-dir"));
  }
  const std::string who = absl::StrCat(static_cast<int>(getpid()), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, who.data(), who.size(), 0) < 0) {
    const int code = errno;
    close(fd);
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot write ", path, ": ", std::strerror(code)));
  }
  return std::unique_ptr<StateLock>(new StateLock(fd));
}

StateLock::~StateLock() { close(fd_); }

absl::Status WriteServiceAddresses(const std::string& state_dir,
                                   const ServiceAddresses& addresses) {
  nlohmann::ordered_json json = {{"pid", addresses.supervisor}};
  for (const auto& [name, address] : kAddressFields) json[name] = addresses.*address;
  return WriteFileAtomically(AddressesPath(state_dir), json.dump() + "\n");
}

void RemoveServiceAddresses(const std::string& state_dir) {
  unlink(AddressesPath(state_dir).c_str());
}

absl::StatusOr<ServiceAddresses> ReadServiceAddresses(const std::string& state_dir) {
  KC_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(AddressesPath(state_dir), 1 << 16));
  const nlohmann::json json = ParseBoundedJson(text);
  if (!json.is_object()) {
    return absl::NotFoundError(absl::StrCat(AddressesPath(state_dir), " is damaged"));
  }
  ServiceAddresses addresses;
  if (const auto pid = json.find("pid"); pid != json.end() && pid->is_number_integer()) {
    addresses.supervisor = pid->get<pid_t>();
  }
  for (const auto& [name, address] : kAddressFields) addresses.*address = StringAt(json, name);
  if (addresses.orchestrator.empty()) {
    return absl::NotFoundError(absl::StrCat(AddressesPath(state_dir), " names no orchestrator"));
  }
  return addresses;
}

bool StateIsLocked(const std::string& state_dir) {
  const int fd = open(LockPath(state_dir).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return locked;
}

}  // namespace kernelcast::cli
