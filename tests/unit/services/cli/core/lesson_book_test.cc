#include "services/cli/core/lesson_book.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

struct BookFolder {
  BookFolder() {
    std::string pattern = (fs::temp_directory_path() / "kernelcast-lessons-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~BookFolder() { fs::remove_all(path); }
  std::string File(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

Lesson About(const std::string& aspect, double mean = 0.5, uint32_t trials = 4) {
  Lesson lesson;
  lesson.family = "softmax";
  lesson.target = "cuda";
  lesson.device_model = "NVIDIA H200";
  lesson.aspect = aspect;
  lesson.from = "1";
  lesson.to = "4";
  lesson.trials = trials;
  lesson.held = trials;
  lesson.mean_log2_gain = mean;
  lesson.stddev_log2_gain = 0.25;
  lesson.searches = 1;
  return lesson;
}

LessonBook Book(const std::string& search, const std::vector<Lesson>& lessons) {
  LessonBook book;
  REQUIRE(AddSearch(search, lessons, book).ok());
  return book;
}

TEST_CASE("A book of lessons is read as it was written") {
  Lesson odd = About("parameter \"VEC\"\\");
  odd.mean_log2_gain = 0.1 + 0.2;
  odd.text = "Wide loads \u00fcber alles";
  odd.bottleneck = "dram";
  const LessonBook book = Book("s#1", {About("template"), odd});
  const auto read = ParseLessonBook(LessonBookText(book));
  REQUIRE(read.ok());
  CHECK(read->lessons == book.lessons);
  CHECK(read->searches == book.searches);
  CHECK(ParseLessonBook(LessonBookText({}))->lessons.empty());
}

TEST_CASE("Bad files are refused with line, field and value") {
  const std::string good = LessonBookText(Book("s", {About("parameter VEC")}));
  const auto error = [&](const std::string& from, const std::string& to) {
    const std::string text = absl::StrReplaceAll(good, {{from, to}});
    REQUIRE(text != good);
    return std::string(ParseLessonBook(text).status().message());
  };
  CHECK(ParseLessonBook("").status().message() == "line 1: format: is missing");
  CHECK_THAT(error("kernelcast-lessons", "csv"),
             Contains("line 1: format: '\"csv\"' is not \"kernelcast-lessons\""));
  CHECK_THAT(error("\"version\":1", "\"version\":2"), Contains("line 1: version: '2' is not 1"));
  CHECK_THAT(error("\"search\":\"s\"", "\"search\":\"\""), Contains("line 2: search: ''"));
  CHECK_THAT(error("\"trials\":4", "\"trials\":-4"), Contains("line 3: trials: '-4'"));
  CHECK_THAT(error("\"trials\":4", "\"trials\":1e30"), Contains("line 3: trials: '1e+30'"));
  CHECK_THAT(error("\"held\":4", "\"held\":5"), Contains("line 3: held: 5 is not a number from"));
  CHECK_THAT(error("_gain\":0.5", "_gain\":16"), Contains("line 3: mean_log2_gain: 16 is not"));
  CHECK_THAT(error("_gain\":0.5", "_gain\":1e999"),
             Contains("line 3: mean_log2_gain: '1e999' is too large"));
  CHECK_THAT(error("_gain\":0.5", "_gain\":\"x\""), Contains("line 3: mean_log2_gain: '\"x\"'"));
  CHECK_THAT(error("\"text\":", "\"txt\":"), Contains("line 3: text: is missing"));
  CHECK_THAT(error("\"text\":", "\"more\":1,\"text\":"),
             Contains("line 3: 'more': is not a field of version 1"));
  CHECK_THAT(error("\"family\":\"softmax\"", "\"family\":\"a\\nb\""), Contains("line 3: family: "));
  CHECK_THAT(error("{\"family\"", "[{\"family\""), Contains("line 3: is not a JSON object"));
  CHECK_THAT(
      std::string(ParseLessonBook(good + good.substr(good.find("{\"family\""))).status().message()),
      Contains("the lesson about 'parameter VEC' from '1' to '4' occurs twice"));
  CHECK_THAT(std::string(ParseLessonBook(std::string(100'000, '[')).status().message()),
             Contains("line 1: is not a JSON object"));
}

TEST_CASE("A search counts once however often it is learnt") {
  LessonBook book = Book("s", {About("parameter VEC")});
  REQUIRE(AddSearch("s", {About("parameter VEC")}, book).ok());
  CHECK(book.lessons.front().trials == 4);
  REQUIRE(AddSearch("t", {About("parameter VEC", -0.1), About("template")}, book).ok());
  REQUIRE(book.lessons.size() == 2);
  CHECK(book.lessons.front().trials == 8);
  CHECK(book.lessons.front().mean_log2_gain == Approx(0.2));
  CHECK(book.lessons.front().searches == 2);
}

TEST_CASE("Merged books count each search once") {
  const LessonBook one = Book("s", {About("template")});
  LessonBook both = one;
  REQUIRE(MergeBook(Book("t", {About("template")}), both).ok());
  CHECK(both.lessons.front().trials == 8);
  CHECK(both.searches.size() == 2);
  LessonBook again = both;
  REQUIRE(MergeBook(one, again).ok());
  CHECK(again.lessons == both.lessons);
  LessonBook part = one;
  REQUIRE(MergeBook(both, part).ok());
  CHECK(part.lessons == both.lessons);
  LessonBook third = Book("u", {});
  REQUIRE(MergeBook(one, third).ok());
  const absl::Status overlap = MergeBook(both, third);
  CHECK(overlap.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(overlap.message()), Contains("'s' was learnt by both"));
}

TEST_CASE("A full book drops the lessons with the least evidence") {
  LessonBook book;
  std::vector<Lesson> lessons;
  for (size_t i = 0; i < kMaxLessons + 10; ++i) {
    lessons.push_back(About(absl::StrCat("a", i), 0.5, i < 10 ? 1 : 2));
  }
  REQUIRE(AddSearch("s", lessons, book).ok());
  CHECK(book.lessons.size() == kMaxLessons);
  for (const Lesson& lesson : book.lessons) CHECK(lesson.trials == 2);
  CHECK(ParseLessonBook(LessonBookText(book)).ok());
}

TEST_CASE("A search gets the lessons of its family, those of its device model first") {
  Lesson other = About("template", 2);
  other.device_model = "NVIDIA L40S";
  Lesson family = About("template");
  family.family = "matmul";
  Lesson target = About("template");
  target.target = "cpu";
  const LessonBook book =
      Book("s", {other, family, target, About("parameter A", 0.4), About("parameter B", -0.8)});
  const auto aspects = [&](std::string_view device, size_t count) {
    std::string text;
    for (const Lesson& lesson : LessonsFor(book, "softmax", "cuda", device, count)) {
      text += lesson.aspect + ";";
    }
    return text;
  };
  CHECK(aspects("NVIDIA H200", 9) == "parameter B;parameter A;template;");
  CHECK(aspects("", 9) == "template;parameter B;parameter A;");
  CHECK(aspects("NVIDIA H200", 2) == "parameter B;parameter A;");
}

std::string Content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("A book is written through links, and replaced atomically") {
  const BookFolder folder;
  const std::string real = folder.File("real/book.jsonl");
  const std::string link = folder.File("link.jsonl");
  fs::create_symlink("real/book.jsonl", link);
  {
    const auto file = LessonFile::Lock(link);
    REQUIRE(file.ok());
    CHECK((*file)->Read()->lessons.empty());
    REQUIRE((*file)->Write(Book("s", {About("template")})).ok());
  }
  CHECK(fs::is_symlink(link));
  CHECK(ReadLessonBook(real)->lessons.size() == 1);
  CHECK(ReadLessonBook(link)->searches.contains("s"));
}

TEST_CASE("Files that are no books are not overwritten") {
  const BookFolder folder;
  const std::string path = folder.File("notes.txt");
  std::ofstream(path) << "my notes\n";
  const auto file = LessonFile::Lock(path);
  REQUIRE(file.ok());
  CHECK_THAT(std::string((*file)->Read().status().message()),
             Contains(path + ": line 1: is not a JSON object"));
  CHECK(Content(path) == "my notes\n");
  const auto directory = LessonFile::Lock(folder.File("."));
  CHECK((!directory.ok() || !(*directory)->CheckWritable().ok()));
  CHECK(ReadLessonBook(folder.File("missing")).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("Processes that learn at once lose nothing") {
  const BookFolder folder;
  const std::string path = folder.File("book.jsonl");
  constexpr int kProcesses = 4, kSearches = 10;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      bool ok = true;
      for (int i = 0; i < kSearches && ok; ++i) {
        const auto file = LessonFile::Lock(path);
        auto book = file.ok() ? (*file)->Read() : absl::StatusOr<LessonBook>(file.status());
        ok = book.ok() &&
             AddSearch(absl::StrCat(process, "/", i), {About("template")}, *book).ok() &&
             (*file)->Write(*book).ok();
      }
      _exit(ok ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  const auto book = ReadLessonBook(path);
  REQUIRE(book.ok());
  CHECK(book->searches.size() == kProcesses * kSearches);
  CHECK(book->lessons.front().trials == 4 * kProcesses * kSearches);
}

}  // namespace
}  // namespace kernelcast::cli
