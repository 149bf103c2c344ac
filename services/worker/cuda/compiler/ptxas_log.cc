#include "services/worker/cuda/compiler/ptxas_log.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "common/base/strings.h"
#include "services/worker/virtual_gpu/text.h"

namespace kernelcast::worker {
namespace {

// Returns the number before `words`, or 0.
int64_t NumberBefore(std::string_view line, std::string_view words) {
  const size_t at = line.find(words);
  if (at == std::string_view::npos) {
    return 0;
  }
  size_t start = at;
  while (start > 0 && std::isdigit(static_cast<unsigned char>(line[start - 1])) != 0) {
    --start;
  }
  int64_t number = 0;
  std::from_chars(line.data() + start, line.data() + at, number);
  return number;
}

bool IsPtxasLine(std::string_view line) {
  return line.starts_with("ptxas info") || line.starts_with("ptxas         .");
}

template <class See>
void ForEachLine(std::string_view text, See see) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    see(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
}

}  // namespace

std::vector<PtxasFunction> ReadPtxasInfo(std::string_view log) {
  std::vector<PtxasFunction> functions;
  std::string_view kernel;
  ForEachLine(log, [&](std::string_view line) {
    if (!IsPtxasLine(line)) {
      return;
    }
    const auto quoted = [line](std::string_view words) -> std::string_view {
      const size_t at = line.find(words);
      if (at == std::string_view::npos) {
        return {};
      }
      const std::string_view rest = line.substr(at + words.size());
      return rest.substr(0, rest.find('\''));
    };
    if (const std::string_view name = quoted("Compiling entry function '"); !name.empty()) {
      kernel = name;
    } else if (const size_t at = line.find("Function properties for ");
               at != std::string_view::npos) {
      PtxasFunction function;
      const std::string_view properties_of = Trim(line.substr(at + 24));
      function.name = std::string(properties_of);
      function.is_kernel = properties_of == kernel;
      functions.push_back(std::move(function));
    } else if (functions.empty()) {
      return;
    } else if (line.find("bytes stack frame") != std::string_view::npos) {
      functions.back().stack_bytes = NumberBefore(line, " bytes stack frame");
      functions.back().spill_store_bytes = NumberBefore(line, " bytes spill stores");
      functions.back().spill_load_bytes = NumberBefore(line, " bytes spill loads");
    } else if (line.find(" registers") != std::string_view::npos) {
      // Belongs to the kernel, which need not be the function named last.
      auto found = std::find_if(functions.rbegin(), functions.rend(),
                                [&](const PtxasFunction& f) { return f.name == kernel; });
      PtxasFunction& function = found == functions.rend() ? functions.back() : *found;
      function.registers = NumberBefore(line, " registers");
      function.shared_bytes = NumberBefore(line, " bytes smem");
    }
  });
  return functions;
}

std::string WithoutPtxasInfo(std::string_view log) {
  std::string rest;
  ForEachLine(log, [&](std::string_view line) {
    if (!IsPtxasLine(line) && line != std::string_view("\0", 1)) {
      rest.append(line).push_back('\n');
    }
  });
  return rest;
}

}  // namespace kernelcast::worker
