#ifndef KERNELCAST_SERVICES_CLI_CORE_CANDIDATE_FILES_H_
#define KERNELCAST_SERVICES_CLI_CORE_CANDIDATE_FILES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"

namespace kernelcast::cli {

// A candidate read from a user's file.
struct NamedCandidate {
  std::string name;  // file name without extension, or the "name" of a JSON line
  Candidate candidate;
};

// A file of a folder that is no candidate.
struct RefusedFile {
  std::string name;  // made as NamedCandidate::name
  absl::Status reason;
};

// Reads candidates from
// - a folder: each NAME.cc / .cpp / .cxx / .cu / .py, with an optional NAME.json in the same
//   folder, sorted by name;
// - one such source file;
// - NAME.jsonl or NAME.jsonl.gz: one JSON object per line, with the source in "source", or the path
//   of a file in "source_file", relative to this file and within its folder.
//
// All JSON keys are optional: name (lines only), target, kind, flags, tunables, parent, origin,
// launches, workspace_bytes. docs/reference/cli.md describes them. Returns all candidates or an
// error. With `refused`, files of a folder that cannot be read, or are no candidates, are listed
// there instead, unless the folder has no other. INVALID_ARGUMENT: names file, field and what is
// allowed. NOT_FOUND: no such file, or no candidate in the folder. DATA_LOSS: a compressed file is
// damaged. RESOURCE_EXHAUSTED: it has more than 1 GiB, uncompressed.
[[nodiscard]] absl::StatusOr<std::vector<NamedCandidate>> ReadCandidates(
    const std::string& path, const std::string& problem_id, const std::string& target,
    std::vector<RefusedFile>* refused = nullptr);

// The value of --candidates that means all points of the problem's space.
inline constexpr std::string_view kSpaceCandidates = "space";

// Returns all points of the space for a target, each with the template and its tunables as its name
// ("rows BLOCK=128 VEC=4"), if the argument is kSpaceCandidates and no file has this name;
// otherwise the candidates of ReadCandidates. INVALID_ARGUMENT: the problem has no space.
[[nodiscard]] absl::StatusOr<std::vector<NamedCandidate>> ReadCandidatesOf(
    const Problem& problem, const std::string& argument, const std::string& target,
    std::vector<RefusedFile>* refused = nullptr);

// Returns the JSON description of a candidate, from which ReadCandidates reads the same candidate
// again.
[[nodiscard]] std::string CandidateDescription(const Candidate& candidate);

// Fills `candidate` from the text of a JSON file; `file` is for messages. For tests.
[[nodiscard]] absl::Status ApplyCandidateJson(const std::string& file, std::string_view text,
                                              Candidate& candidate);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_CANDIDATE_FILES_H_
