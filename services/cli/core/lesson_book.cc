#include "services/cli/core/lesson_book.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/domain/text.h"
#include "services/cli/core/paths.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "kernelcast-lessons";
constexpr int kVersion = 1;
constexpr int64_t kMaxFileBytes = 64 << 20;
constexpr int kMaxLinks = 40;

absl::Status Invalid(const std::string& field, const Json& value, const std::string& allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", Quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace)),
                   " is not ", allowed));
}

// Reads the fields of one object.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  absl::Status Text(const char* name, std::string& out) {
    const Json* const value = Take(name);
    if (value == nullptr) return Missing(name);
    if (!value->is_string()) return Invalid(name, *value, "a string");
    out = value->get<std::string>();
    return absl::OkStatus();
  }
  absl::Status Count(const char* name, uint32_t& out) {
    const Json* const value = Take(name);
    if (value == nullptr) return Missing(name);
    if (!value->is_number_unsigned() ||
        value->get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
      return Invalid(name, *value, absl::StrCat("a whole number up to ", kMaxLessonTrials));
    }
    out = value->get<uint32_t>();
    return absl::OkStatus();
  }
  absl::Status Number(const char* name, double& out) {
    const Json* const value = Take(name);
    if (value == nullptr) return Missing(name);
    if (!value->is_number()) return Invalid(name, *value, "a number");
    out = value->get<double>();
    return absl::OkStatus();
  }
  // Whether all fields were read.
  absl::Status Finish() const {
    for (const auto& [name, value] : object_.items()) {
      if (!read_.contains(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat(Quoted(name), ": is not a field of version ", kVersion));
      }
    }
    return absl::OkStatus();
  }

 private:
  const Json* Take(const char* name) {
    read_.insert(name);
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  static absl::Status Missing(const char* name) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": is missing"));
  }

  const Json& object_;
  std::set<std::string> read_;
};

absl::Status CheckHeader(const Json& object) {
  Fields fields(object);
  std::string format;
  double version = 0;
  KC_RETURN_IF_ERROR(fields.Text("format", format));
  if (format != kFormat) {
    return Invalid("format", format, absl::StrCat("\"", std::string(kFormat), "\""));
  }
  KC_RETURN_IF_ERROR(fields.Number("version", version));
  if (version != kVersion) {
    return Invalid("version", object["version"],
                   absl::StrCat(kVersion, ", the version that this release reads"));
  }
  return fields.Finish();
}

absl::StatusOr<Lesson> LessonFromJson(const Json& object) {
  Fields fields(object);
  Lesson lesson;
  KC_RETURN_IF_ERROR(fields.Text("family", lesson.family));
  KC_RETURN_IF_ERROR(fields.Text("target", lesson.target));
  KC_RETURN_IF_ERROR(fields.Text("device_model", lesson.device_model));
  KC_RETURN_IF_ERROR(fields.Text("bottleneck", lesson.bottleneck));
  KC_RETURN_IF_ERROR(fields.Text("aspect", lesson.aspect));
  KC_RETURN_IF_ERROR(fields.Text("from", lesson.from));
  KC_RETURN_IF_ERROR(fields.Text("to", lesson.to));
  KC_RETURN_IF_ERROR(fields.Count("trials", lesson.trials));
  KC_RETURN_IF_ERROR(fields.Count("held", lesson.held));
  KC_RETURN_IF_ERROR(fields.Number("mean_log2_gain", lesson.mean_log2_gain));
  KC_RETURN_IF_ERROR(fields.Number("stddev_log2_gain", lesson.stddev_log2_gain));
  KC_RETURN_IF_ERROR(fields.Count("searches", lesson.searches));
  KC_RETURN_IF_ERROR(fields.Text("text", lesson.text));
  KC_RETURN_IF_ERROR(fields.Finish());
  KC_RETURN_IF_ERROR(ValidateLesson(lesson));
  return lesson;
}

Json ToJson(const Lesson& lesson) {
  return {{"family", lesson.family},
          {"target", lesson.target},
          {"device_model", lesson.device_model},
          {"bottleneck", lesson.bottleneck},
          {"aspect", lesson.aspect},
          {"from", lesson.from},
          {"to", lesson.to},
          {"trials", lesson.trials},
          {"held", lesson.held},
          {"mean_log2_gain", lesson.mean_log2_gain},
          {"stddev_log2_gain", lesson.stddev_log2_gain},
          {"searches", lesson.searches},
          {"text", lesson.text}};
}

absl::Status CheckSearch(const std::string& search) {
  if (!search.empty() && search.size() <= kMaxLearntSearchBytes && IsValidUtf8(search)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "search: ", Quoted(search), " is not UTF-8 of 1 to ", kMaxLearntSearchBytes, " bytes"));
}

// Reads a line after the header.
absl::Status AddLine(const Json& object, LessonBook& book) {
  if (object.contains("search")) {
    Fields fields(object);
    std::string search;
    KC_RETURN_IF_ERROR(fields.Text("search", search));
    KC_RETURN_IF_ERROR(fields.Finish());
    KC_RETURN_IF_ERROR(CheckSearch(search));
    if (!book.searches.insert(search).second) {
      return absl::InvalidArgumentError(absl::StrCat("search: ", Quoted(search), " occurs twice"));
    }
    if (book.searches.size() > kMaxLearntSearches) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMaxLearntSearches, " searches"));
    }
    return absl::OkStatus();
  }
  KC_ASSIGN_OR_RETURN(Lesson lesson, LessonFromJson(object));
  if (book.lessons.size() == kMaxLessons) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxLessons, " lessons"));
  }
  book.lessons.push_back(std::move(lesson));
  return absl::OkStatus();
}

absl::StatusOr<Json> ParseLine(std::string_view line) {
  JsonDepthLimit limit;
  try {
    Json object = Json::parse(line.begin(), line.end(), limit.Callback<Json>());
    if (!limit.exceeded() && object.is_object()) return object;
  } catch (const Json::out_of_range&) {
    const JsonNumberError error = FindNumberTooLarge<Json>(line);
    return absl::InvalidArgumentError(absl::StrCat(error.field.empty() ? "number" : error.field,
                                                   ": ", Quoted(error.number), " is too large"));
  } catch (const Json::exception&) {
    return absl::InvalidArgumentError("is not a JSON object");
  }
  return absl::InvalidArgumentError("is not a JSON object");
}

absl::Status SortLessons(LessonBook& book) {
  std::ranges::sort(book.lessons, {}, KeyOf);
  const auto twice = std::ranges::adjacent_find(book.lessons, {}, KeyOf);
  if (twice == book.lessons.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the lesson about ", Quoted(twice->aspect),
                                                 " from ", Quoted(twice->from), " to ",
                                                 Quoted(twice->to), " occurs twice"));
}

void AddLessons(const std::vector<Lesson>& more, LessonBook& book) {
  for (const Lesson& lesson : more) {
    const auto place = std::ranges::lower_bound(book.lessons, KeyOf(lesson), {}, KeyOf);
    if (place != book.lessons.end() && KeyOf(*place) == KeyOf(lesson)) {
      Pool(lesson, *place);
    } else {
      book.lessons.insert(place, lesson);
    }
  }
  if (book.lessons.size() <= kMaxLessons) return;
  std::ranges::stable_sort(book.lessons, [](const Lesson& a, const Lesson& b) {
    return std::tie(a.searches, a.trials) > std::tie(b.searches, b.trials);
  });
  book.lessons.resize(kMaxLessons);
  std::ranges::sort(book.lessons, {}, KeyOf);
}

absl::Status FullOfSearches() {
  return absl::ResourceExhaustedError(
      absl::StrCat("the file would have more than ", kMaxLearntSearches, " searches"));
}

absl::Status ErrnoError(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

// The file that a path names in the end, which need not exist.
absl::StatusOr<std::string> FollowLinks(std::string path) {
  std::error_code error;
  for (int i = 0; i < kMaxLinks; ++i) {
    if (!fs::is_symlink(path, error)) return path;
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path = (fs::path(path).parent_path() / target).string();
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": cannot follow the links"));
}

}  // namespace

absl::StatusOr<LessonBook> ParseLessonBook(std::string_view text) {
  LessonBook book;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    absl::StatusOr<Json> object = ParseLine(line);
    absl::Status read = object.status();
    if (read.ok()) read = number == 1 ? CheckHeader(*object) : AddLine(*object, book);
    if (!read.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", std::string(read.message())));
    }
  }
  if (number == 0) return absl::InvalidArgumentError("line 1: format: is missing");
  KC_RETURN_IF_ERROR(SortLessons(book));
  return book;
}

std::string LessonBookText(const LessonBook& book) {
  const auto line = [](const Json& object) {
    return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  std::string text = line({{"format", kFormat}, {"version", kVersion}});
  for (const std::string& search : book.searches) text += line({{"search", search}});
  for (const Lesson& lesson : book.lessons) text += line(ToJson(lesson));
  return text;
}

absl::Status AddSearch(const std::string& search, const std::vector<Lesson>& lessons,
                       LessonBook& book) {
  if (book.searches.contains(search)) return absl::OkStatus();
  KC_RETURN_IF_ERROR(CheckSearch(search));
  if (book.searches.size() >= kMaxLearntSearches) return FullOfSearches();
  book.searches.insert(search);
  AddLessons(lessons, book);
  return absl::OkStatus();
}

absl::Status MergeBook(const LessonBook& more, LessonBook& book) {
  std::vector<std::string> common;
  std::ranges::set_intersection(more.searches, book.searches, std::back_inserter(common));
  if (!more.searches.empty() && common.size() == more.searches.size()) return absl::OkStatus();
  if (!book.searches.empty() && common.size() == book.searches.size()) {
    book = more;
    return absl::OkStatus();
  }
  if (!common.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the search ", Quoted(common.front()),
                     " was learnt by both files, but each also has others; it would count twice"));
  }
  if (book.searches.size() + more.searches.size() > kMaxLearntSearches) return FullOfSearches();
  book.searches.insert(more.searches.begin(), more.searches.end());
  AddLessons(more.lessons, book);
  return absl::OkStatus();
}

std::vector<Lesson> LessonsFor(const LessonBook& book, std::string_view family,
                               std::string_view target, std::string_view device_model,
                               size_t count) {
  std::vector<Lesson> chosen;
  for (const Lesson& lesson : book.lessons) {
    if (lesson.family == family && lesson.target == target) chosen.push_back(lesson);
  }
  const auto rank = [&](const Lesson& lesson) {
    const bool other = !device_model.empty() && lesson.device_model != device_model;
    return std::pair(other, -std::abs(EstimateOf(lesson, lesson.device_model).Expected()));
  };
  std::ranges::stable_sort(chosen, {}, rank);
  if (chosen.size() > count) chosen.resize(count);
  return chosen;
}

absl::StatusOr<std::unique_ptr<LessonFile>> LessonFile::Lock(const std::string& path) {
  KC_ASSIGN_OR_RETURN(std::string file, FollowLinks(path));
  KC_RETURN_IF_ERROR(MakeFolders(fs::path(file).parent_path().string()));
  const std::string lock = absl::StrCat(file, ".lock");
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoError("write", lock);
  auto locked = std::unique_ptr<LessonFile>(new LessonFile(std::move(file), fd));
  while (flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) return ErrnoError("lock", lock);
  }
  return locked;
}

LessonFile::~LessonFile() { close(fd_); }

absl::StatusOr<LessonBook> LessonFile::Read() const {
  std::error_code error;
  if (!fs::exists(path_, error)) return LessonBook();
  return ReadLessonBook(path_);
}

absl::Status LessonFile::Write(const LessonBook& book) const {
  KC_RETURN_IF_ERROR(CheckWritable());
  return WriteFileAtomically(path_, LessonBookText(book));
}

absl::Status LessonFile::CheckWritable() const {
  std::error_code error;
  const bool exists = fs::exists(path_, error);
  if (exists && !fs::is_regular_file(path_, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": is not a regular file"));
  }
  if (exists && access(path_.c_str(), W_OK) != 0) return ErrnoError("write", path_);
  // The lock file may exist in a folder that is not writable.
  const std::string folder = fs::path(path_).parent_path().string();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) return ErrnoError("write", path_);
  return absl::OkStatus();
}

absl::StatusOr<LessonBook> ReadLessonBook(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  }
  KC_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxFileBytes));
  return WithPrefix(absl::StrCat(path, ": "), ParseLessonBook(text));
}

}  // namespace kernelcast::cli
