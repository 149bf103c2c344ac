#ifndef KERNELCAST_SERVICES_CLI_CORE_NOT_SIMULATED_H_
#define KERNELCAST_SERVICES_CLI_CORE_NOT_SIMULATED_H_

#include <map>
#include <string>
#include <vector>

#include "common/domain/facts.h"

namespace kernelcast::cli {

// Why the virtual GPU estimates no time for a candidate, in one line: a launch that it does not
// cover, or why the launches of a Python candidate are not recorded. Empty if it estimates one, or
// if the worker simulates nothing for the target.
std::string WhyNotSimulated(const CompileFacts& facts);

// Candidates by the reason why they are not simulated. Often all have the same one.
class NotSimulatedList {
 public:
  void Add(const std::string& name, const std::string& why) {
    if (!why.empty()) names_[why].push_back(name);
  }
  // One line per reason: "a, b: not simulated: uses torch.compile". Empty without any.
  std::string Render(int width) const;

 private:
  std::map<std::string, std::vector<std::string>> names_;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_NOT_SIMULATED_H_
