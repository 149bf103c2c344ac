#ifndef KERNELCAST_TESTS_SUPPORT_GATED_SILU_CANDIDATES_H_
#define KERNELCAST_TESTS_SUPPORT_GATED_SILU_CANDIDATES_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kernelcast::testing {

// A KernelBench task that takes a GPU about 100 us: silu(gate) * value.
extern const char* const kGatedSiluTask;
// A candidate with a Triton kernel.
extern const char* const kGatedSiluTriton;
// Python for a candidate. writable(tensor) returns an input of float32 in memory that can be
// written. The judge maps inputs for reading only, but the driver lets a process map the same
// memory again.
extern const char* const kMapsInputsAnew;

// A candidate in PyTorch. `body` is that of forward(self, gate, value), with its indentation, where
// `silu` is PyTorch's and self.calls counts calls from 1; `before` stands before the class.
std::string GatedSiluModel(const std::string& body, const std::string& before = "");

// A candidate, and the verdict that it deserves on a GPU.
struct PythonCase {
  std::string name;
  std::string source;
  // Several where it depends on when the judge notices. "compile_error" is the only one.
  std::set<std::string> outcomes;
  std::string feedback = "";  // a part of it
  // The maximum speedup of one that is measured although it cheats: remembering is charged.
  std::optional<double> most_speedup = std::nullopt;
};

// Candidates that are right, wrong, that fail, hang or cheat.
std::vector<PythonCase> GatedSiluCases();

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_GATED_SILU_CANDIDATES_H_
