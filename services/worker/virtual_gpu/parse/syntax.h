#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_SYNTAX_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_SYNTAX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The words, numbers and declarations of PTX.

namespace kernelcast::worker::virtual_gpu {

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Parses a decimal or hexadecimal integer.
std::optional<int64_t> Integer(std::string_view text);

// Parses "0f3F800000" and "0d3FF0000000000000".
std::optional<uint64_t> RealBits(std::string_view text);

// Splits at commas outside brackets.
std::vector<std::string_view> SplitOperands(std::string_view text);

// Splits at space.
std::vector<std::string_view> Words(std::string_view text);

// Size of a type such as ".u32" or ".f16x2"; 0: not known.
int64_t TypeBytes(std::string_view type);

// A declaration such as ".global .align 4 .b8 name[16] = {1, 2}".
struct Variable {
  std::string_view space;
  std::string_view name;
  int64_t align = 1;
  int64_t element_bytes = 0;
  int64_t bytes = 0;
  bool unsized = false;
  bool external = false;
  std::string initial;
};

// Parses a declaration; nullopt: not understood.
std::optional<Variable> ParseVariable(std::string_view text);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_SYNTAX_H_
