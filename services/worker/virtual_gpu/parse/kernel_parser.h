#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_KERNEL_PARSER_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_KERNEL_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "services/worker/virtual_gpu/bind/decoder.h"
#include "services/worker/virtual_gpu/parse/parser.h"
#include "services/worker/virtual_gpu/parse/syntax.h"
#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

// The names declared in one block of braces.
struct Scope {
  struct Family {  // ".reg .b32 %r<10>"
    SlotClass kind = SlotClass::kWord;
    bool is_float = false;
    int64_t count = 0;
  };
  struct Place {
    Space space = Space::kGeneric;
    uint64_t address = 0;
  };
  std::unordered_map<std::string_view, uint16_t> registers;
  std::unordered_map<std::string_view, Family> families;
  std::unordered_map<std::string_view, Place> places;
};

// A device function: its declared results and parameters, and the position of its body after the
// brace.
struct Function {
  std::string_view results;
  std::string_view parameters;
  size_t body = 0;
};
using Functions = std::unordered_map<std::string_view, Function>;

// The PTX and its declarations, collected before any kernel is parsed.
struct Module {
  std::string_view text;
  Functions functions;
  std::vector<size_t> line_starts;

  // Number of the line that `part` starts in, counted from 1; 0 if it is not part of the text.
  int32_t LineOf(std::string_view part) const;
};

// Parses one kernel. What it does not understand becomes the kernel's reason for not being covered.
class KernelParser {
 public:
  // `module`, `limits` and `kernel` must outlive the parser. `scope` has the names of the module.
  KernelParser(const Scope& scope, const Module& module, const ProgramLimits& limits,
               Kernel& kernel);

  // Limits the number of instructions; what is left is there after parsing.
  void set_instructions_left(int64_t left) { instructions_left_ = left; }
  int64_t instructions_left() const { return instructions_left_; }

  Scope& module_scope() { return scopes_[0]; }
  void AddShared(const Variable& variable, Scope& scope);
  void Parameters(std::string_view text);
  // Parses the statements from `i`, just after a brace, to the matching brace, and returns its
  // position.
  size_t Body(size_t i);
  // Call it after the last statement.
  void Finish();

 private:
  // PTX labels contain no space, so this name is unique.
  static constexpr std::string_view kReturn = " return";
  static constexpr uint64_t kDynamicMark = uint64_t{1} << 40;

  void Refuse(std::string why);
  void OpenScope();
  void CloseScope();
  void Label(std::string_view name);
  // ".loc 1 42 5": what follows belongs to that line of the source.
  void Location(std::string_view text);
  void Statement(std::string_view text);
  void Directive(std::string_view text);
  void DeclareRegisters(std::string_view text);
  void Instruct(std::string_view text);

  void ResolveJumps();
  void Jump(Instruction instruction, std::string_view label);
  // Expands "brx.idx index, table" to a comparison and a branch for each target.
  void BranchByTable(const Instruction& instruction, std::string_view rest);
  // "call (result), name, (arguments)": inlines the body of the function.
  void Call(const Instruction& instruction, std::string_view rest);

  std::optional<uint16_t> FindRegister(std::string_view name);
  const Scope::Place* FindPlace(std::string_view name) const;
  // Dynamic shared memory follows static memory, whose size is known only after all declarations.
  uint64_t AddressOf(const Scope::Place& place) const;
  std::optional<Operand> ParseOperand(std::string_view text, int depth = 0);
  std::optional<Operand> ParseAddress(std::string_view text);

  const ProgramLimits& limits_;
  const Module& module_;
  Kernel& kernel_;
  Decoder decoder_;
  std::vector<Scope> scopes_;  // of the module, of the kernel, and of nested braces
  int depth_ = 0;
  std::unordered_map<std::string_view, int32_t> labels_;
  std::vector<std::pair<int32_t, std::string_view>> jumps_;
  std::unordered_map<std::string_view, std::vector<std::string_view>> branch_targets_;
  std::string_view last_label_;
  std::vector<int64_t> arguments_;  // bytes in use, per scope
  int32_t table_predicate_ = -1;
  int32_t source_line_ = 0;
  int calls_ = 0;
  int64_t dynamic_align_ = 16;
  bool has_dynamic_ = false;
  int64_t instructions_left_ = 0;
};

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_KERNEL_PARSER_H_
