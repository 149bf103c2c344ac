#ifndef KERNELCAST_COMMON_RPC_ACCESS_H_
#define KERNELCAST_COMMON_RPC_ACCESS_H_

#include <optional>
#include <span>
#include <string_view>

namespace kernelcast {

// What the holder of a token may do. No role includes another.
enum class Role {
  kSubmit,   // have candidates evaluated and forecast, run searches, read results
  kMeasure,  // have workers compile and measure, and tell forecasters what was measured
  kAdmin,    // see which services there are and how they fare
};

inline constexpr Role kAllRoles[] = {Role::kSubmit, Role::kMeasure, Role::kAdmin};

// As written in token files: "submit", "measure", "admin".
std::string_view RoleName(Role role);
std::optional<Role> FindRole(std::string_view name);

struct MethodAccess {
  std::string_view path;     // "/package.Service/Method"
  std::optional<Role> role;  // none: every token will do
};

// Every method that our servers have, and who may call it where tokens are asked for.
std::span<const MethodAccess> AllMethodAccess();
// Null where no server of ours has such a method.
const MethodAccess* FindMethodAccess(std::string_view path);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_ACCESS_H_
