#include "common/rpc/access.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace kernelcast {
namespace {

constexpr auto kSubmit = Role::kSubmit;
constexpr auto kMeasure = Role::kMeasure;
constexpr auto kAdmin = Role::kAdmin;

// Sorted by path. docs/reference/security.md shows the table.
constexpr MethodAccess kMethods[] = {
    {"/grpc.health.v1.Health/Check", std::nullopt},
    {"/grpc.health.v1.Health/Watch", std::nullopt},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", std::nullopt},
    // Called by orchestrators for health and by trainers for prompts and schemas.
    {"/kernelcast.v1.Forecaster/Describe", kSubmit},
    {"/kernelcast.v1.Forecaster/Forecast", kSubmit},
    {"/kernelcast.v1.Forecaster/ForecastStream", kSubmit},
    {"/kernelcast.v1.Forecaster/Observe", kMeasure},
    {"/kernelcast.v1.Forecaster/PutProblem", kSubmit},
    {"/kernelcast.v1.Forecaster/Score", kSubmit},
    {"/kernelcast.v1.Orchestrator/Describe", kAdmin},
    {"/kernelcast.v1.Orchestrator/Evaluate", kSubmit},
    {"/kernelcast.v1.Orchestrator/EvaluateStream", kSubmit},
    {"/kernelcast.v1.Orchestrator/Export", kSubmit},
    {"/kernelcast.v1.Orchestrator/GetSearch", kSubmit},
    {"/kernelcast.v1.Orchestrator/ListSearches", kSubmit},
    {"/kernelcast.v1.Orchestrator/PutProblem", kSubmit},
    {"/kernelcast.v1.Orchestrator/StartSearch", kSubmit},
    {"/kernelcast.v1.Orchestrator/StopSearch", kSubmit},
    {"/kernelcast.v1.Orchestrator/WatchSearch", kSubmit},
    {"/kernelcast.v1.Worker/Compile", kMeasure},
    {"/kernelcast.v1.Worker/CompileStream", kMeasure},
    // Called by orchestrators to learn a worker's capacity.
    {"/kernelcast.v1.Worker/Describe", kMeasure},
    {"/kernelcast.v1.Worker/Measure", kMeasure},
    {"/kernelcast.v1.Worker/PutProblem", kMeasure},
};

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kSubmit: return "submit";
    case Role::kMeasure: return "measure";
    case Role::kAdmin: return "admin";
  }
  return "";
}

std::optional<Role> FindRole(std::string_view name) {
  const auto* const found = std::ranges::find(kAllRoles, name, &RoleName);
  return found != std::end(kAllRoles) ? std::optional(*found) : std::nullopt;
}

std::span<const MethodAccess> AllMethodAccess() { return kMethods; }

const MethodAccess* FindMethodAccess(std::string_view path) {
  const auto* const found =
      std::lower_bound(std::begin(kMethods), std::end(kMethods), path,
                       [](const MethodAccess& a, std::string_view b) { return a.path < b; });
  return found != std::end(kMethods) && found->path == path ? found : nullptr;
}

}  // namespace kernelcast
