#include "services/cli/commands/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "services/cli/core/exit_code.h"

namespace kernelcast::cli {
namespace {

bool ColoursWanted(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(fd) != 0 && (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

int WidthOf(int fd) {
  winsize size{};
  if (isatty(fd) == 0 || ioctl(fd, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col == 0 ? 80 : size.ws_col;
}

}  // namespace

Json ErrorJson(const absl::Status& status) {
  return {{"code", absl::StatusCodeToString(status.code())},
          {"message", std::string(status.message())},
          {"exit_code", static_cast<int>(ExitCodeFor(status))}};
}

Console::Console()
    : live_(ColoursWanted(STDERR_FILENO)),
      out_style_(ColoursWanted(STDOUT_FILENO)),
      error_style_(ColoursWanted(STDERR_FILENO)) {}

int Console::width() const { return WidthOf(STDOUT_FILENO); }

int Console::live_width() const {
  const int width = WidthOf(STDERR_FILENO);
  return width == 0 ? 80 : width;
}

void Console::Write(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (fd == STDOUT_FILENO && output_status_.ok()) {
        const absl::Status reason = absl::ErrnoToStatus(errno, "cannot write to standard output");
        output_status_ = absl::ResourceExhaustedError(reason.message());
      }
      return;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

absl::Status Console::output_status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return output_status_;
}

void Console::Erase() {
  if (drawn_lines_ == 0) return;
  Write(STDERR_FILENO, "\x1b[" + std::to_string(drawn_lines_) + "A\r\x1b[J");
  drawn_lines_ = 0;
}

void Console::Draw(const std::vector<std::string>& lines) {
  if (!live_ || quiet_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string frame;
  if (drawn_lines_ == 0 && !lines.empty()) frame += "\x1b[?25l";
  if (drawn_lines_ > 0) frame += "\x1b[" + std::to_string(drawn_lines_) + "A";
  for (const std::string& line : lines) frame += "\r\x1b[2K" + line + "\n";
  if (drawn_lines_ > lines.size()) frame += "\x1b[J";
  if (drawn_lines_ > 0 && lines.empty()) frame += "\x1b[?25h";
  Write(STDERR_FILENO, frame);
  drawn_lines_ = lines.size();
  block_ = lines;
}

void Console::Out(std::string_view text) {
  if (json_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Erase();
  Write(STDOUT_FILENO, text);
}

void Console::Line(const Json& json) {
  if (!json_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Write(STDOUT_FILENO, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Console::Note(std::string_view text) {
  if (quiet_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool block = drawn_lines_ > 0;
  Erase();
  Write(STDERR_FILENO, WrapText(text, WidthOf(STDERR_FILENO)) + "\n");
  if (block) {
    // Redraw the block below the note.
    std::string frame;
    for (const std::string& line : block_) frame += line + "\n";
    Write(STDERR_FILENO, frame);
    drawn_lines_ = block_.size();
  }
}

void Console::Warn(std::string_view text) {
  Note(error_style_.Yellow("warning: ") + std::string(text));
}

void Console::Error(const absl::Status& status) {
  const std::string message(status.message());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Erase();
    Write(STDERR_FILENO, WrapText(error_style_.Red("kernelcast: ") + ForTerminal(message),
                                  WidthOf(STDERR_FILENO)) +
                             "\n");
  }
  Line({{"error", ErrorJson(status)}});
}

}  // namespace kernelcast::cli
