#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_CONSOLE_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_CONSOLE_H_

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {

using Json = nlohmann::ordered_json;

// An error in the output of --json: {"code", "message", "exit_code"}, the same in all commands.
Json ErrorJson(const absl::Status& status);

// The program's output streams. Results go to standard output: text, or with --json only JSON.
// Everything else goes to standard error. Thread-safe.
class Console {
 public:
  Console();

  void set_json(bool json) { json_ = json; }
  void set_quiet(bool quiet) { quiet_ = quiet; }
  bool json() const { return json_; }

  // Style of standard output.
  const Style& style() const { return out_style_; }
  // Columns of standard output if it is a terminal, else 0.
  int width() const;

  // A result for people; not printed with --json.
  void Out(std::string_view text);
  // A result for machines, one line; printed only with --json.
  void Line(const Json& json);
  // Progress messages; not printed with --quiet.
  void Note(std::string_view text);
  void Warn(std::string_view text);
  // With --json also prints an object {"error": ...} to standard output.
  void Error(const absl::Status& status);

  // Whether a block can be redrawn on standard error: it is a terminal, and neither --quiet,
  // NO_COLOR nor a dumb TERM is set.
  bool live() const { return live_; }
  // Replaces the lines drawn before. An empty list removes the block.
  void Draw(const std::vector<std::string>& lines);
  // RESOURCE_EXHAUSTED: a write to standard output has failed. The message has the reason.
  absl::Status output_status() const;

  // Style and width of standard error.
  const Style& live_style() const { return error_style_; }
  int live_width() const;

 private:
  void Erase();
  void Write(int fd, std::string_view text);

  mutable std::mutex mutex_;
  absl::Status output_status_;  // guarded by mutex_
  bool json_ = false;
  bool quiet_ = false;
  bool live_ = false;
  Style out_style_;
  Style error_style_;
  size_t drawn_lines_ = 0;          // guarded by mutex_
  std::vector<std::string> block_;  // guarded by mutex_
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_CONSOLE_H_
