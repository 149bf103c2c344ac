#ifndef KERNELCAST_COMMON_RPC_ACCESS_H_
#define KERNELCAST_COMMON_RPC_ACCESS_H_

#include <optional>
#include <span>
#include <string_view>

namespace kernelcast {

// Permission granted by a token. No role includes another.
enum class Role {
  kSubmit,   // evaluate and forecast candidates, run searches, read results
  kMeasure,  // compile and measure on workers, send labels to forecasters
  kAdmin,    // list services and their state
};

inline constexpr Role kAllRoles[] = {Role::kSubmit, Role::kMeasure, Role::kAdmin};

// Names in token files: "submit", "measure", "admin".
std::string_view RoleName(Role role);
std::optional<Role> FindRole(std::string_view name);

struct MethodAccess {
  std::string_view path;     // "/package.Service/Method"
  std::optional<Role> role;  // empty: any valid token
};

// Every method of our servers and the role it requires if tokens are enabled.
std::span<const MethodAccess> AllMethodAccess();
// Null if no server of ours has the method.
const MethodAccess* FindMethodAccess(std::string_view path);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_ACCESS_H_
