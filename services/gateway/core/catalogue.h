#ifndef KERNELCAST_SERVICES_GATEWAY_CORE_CATALOGUE_H_
#define KERNELCAST_SERVICES_GATEWAY_CORE_CATALOGUE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"

namespace kernelcast::gateway {

// A target and a device model to measure on.
struct Site {
  std::string target{kCpuTargetName};
  std::string device_model;  // empty: the orchestrator chooses
};

// A problem under the name by which clients ask for it.
struct Served {
  std::string name;
  std::string description;
  Problem problem;
  std::string target;
  bool names_target = false;  // false: the target is the default one
  // Where it may be measured, the default first. Empty: the orchestrator chooses.
  std::vector<std::string> device_models;
  // Different candidates that GEPA's clients may evaluate. Empty: any number.
  std::optional<uint64_t> max_evaluations;

  Site site() const {
    return {target, device_models.empty() ? std::string() : device_models.front()};
  }
};

// The problems that a gateway serves. Constant after startup.
class Catalogue {
 public:
  Catalogue(std::vector<Served> served, Site own_references);

  // Reads the YAML file that docs/howto/gateways.md describes, and its problems. A problem is a
  // path, relative to the file, or a name in one of `problem_folders`. INVALID_ARGUMENT or
  // NOT_FOUND says what is wrong and where.
  [[nodiscard]] static absl::StatusOr<Catalogue> Read(
      const std::string& path, const std::vector<std::string>& problem_folders);

  // Serves all folders with a problem.yaml in `problem_folders`, under their names. Of two with one
  // name it takes the first. Missing folders are left out. INVALID_ARGUMENT: a problem is invalid,
  // or there are too many.
  [[nodiscard]] static absl::StatusOr<Catalogue> ReadFolders(
      const std::vector<std::string>& problem_folders);

  const std::vector<Served>& served() const { return served_; }
  // Sets the target of a problem if its entry names none. Does nothing if the problem has no such
  // target.
  void SetDefaultTarget(size_t index, const std::string& target);
  // By name, without regard to upper and lower case. Null: not served.
  const Served* Find(std::string_view name) const;
  // The files of a served problem. Null: not served.
  const std::vector<ProblemFile>* FilesOf(std::string_view problem_id) const;
  // For clients that send the reference with each candidate.
  const Site& own_references() const { return own_references_; }

 private:
  std::vector<Served> served_;
  Site own_references_;
};

enum class Language { kPython, kNative };

// A candidate from a source in a language, with its id. INVALID_ARGUMENT: its problem has no
// candidates in this language, or the source is no text or too long.
[[nodiscard]] absl::StatusOr<Candidate> MakeCandidate(const Problem& problem,
                                                      const std::string& target, Language language,
                                                      std::string source);

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_CORE_CATALOGUE_H_
