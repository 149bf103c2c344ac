#ifndef KERNELCAST_SERVICES_CLI_CORE_CANDIDATE_FILES_H_
#define KERNELCAST_SERVICES_CLI_CORE_CANDIDATE_FILES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"

namespace kernelcast::cli {

// A candidate that a user handed in as a file.
struct NamedCandidate {
  std::string name;  // file name without extension, or the "name" of a JSON line
  Candidate candidate;
};

// Candidates from
// - a folder: each NAME.cc / .cpp / .cxx / .cu / .py, with NAME.json beside it where it has one, in
//   the order of names;
// - one such source file;
// - NAME.jsonl: one JSON object a line, with the source as "source" or the path of one, relative to
//   the file, as "source_file".
// The JSON's keys, all optional: name (lines only), target, kind, flags, tunables, parent, origin,
// launches, workspace_bytes. examples/problems/README.md describes them.
// INVALID_ARGUMENT names file, field and what is allowed; NOT_FOUND: no such file, or no candidate
// in the folder. All or nothing.
[[nodiscard]] absl::StatusOr<std::vector<NamedCandidate>> ReadCandidates(
    const std::string& path, const std::string& problem_id, const std::string& target);

// Fills `candidate` from the text of a JSON file; `file` is for messages. For tests.
[[nodiscard]] absl::Status ApplyCandidateJson(const std::string& file, std::string_view text,
                                              Candidate& candidate);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_CANDIDATE_FILES_H_
