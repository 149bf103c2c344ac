#include "services/worker/virtual_gpu/parse/parser.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/strings.h"
#include "services/worker/virtual_gpu/parse/kernel_parser.h"
#include "services/worker/virtual_gpu/parse/syntax.h"
#include "services/worker/virtual_gpu/text.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

class ModuleParser {
 public:
  ModuleParser(std::string_view text, const ProgramLimits& limits)
      : limits_(limits), text_(text), left_(limits.instructions) {
    module_.text = text;
    module_.line_starts.push_back(0);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') module_.line_starts.push_back(i + 1);
    }
  }

  Program Parse() {
    FindFunctions();
    size_t start = 0;
    for (size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '\n') {
        const std::string_view line = Trim(text_.substr(start, i - start));
        if (line.starts_with(".version") || line.starts_with(".target") ||
            line.starts_with(".address_size") || line.starts_with(".file") ||
            line.starts_with(".loc")) {
          start = i + 1;
        }
      } else if (c == ';') {
        Declaration(Trim(text_.substr(start, i - start)));
        start = i + 1;
      } else if (c == '{') {
        const std::string_view header = Trim(text_.substr(start, i - start));
        if (header.find('=') != std::string_view::npos) {
          // Initial values of a variable.
          i = std::min(text_.find('}', i), text_.size());
        } else if (header.find(".entry") != std::string_view::npos) {
          i = Body(header, i + 1);
          start = i + 1;
        } else {
          i = SkipBody(i + 1);
          start = i + 1;
        }
      }
    }
    return std::move(program_);
  }

 private:
  // Device functions may be defined after the kernels that call them.
  void FindFunctions() {
    for (size_t at = text_.find(".func"); at != std::string_view::npos;
         at = text_.find(".func", at + 5)) {
      const size_t end = text_.find_first_of("{;", at);
      if (end == std::string_view::npos) return;
      if (text_[end] == ';') continue;  // declared, not defined
      std::string_view header = Trim(text_.substr(at + 5, end - at - 5));
      Function function;
      function.body = end + 1;
      const auto list = [&](std::string_view& to) {
        if (header.empty() || header[0] != '(') return;
        const size_t close = std::min(header.find(')'), header.size() - 1);
        to = Trim(header.substr(1, close - 1));
        header = Trim(header.substr(close + 1));
      };
      list(function.results);
      size_t name = 0;
      while (name < header.size() && IsName(header[name])) ++name;
      const std::string_view called = header.substr(0, name);
      header = Trim(header.substr(name));
      list(function.parameters);
      if (!called.empty() && module_.functions.size() < 4096) {
        module_.functions.emplace(called, function);
      }
    }
  }

  void Declaration(std::string_view text) {
    if (text.empty()) return;
    const auto variable = ParseVariable(text);
    if (!variable) return;
    if (variable->space == "shared") {
      shared_.push_back(*variable);
      return;
    }
    if (variable->space != "global" && variable->space != "const") return;
    if (program_.variables.size() >= 4096) return;
    const int64_t at = RoundUp(module_bytes_, variable->align);
    if (variable->bytes > (int64_t{1} << 28) || at > (int64_t{1} << 28)) return;
    module_bytes_ = at + variable->bytes;
    const uint64_t address = kModuleBase + static_cast<uint64_t>(at);
    program_.variables.push_back({address, variable->bytes, variable->initial});
    scope_.places[variable->name] = {variable->space == "const" ? Space::kConstant : Space::kGlobal,
                                     address};
  }

  // Returns the position of the closing brace.
  size_t SkipBody(size_t i) const {
    int depth = 1;
    for (; i < text_.size(); ++i) {
      if (text_[i] == '{') ++depth;
      if (text_[i] == '}' && --depth == 0) return i;
    }
    return text_.size();
  }

  size_t Body(std::string_view header, size_t i) {
    auto kernel = std::make_unique<Kernel>();
    const std::string_view after = Trim(header.substr(header.find(".entry") + 6));
    size_t end = 0;
    while (end < after.size() && IsName(after[end])) ++end;
    kernel->name = std::string(after.substr(0, std::min<size_t>(end, 1024)));
    KernelParser parser(scope_, module_, limits_, *kernel);
    parser.set_instructions_left(left_);
    for (const Variable& variable : shared_) {
      parser.AddShared(variable, parser.module_scope());
    }
    if (const size_t open = after.find('('); open != std::string_view::npos) {
      const size_t close = after.find(')', open);
      parser.Parameters(
          after.substr(open + 1, close == std::string_view::npos ? close : close - open - 1));
    }
    i = parser.Body(i);
    parser.Finish();
    left_ = parser.instructions_left();
    if (program_.kernels.size() < 256) program_.kernels.push_back(std::move(kernel));
    return i;
  }

  const ProgramLimits& limits_;
  const std::string_view text_;
  Module module_;
  int64_t left_;
  int64_t module_bytes_ = 0;
  Program program_;
  Scope scope_;
  std::vector<Variable> shared_;
};

}  // namespace

Program ParseProgram(std::string_view text, const ProgramLimits& limits) {
  auto stripped = std::make_unique<std::string>(
      WithoutComments(text.substr(0, static_cast<size_t>(limits.text_bytes))));
  Program program = ModuleParser(*stripped, limits).Parse();
  program.text = std::move(*stripped);
  return program;
}

}  // namespace kernelcast::worker::virtual_gpu
