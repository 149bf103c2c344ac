#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_SEARCH_LESSONS_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_SEARCH_LESSONS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/core/lesson_book.h"

namespace kernelcast::cli {

// Reads the lessons for a search from a file, and adds those that it learnt.
struct LessonFlags {
  std::string file;
  bool learn = false;
};

void AddLessonFlags(CLI::App& app, LessonFlags& flags);

// Adds the file's lessons about the problem's family to a specification, whose target and device
// models are set. Checks that the file can be written if the search will add to it.
[[nodiscard]] absl::Status SetLessons(Context& context, const LessonFlags& flags,
                                      const Problem& problem, v1::SearchSpec& spec);

// The lessons of a search that exists already replace those of the specification, so that it is
// continued although the file has changed.
[[nodiscard]] absl::Status KeepLessons(v1::Orchestrator::Stub& stub, v1::StartSearchRequest& start);

// The lessons of one search.
struct LearntSearch {
  std::string name;  // in LessonBook.searches
  std::vector<Lesson> lessons;
};

// Names a search in books: its id, and a hash that tells it from searches with this id in other
// logs.
std::string LearntName(const v1::Search& search);

// Learns from the records of a search of this problem.
[[nodiscard]] absl::StatusOr<LearntSearch> LearnFrom(v1::Orchestrator::Stub& stub,
                                                     const v1::Search& search,
                                                     const Problem& problem);

// Adds what searches showed to a file.
[[nodiscard]] absl::Status AddToBook(Context& context, const std::string& file,
                                     const std::vector<LearntSearch>& searches);

// Learns from those of the searches that have ended, if the flags say so.
[[nodiscard]] absl::Status LearnAtEnd(Context& context, Connection& connection,
                                      const LessonFlags& flags,
                                      const std::vector<v1::Search>& searches,
                                      const Problem& problem);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_SEARCH_LESSONS_H_
