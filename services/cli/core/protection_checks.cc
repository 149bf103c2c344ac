#include "services/cli/core/protection_checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kernelcast::cli {
namespace {

struct Protection {
  const char* name;
  const char* without_it;
  // Whether the others suffice for code that nobody has read.
  bool others_suffice;
};

constexpr Protection kProtections[] = {
    {"landlock",
     "the kernel does not offer Landlock (Linux 5.13 or later); file permissions, namespaces and "
     "seccomp still deny files, connections and other processes",
     true},
    {"namespaces",
     "candidates and compilers see the mounts and the network of the worker; Landlock and seccomp "
     "still deny files and connections. In containers the runtime's seccomp or AppArmor profile "
     "refuses namespaces; docs/howto/kubernetes.md has profiles that permit them",
     true},
    {"no_new_privileges", "a program that a candidate starts may gain privileges", false},
    {"parent_death_signal", "a candidate's process may outlive a worker that is killed", true},
    {"resource_limits", "a candidate may use all memory, processes and descriptors", false},
    {"seccomp", "candidates and compilers may make every system call", false},
    {"unprivileged_user", "candidates and compilers run as root", false},
};

bool Has(const std::vector<std::string>& missing, const std::string& name) {
  return std::find(missing.begin(), missing.end(), name) != missing.end();
}

}  // namespace

std::vector<Check> ProtectionChecks(const std::vector<TriedTarget>& targets,
                                    const std::vector<std::string>& missing) {
  std::vector<std::string> tried;
  std::string untried;
  for (const TriedTarget& target : targets) {
    if (target.can_compile && target.can_measure) {
      tried.push_back(target.name);
    } else {
      absl::StrAppend(&untried, "; not tried for target ", target.name, ", which cannot ",
                      target.can_compile ? "measure" : "compile");
    }
  }
  if (tried.empty() && missing.empty()) {
    return {{"runner", Verdict::kNote,
             "it is not known which protections this machine grants: no target compiles and "
             "measures, so none was tried"}};
  }
  if (missing.empty()) {
    return {{"runner", Verdict::kGood,
             untried.empty() ? "all protections granted"
                             : absl::StrCat("all protections granted to target ",
                                            absl::StrJoin(tried, " and "), untried)}};
  }
  std::vector<Check> checks;
  // Each of the two stands in for the other.
  bool suffices = !(Has(missing, "landlock") && Has(missing, "namespaces"));
  if (!suffices) {
    checks.push_back({"runner files", Verdict::kNote,
                      "without both landlock and namespaces, only seccomp keeps candidates from "
                      "files, and only the check of the source keeps compilers from them"});
  }
  for (const std::string& name : missing) {
    const auto* const known =
        std::find_if(std::begin(kProtections), std::end(kProtections),
                     [&](const Protection& protection) { return protection.name == name; });
    if (known == std::end(kProtections)) {
      checks.push_back({absl::StrCat("runner ", name), Verdict::kNote,
                        "not granted; this version of kernelcast does not know what it does"});
      suffices = false;
      continue;
    }
    checks.push_back({absl::StrCat("runner ", name), Verdict::kNote,
                      absl::StrCat("not granted: ", known->without_it)});
    suffices = suffices && known->others_suffice;
  }
  checks.push_back(
      {"runner", Verdict::kNote,
       absl::StrCat("not all protections are granted (missing: ", absl::StrJoin(missing, ", "), ")",
                    suffices ? "; those that are granted still contain a candidate, but a fault in "
                               "one of them is not covered by another"
                             : "; do not run candidates that you do not trust",
                    untried)});
  return checks;
}

}  // namespace kernelcast::cli
