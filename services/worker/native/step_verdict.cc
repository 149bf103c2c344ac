#include "services/worker/native/step_verdict.h"

#include <sys/statvfs.h>

#include <cctype>
#include <chrono>
#include <shared_mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"

namespace kernelcast::worker {
namespace {

// With less than this, outputs of a compilation may not fit.
constexpr uint64_t kMinFreeBytes = 64 << 20;
constexpr uint64_t kMinFreeFiles = 16;
// Compilers that run at the same time end within this, or the repetition does not run alone.
constexpr std::chrono::seconds kAloneWait(60);
constexpr size_t kLoggedBytes = 2000;

// Held shared while a step runs, and alone while one is repeated.
std::shared_timed_mutex& Running() {
  static std::shared_timed_mutex mutex;
  return mutex;
}

// Whether the text ends with the number of a line: "kernel.cc:3:5", "kernel.cu(3)".
bool EndsWithLine(std::string_view text) {
  const bool in_brackets = text.ends_with(')');
  if (in_brackets) text.remove_suffix(1);
  const size_t digits = text.size();
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text.size() < digits && text.size() > 1 && text.back() == (in_brackets ? '(' : ':');
}

// Whether `severity` follows the number of a line anywhere in the log.
bool HasAtLine(std::string_view log, std::string_view severity) {
  for (size_t at = log.find(severity); at != std::string_view::npos;
       at = log.find(severity, at + 1)) {
    const size_t start = log.substr(0, at).rfind('\n') + 1;
    if (EndsWithLine(log.substr(start, at - start))) return true;
  }
  return false;
}

// Describes what the folder's file system lacks: bytes or files. Empty: nothing.
std::string FullDisk(const std::string& directory) {
  struct statvfs info {};
  if (statvfs(directory.c_str(), &info) != 0) return absl::StrCat("there is no ", directory);
  const uint64_t bytes = uint64_t{info.f_bavail} * info.f_frsize;
  if (bytes < kMinFreeBytes) return absl::StrCat(bytes >> 20, " MiB are free in ", directory);
  // Some file systems have no fixed number of files.
  if (info.f_files > 0 && info.f_favail < kMinFreeFiles) {
    return absl::StrCat("no more files can be made in ", directory);
  }
  return "";
}

std::string HowItEnded(const CompilerStep& step) {
  return step.signal != 0 ? absl::StrCat("signal ", step.signal)
                          : absl::StrCat("exit code ", step.exit_code);
}

// The output may quote files that a source included, so only the worker's log has it.
absl::Status NotWorking(const std::string& why, const CompilerStep& step) {
  const std::string clean = SanitizeUtf8(step.log);
  const std::string log(TruncateUtf8Front(clean, kLoggedBytes));
  Log(LogLevel::kWarning, "a compiler does not work", {{"reason", why}, {"output", log}});
  return absl::UnavailableError(absl::StrCat("the compiler does not work here: ", why));
}

absl::StatusOr<CompilerStep> RunShared(const StepFunction& step) {
  const std::shared_lock lock(Running());
  return step();
}

}  // namespace

bool HasErrorAtLine(std::string_view log) {
  return HasAtLine(log, ": error: ") || HasAtLine(log, ": error #") || HasAtLine(log, ": Error: ");
}

bool HasFatalDiagnostic(std::string_view log) {
  if (HasErrorAtLine(log) || HasAtLine(log, ": fatal error: ") ||
      HasAtLine(log, ": sorry, unimplemented: ") || HasAtLine(log, ": catastrophic error: ")) {
    return true;
  }
  for (const absl::string_view line : absl::StrSplit(AbslView(log), '\n')) {
    // GCC's compiler proper. What its driver says is about programs.
    if (absl::StartsWith(line, "cc1plus: error: ") ||
        absl::StartsWith(line, "cc1plus: fatal error: ")) {
      return true;
    }
    const bool tool = absl::StartsWith(line, "ptxas ") || absl::StartsWith(line, "nvlink ");
    if (tool && (absl::StrContains(line, "error") || absl::StrContains(line, "fatal"))) return true;
  }
  return false;
}

absl::StatusOr<CompilerStep> RunWithVerdict(const std::string& directory, Evidence evidence,
                                            const StepFunction& step, const StepFunction& control) {
  const auto certain = [evidence](const CompilerStep& ended) {
    return ended.ok || ended.limit ||
           (evidence == Evidence::kDiagnostic && ended.signal == 0 && HasErrorAtLine(ended.log));
  };
  KC_ASSIGN_OR_RETURN(CompilerStep first, RunShared(step));
  if (certain(first)) return first;
  std::unique_lock alone(Running(), kAloneWait);
  KC_ASSIGN_OR_RETURN(CompilerStep ended, step());
  if (certain(ended)) return ended;
  if (const std::string full = FullDisk(directory); !full.empty()) return NotWorking(full, ended);
  if (ended.signal != 0 || (evidence == Evidence::kDiagnostic && !HasFatalDiagnostic(ended.log))) {
    return NotWorking(absl::StrCat("it ended with ", HowItEnded(ended), " and no diagnostic"),
                      ended);
  }
  KC_ASSIGN_OR_RETURN(const CompilerStep correct, control());
  if (!correct.ok) {
    return NotWorking(absl::StrCat("it refuses a correct source with ", HowItEnded(correct)),
                      correct);
  }
  return ended;
}

}  // namespace kernelcast::worker
