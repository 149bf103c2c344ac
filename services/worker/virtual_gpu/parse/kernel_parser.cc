#include "services/worker/virtual_gpu/parse/kernel_parser.h"

#include <algorithm>
#include <utility>

#include "common/base/strings.h"
#include "services/worker/virtual_gpu/bind/instructions.h"
#include "services/worker/virtual_gpu/parse/control_flow.h"
#include "services/worker/virtual_gpu/text.h"

namespace kernelcast::worker::virtual_gpu {

int32_t Module::LineOf(std::string_view part) const {
  if (part.data() < text.data() || part.data() > text.data() + text.size()) return 0;
  const auto at = static_cast<size_t>(part.data() - text.data());
  return static_cast<int32_t>(std::upper_bound(line_starts.begin(), line_starts.end(), at) -
                              line_starts.begin());
}

KernelParser::KernelParser(const Scope& scope, const Module& module, const ProgramLimits& limits,
                           Kernel& kernel)
    : limits_(limits),
      module_(module),
      kernel_(kernel),
      decoder_(kernel, std::min<int64_t>(limits.slots, 65'000)) {
  scopes_.push_back(scope);
  scopes_.emplace_back();
  arguments_.push_back(0);
  Instruction none;
  decoder_.Begin(none);
}

void KernelParser::Parameters(std::string_view text) {
  for (const std::string_view part : SplitOperands(text)) {
    // Attributes such as ".ptr .global .align 16" may stand between type and name.
    std::string_view name;
    int64_t bytes = 0;
    int64_t align = 1;
    const auto words = Words(part);
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == ".align" && i + 1 < words.size()) {
        align = std::clamp<int64_t>(Integer(words[++i]).value_or(1), 1, 1024);
      } else if (bytes == 0 && TypeBytes(words[i]) > 0) {
        bytes = TypeBytes(words[i]);
      } else if (words[i][0] != '.') {
        name = words[i];
      }
    }
    // The alignment of an array precedes its type; that of a pointee follows ".ptr".
    const bool points = std::find(words.begin(), words.end(), ".ptr") != words.end();
    int64_t unit = points ? bytes : std::max(align, bytes);
    if (const size_t bracket = name.find('['); bracket != std::string_view::npos) {
      const int64_t count =
          Integer(name.substr(bracket + 1, name.size() - bracket - 2)).value_or(-1);
      if (count < 0 || count > 4096) {
        return Refuse("a parameter that is too large");
      }
      bytes *= count;
      name = name.substr(0, bracket);
    }
    if (bytes == 0 || name.empty() || kernel_.parameters.size() >= 256) {
      return Refuse("parameters that are not understood");
    }
    unit = std::max<int64_t>(unit, 1);
    const int64_t offset = RoundUp(kernel_.parameter_bytes, unit);
    kernel_.parameters.push_back({offset, bytes});
    kernel_.parameter_bytes = offset + bytes;
    scopes_.back().places[name] = {Space::kParameter, static_cast<uint64_t>(offset)};
  }
}

void KernelParser::OpenScope() {
  if (scopes_.size() > 64) {
    return Refuse("scopes nested too deep");
  }
  scopes_.emplace_back();
  arguments_.push_back(arguments_.back());
  ++depth_;
}

void KernelParser::CloseScope() {
  if (depth_ > 0) {
    scopes_.pop_back();
    arguments_.pop_back();
    --depth_;
  }
}

void KernelParser::Label(std::string_view name) {
  labels_[name] = static_cast<int32_t>(kernel_.instructions.size());
  last_label_ = name;
}

void KernelParser::Location(std::string_view text) {
  const std::vector<std::string_view> words = Words(text);
  if (words.size() > 2 && words[1] == "1") {
    source_line_ = static_cast<int32_t>(Integer(words[2]).value_or(0));
  }
}

size_t KernelParser::Body(size_t i) {
  const std::string_view text = module_.text;
  size_t start = i;
  int braces = 0;   // scopes
  int operand = 0;  // braces within operands
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ';' && operand == 0) {
      Statement(Trim(text.substr(start, i - start)));
      start = i + 1;
    } else if (c == '{') {
      if (operand == 0 && IsBlank(text.substr(start, i - start))) {
        OpenScope();
        ++braces;
        start = i + 1;
      } else {
        ++operand;
      }
    } else if (c == '}') {
      if (operand > 0) {
        --operand;
      } else if (braces > 0) {
        CloseScope();
        --braces;
        start = i + 1;
      } else {
        break;
      }
    } else if (c == ':' && operand == 0 && text.substr(i, 2) != "::" && text[i - 1] != ':') {
      const std::string_view label = Trim(text.substr(start, i - start));
      if (!label.empty() && std::all_of(label.begin(), label.end(), IsName)) {
        Label(label);
        start = i + 1;
      }
    } else if (c == '\n' && operand == 0) {
      // Directives that end with their line.
      const std::string_view line = Trim(text.substr(start, i - start));
      if (line.starts_with(".loc") && !line.starts_with(".local")) {
        Location(line);
        start = i + 1;
      }
    }
  }
  return i;
}

void KernelParser::Statement(std::string_view text) {
  if (!kernel_.not_covered.empty() || text.empty()) return;
  if (text[0] == '.') {
    Directive(text);
    return;
  }
  Instruct(text);
}

void KernelParser::Finish() {
  if (!kernel_.not_covered.empty()) return;
  Instruction end;
  end.flow = Flow::kExit;
  end.kind = Kind::kControl;
  kernel_.instructions.push_back(end);
  kernel_.dynamic_shared_at =
      has_dynamic_ ? RoundUp(kernel_.shared_bytes, dynamic_align_) : kernel_.shared_bytes;
  ResolveJumps();
  if (!kernel_.not_covered.empty()) return;
  const auto count = static_cast<int32_t>(kernel_.instructions.size());
  for (Instruction& at : kernel_.instructions) at.target = std::min(at.target, count - 1);
  FindMeetings(kernel_);
  FindPredicatedBranches(kernel_);
  FindLoops(kernel_);
  DescribeAtomics(kernel_);
}

void KernelParser::Refuse(std::string why) {
  if (kernel_.not_covered.empty()) kernel_.not_covered = std::move(why);
}

void KernelParser::AddShared(const Variable& variable, Scope& scope) {
  if (variable.unsized || variable.external) {
    dynamic_align_ = std::max(dynamic_align_, variable.align);
    has_dynamic_ = true;
    scope.places[variable.name] = {Space::kShared, kDynamicMark};
    return;
  }
  const int64_t at = RoundUp(kernel_.shared_bytes, variable.align);
  if (variable.bytes > (256 << 10) || at > (256 << 10)) {
    return Refuse("too much shared memory");
  }
  kernel_.shared_bytes = at + variable.bytes;
  scope.places[variable.name] = {Space::kShared, static_cast<uint64_t>(at)};
}

void KernelParser::Directive(std::string_view text) {
  if (text.starts_with(".reg")) {
    DeclareRegisters(Trim(text.substr(4)));
  } else if (text.starts_with(".shared") || text.starts_with(".local") ||
             text.starts_with(".const") || text.starts_with(".global")) {
    const auto variable = ParseVariable(text);
    if (!variable) {
      return Refuse("a declaration that is not understood");
    }
    if (variable->space == "shared") {
      AddShared(*variable, scopes_.back());
    } else if (variable->space == "local") {
      const int64_t at = RoundUp(kernel_.local_bytes, variable->align);
      if (variable->bytes > limits_.local_bytes || at + variable->bytes > limits_.local_bytes) {
        return Refuse("too much local memory");
      }
      kernel_.local_bytes = at + variable->bytes;
      scopes_.back().places[variable->name] = {Space::kLocal, static_cast<uint64_t>(at)};
    } else {
      Refuse("a variable of the module inside a kernel");
    }
  } else if (text.starts_with(".param")) {
    const auto variable = ParseVariable(text);
    if (!variable || variable->unsized || variable->bytes > 4096) {
      return Refuse("an argument that is not understood");
    }
    const int64_t at = RoundUp(arguments_.back(), variable->align);
    arguments_.back() = at + variable->bytes;
    if (arguments_.back() > limits_.local_bytes) return Refuse("too many arguments");
    kernel_.argument_bytes = std::max(kernel_.argument_bytes, arguments_.back());
    scopes_.back().places[variable->name] = {Space::kArgument, static_cast<uint64_t>(at)};
  } else if (text.starts_with(".branchtargets")) {
    std::vector<std::string_view>& targets = branch_targets_[last_label_];
    targets.clear();
    for (const std::string_view target : SplitOperands(text.substr(14))) {
      targets.push_back(target);
    }
  }
  // All other directives (.pragma, .loc) have no effect.
}

void KernelParser::DeclareRegisters(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && !IsSpace(text[end])) ++end;
  const std::string_view type = text.substr(0, end);
  SlotClass kind = SlotClass::kWord;
  if (type == ".pred") {
    kind = SlotClass::kPredicate;
  } else {
    const int64_t bytes = TypeBytes(type);
    if (bytes == 0 || bytes > 8) {
      return Refuse("registers of type " + std::string(type.substr(0, 20)));
    }
    kind = bytes == 8 ? SlotClass::kLong : SlotClass::kWord;
  }
  const bool is_float = type.size() > 1 && type[1] == 'f';
  for (const std::string_view name : SplitOperands(text.substr(end))) {
    const size_t bracket = name.find('<');
    if (bracket == std::string_view::npos) {
      scopes_.back().registers[name] = decoder_.AddSlot(kind, is_float);
      if (!decoder_.ok()) return Refuse(decoder_.why());
    } else {
      const int64_t count =
          Integer(name.substr(bracket + 1, name.size() - bracket - 2)).value_or(0);
      scopes_.back().families[name.substr(0, bracket)] = {kind, is_float, count};
    }
  }
}

void KernelParser::ResolveJumps() {
  for (const auto& [at, label] : jumps_) {
    const auto found = labels_.find(label);
    if (found == labels_.end()) return Refuse("a branch to a label that is not there");
    kernel_.instructions[static_cast<size_t>(at)].target = found->second;
  }
  jumps_.clear();
}

void KernelParser::Jump(Instruction instruction, std::string_view label) {
  instruction.flow = Flow::kBranch;
  instruction.kind = Kind::kControl;
  instruction.pipe = Pipe::kControl;
  jumps_.emplace_back(static_cast<int32_t>(kernel_.instructions.size()), label);
  kernel_.instructions.push_back(instruction);
}

void KernelParser::BranchByTable(const Instruction& instruction, std::string_view rest) {
  const std::vector<std::string_view> parts = SplitOperands(rest);
  const auto found = parts.size() == 2 ? branch_targets_.find(parts[1]) : branch_targets_.end();
  if (found == branch_targets_.end() || found->second.empty() || instruction.guard >= 0) {
    return Refuse("a table of branches");
  }
  if (table_predicate_ < 0) {
    table_predicate_ = decoder_.AddSlot(SlotClass::kPredicate, false);
    if (!decoder_.ok()) return Refuse(decoder_.why());
  }
  const auto index = ParseOperand(parts[0]);
  if (!index) return Refuse("a table of branches");
  for (size_t k = 0; k + 1 < found->second.size(); ++k) {
    Operand predicate;
    predicate.type = Operand::Type::kRegister;
    predicate.slot = static_cast<uint16_t>(table_predicate_);
    Operand value;
    value.type = Operand::Type::kImmediate;
    value.bits = k;
    Opcode compare{{"setp", "eq", "u32"}};
    Instruction test = instruction;
    decoder_.Begin(test);
    if (!Bind(compare, {predicate, *index, value}, decoder_)) return Refuse(decoder_.why());
    // The expansion costs one branch in total.
    test.issue = 0;
    kernel_.instructions.push_back(test);
    Instruction jump = instruction;
    jump.issue = 0;
    jump.guard = table_predicate_;
    Jump(jump, found->second[k]);
  }
  Jump(instruction, found->second.back());
}

void KernelParser::Call(const Instruction& instruction, std::string_view rest) {
  std::vector<std::string_view> parts = SplitOperands(rest);
  std::string_view results;
  if (!parts.empty() && parts[0][0] == '(') {
    results = parts[0];
    parts.erase(parts.begin());
  }
  if (parts.empty()) return Refuse("a call that is not understood");
  const std::string_view name = parts[0];
  const std::string_view arguments = parts.size() > 1 ? parts[1] : std::string_view();
  if (name == "__assertfail") {
    Instruction ends = instruction;
    ends.flow = Flow::kExit;
    ends.kind = Kind::kControl;
    kernel_.instructions.push_back(ends);
    return;
  }
  if (name == "vprintf") return;  // its result is 0, the initial value of arguments
  const auto found = module_.functions.find(name);
  if (found == module_.functions.end() || instruction.guard >= 0) {
    return Refuse(name.starts_with("%") ? "a call by a pointer"
                                        : "a call of " + std::string(name.substr(0, 60)));
  }
  if (++calls_ > limits_.call_depth) return Refuse("calls nested too deep");
  Scope scope;
  const auto inside = [](std::string_view list) {
    list = Trim(list);
    if (list.size() < 2) return std::vector<std::string_view>();
    return SplitOperands(list.substr(1, list.size() - 2));
  };
  const auto match = [&](std::string_view declared, std::string_view given) {
    const std::vector<std::string_view> to = SplitOperands(declared);
    const std::vector<std::string_view> from = inside(given);
    if (to.size() != from.size()) return false;
    for (size_t k = 0; k < to.size(); ++k) {
      const auto variable = ParseVariable(to[k]);
      const Scope::Place* place = FindPlace(from[k]);
      if (!variable || place == nullptr) return false;
      scope.places[variable->name] = *place;
    }
    return true;
  };
  if (!match(found->second.results, results) || !match(found->second.parameters, arguments)) {
    return Refuse("a call whose arguments are not understood");
  }
  const size_t scopes = scopes_.size();
  OpenScope();
  if (!kernel_.not_covered.empty()) return;
  scopes_.back() = std::move(scope);
  // Labels and jumps are local to the function.
  auto labels = std::exchange(labels_, {});
  auto jumps = std::exchange(jumps_, {});
  auto targets = std::exchange(branch_targets_, {});
  Body(found->second.body);
  while (scopes_.size() > scopes) CloseScope();
  labels_[kReturn] = static_cast<int32_t>(kernel_.instructions.size());
  ResolveJumps();
  labels_ = std::move(labels);
  jumps_ = std::move(jumps);
  branch_targets_ = std::move(targets);
  --calls_;
}

void KernelParser::Instruct(std::string_view text) {
  if (instructions_left_ <= 0) {
    return Refuse("too many instructions");
  }
  --instructions_left_;
  Instruction instruction;
  instruction.line = module_.LineOf(text);
  instruction.source_line = source_line_;
  if (text[0] == '@') {
    size_t end = 1;
    if (end < text.size() && text[end] == '!') {
      instruction.guard_negated = true;
      ++end;
    }
    const size_t start = end;
    while (end < text.size() && IsName(text[end])) ++end;
    const auto guard = FindRegister(text.substr(start, end - start));
    if (!guard || decoder_.ClassOf(*guard) != SlotClass::kPredicate) {
      return Refuse("a guard that is no predicate");
    }
    instruction.guard = *guard;
    text = Trim(text.substr(end));
  }
  size_t end = 0;
  while (end < text.size() && !IsSpace(text[end])) ++end;
  const std::string_view name = text.substr(0, end);
  const std::string_view rest = Trim(text.substr(end));
  Opcode opcode;
  for (size_t start = 0; start <= name.size();) {
    const size_t dot = std::min(name.find('.', start), name.size());
    if (dot > start) opcode.parts.push_back(name.substr(start, dot - start));
    start = dot + 1;
  }
  if (opcode.parts.empty()) return;
  if (opcode.name() == "bra") {
    Jump(instruction, rest);
    return;
  }
  if (opcode.name() == "ret" && calls_ > 0) {
    Jump(instruction, kReturn);
    return;
  }
  if (opcode.name() == "ret" || opcode.name() == "exit" || opcode.name() == "trap") {
    instruction.flow = Flow::kExit;
    instruction.kind = Kind::kControl;
    instruction.pipe = Pipe::kControl;
    kernel_.instructions.push_back(instruction);
    return;
  }
  if (opcode.name() == "call") return Call(instruction, rest);
  if (opcode.name() == "brx") return BranchByTable(instruction, rest);
  std::vector<Operand> operands;
  for (const std::string_view part : SplitOperands(rest)) {
    auto operand = ParseOperand(part);
    if (!decoder_.ok()) return Refuse(decoder_.why());
    if (!operand) {
      return Refuse(std::string(name.substr(0, 60)) + ": an operand that is not understood");
    }
    operands.push_back(*std::move(operand));
  }
  decoder_.Begin(instruction);
  if (!Bind(opcode, operands, decoder_) || !decoder_.ok()) {
    return Refuse(std::string(name.substr(0, 60)) +
                  (decoder_.why().empty() ? "" : ": " + decoder_.why()));
  }
  if (kernel_.operands.size() > 4'000'000) {
    return Refuse("too many operands");
  }
  kernel_.instructions.push_back(instruction);
}

}  // namespace kernelcast::worker::virtual_gpu
