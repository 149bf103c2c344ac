#ifndef KERNELCAST_SERVICES_CLI_CORE_LESSON_BOOK_H_
#define KERNELCAST_SERVICES_CLI_CORE_LESSON_BOOK_H_

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/lesson.h"

namespace kernelcast::cli {

// Lessons, and the searches that they were learnt from. As a file it is JSON lines:
//
//   {"format": "kernelcast-lessons", "version": 1}
//   {"search": ID}      for each search
//   {"family": ..., "target": ..., ...}      for each lesson, the fields of Lesson
struct LessonBook {
  std::vector<Lesson> lessons;  // ordered by key, each key once; at most kMaxLessons
  std::set<std::string, std::less<>> searches;
};

inline constexpr size_t kMaxLearntSearches = 65'536;
inline constexpr size_t kMaxLearntSearchBytes = 256;

// INVALID_ARGUMENT: "line N: FIELD: VALUE is not ...".
[[nodiscard]] absl::StatusOr<LessonBook> ParseLessonBook(std::string_view text);
// ParseLessonBook reads it again.
std::string LessonBookText(const LessonBook& book);

// Adds what was learnt from a search. Does nothing if the book has learnt from it already. If there
// are more than kMaxLessons lessons then, those with the fewest pairs are dropped.
// RESOURCE_EXHAUSTED: the book is full of searches.
[[nodiscard]] absl::Status AddSearch(const std::string& search, const std::vector<Lesson>& lessons,
                                     LessonBook& book);

// Adds another book. If one has learnt from all searches of the other, it is the result.
// FAILED_PRECONDITION: they have some searches in common, which would count twice; names one.
[[nodiscard]] absl::Status MergeBook(const LessonBook& more, LessonBook& book);

// For a search of a problem of this family: the lessons about its target that would be used, those
// of the device model first, at most `count`; then by expected effect. An empty device model: all
// count alike.
std::vector<Lesson> LessonsFor(const LessonBook& book, std::string_view family,
                               std::string_view target, std::string_view device_model,
                               size_t count);

// A book's file, locked against other processes until it is destroyed. Links are followed, so that
// writing replaces the file that they name. The lock is FILE.lock next to it.
class LessonFile {
 public:
  // Waits for other processes. Errors as those of open.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LessonFile>> Lock(const std::string& path);
  ~LessonFile();
  LessonFile(const LessonFile&) = delete;
  LessonFile& operator=(const LessonFile&) = delete;

  // An empty book if there is no file. INVALID_ARGUMENT: "PATH: line N: ...".
  [[nodiscard]] absl::StatusOr<LessonBook> Read() const;
  // Replaces the file at once.
  [[nodiscard]] absl::Status Write(const LessonBook& book) const;
  // Whether Write would succeed.
  [[nodiscard]] absl::Status CheckWritable() const;

 private:
  LessonFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
};

// Without a lock: writers replace the file at once. NOT_FOUND: there is no file.
[[nodiscard]] absl::StatusOr<LessonBook> ReadLessonBook(const std::string& path);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_LESSON_BOOK_H_
