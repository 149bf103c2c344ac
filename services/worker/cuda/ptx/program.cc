#include "services/worker/cuda/ptx/program.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "services/worker/cuda/ptx/decoder.h"
#include "services/worker/cuda/ptx/text.h"

namespace kernelcast::worker::ptx {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

std::optional<int64_t> Integer(std::string_view text) {
  text = Trim(text);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  int base = 10;
  if (StartsWith(text, "0x") || StartsWith(text, "0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  if (!text.empty() && text.back() == 'U') text.remove_suffix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return static_cast<int64_t>(negative ? 0 - value : value);
}

// Parses "0f3F800000" and "0d3FF0000000000000".
std::optional<uint64_t> RealBits(std::string_view text) {
  bool negative = false;
  if (!text.empty() && text[0] == '-') {
    negative = true;
    text.remove_prefix(1);
  }
  if (text.size() < 3 || text[0] != '0') return std::nullopt;
  const char form = static_cast<char>(std::tolower(static_cast<unsigned char>(text[1])));
  const size_t digits = form == 'f' ? 8 : form == 'd' ? 16 : 0;
  if (digits == 0 || text.size() != 2 + digits) return std::nullopt;
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return negative ? bits ^ (uint64_t{1} << (digits * 4 - 1)) : bits;
}

// Splits at commas outside brackets.
std::vector<std::string_view> SplitOperands(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(Trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  const std::string_view last = Trim(text.substr(std::min(start, text.size())));
  if (!last.empty()) parts.push_back(last);
  return parts;
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t i = 0;
  while (i < text.size()) {
    while (i < text.size() && IsSpace(text[i])) ++i;
    const size_t start = i;
    while (i < text.size() && !IsSpace(text[i])) ++i;
    if (i > start) words.push_back(text.substr(start, i - start));
  }
  return words;
}

int64_t TypeBytes(std::string_view type) {
  if (type.size() < 3 || type[0] != '.') return 0;
  const std::string_view bits = type.substr(2);
  if (bits == "8") return 1;
  if (bits == "16") return 2;
  if (bits == "32" || bits == "16x2") return 4;
  if (bits == "64") return 8;
  if (bits == "128") return 16;
  return 0;
}

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

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

std::optional<Variable> ParseVariable(std::string_view text) {
  Variable variable;
  std::string_view initial;
  if (const size_t equals = text.find('='); equals != std::string_view::npos) {
    initial = Trim(text.substr(equals + 1));
    text = Trim(text.substr(0, equals));
  }
  std::string_view declarator;
  const std::vector<std::string_view> words = Words(text);
  bool is_float = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == ".extern") {
      variable.external = true;
    } else if (word == ".global" || word == ".const" || word == ".shared" || word == ".local" ||
               word == ".param") {
      variable.space = word.substr(1);
    } else if (word == ".align" && i + 1 < words.size()) {
      variable.align = std::clamp<int64_t>(Integer(words[++i]).value_or(1), 1, 1024);
    } else if (const int64_t bytes = TypeBytes(word); bytes > 0) {
      variable.element_bytes = bytes;
      is_float = word[1] == 'f';
    } else if (word[0] != '.') {
      declarator = text.substr(static_cast<size_t>(word.data() - text.data()));
      break;
    }
  }
  if (declarator.empty() || variable.element_bytes == 0) return std::nullopt;
  size_t end = 0;
  while (end < declarator.size() && IsName(declarator[end])) ++end;
  variable.name = declarator.substr(0, end);
  int64_t count = 1;
  std::string_view rest = Trim(declarator.substr(end));
  while (!rest.empty() && rest[0] == '[') {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view inside = Trim(rest.substr(1, close - 1));
    if (inside.empty()) {
      variable.unsized = true;
      count = 0;
    } else {
      const int64_t extent = Integer(inside).value_or(-1);
      if (extent < 0 || extent > (int64_t{1} << 30)) return std::nullopt;
      if (count > 0 && extent > (int64_t{1} << 30) / count) return std::nullopt;
      count *= extent;
    }
    rest = Trim(rest.substr(close + 1));
  }
  variable.bytes = count * variable.element_bytes;
  variable.align = std::max(variable.align, variable.element_bytes);
  if (!initial.empty()) {
    if (initial[0] == '{') {
      initial.remove_prefix(1);
      if (!initial.empty() && initial.back() == '}') initial.remove_suffix(1);
    }
    for (const std::string_view value : SplitOperands(initial)) {
      if (variable.initial.size() >= (size_t{1} << 20)) break;
      uint64_t bits = 0;
      if (const auto real = RealBits(value); is_float && real) {
        bits = *real;
      } else {
        bits = static_cast<uint64_t>(Integer(value).value_or(0));
      }
      for (int64_t i = 0; i < variable.element_bytes; ++i) {
        variable.initial += i < 8 ? static_cast<char>(bits >> (8 * i)) : '\0';
      }
    }
  }
  return variable;
}

struct Special {
  std::string_view name;
  SlotValue::Source source;
};
constexpr Special kSpecials[] = {
    {"%tid.x", SlotValue::Source::kThreadX},
    {"%tid.y", SlotValue::Source::kThreadY},
    {"%tid.z", SlotValue::Source::kThreadZ},
    {"%ntid.x", SlotValue::Source::kBlockSizeX},
    {"%ntid.y", SlotValue::Source::kBlockSizeY},
    {"%ntid.z", SlotValue::Source::kBlockSizeZ},
    {"%ctaid.x", SlotValue::Source::kBlockX},
    {"%ctaid.y", SlotValue::Source::kBlockY},
    {"%ctaid.z", SlotValue::Source::kBlockZ},
    {"%nctaid.x", SlotValue::Source::kGridX},
    {"%nctaid.y", SlotValue::Source::kGridY},
    {"%nctaid.z", SlotValue::Source::kGridZ},
    {"%laneid", SlotValue::Source::kLane},
    {"%warpid", SlotValue::Source::kWarpIndex},
    {"%nwarpid", SlotValue::Source::kWarpsInBlock},
    {"%smid", SlotValue::Source::kMultiprocessor},
    {"%nsmid", SlotValue::Source::kMultiprocessors},
    {"%lanemask_eq", SlotValue::Source::kMaskEqual},
    {"%lanemask_lt", SlotValue::Source::kMaskLess},
    {"%lanemask_le", SlotValue::Source::kMaskLessEqual},
    {"%lanemask_gt", SlotValue::Source::kMaskGreater},
    {"%lanemask_ge", SlotValue::Source::kMaskGreaterEqual},
    {"%dynamic_smem_size", SlotValue::Source::kDynamicShared},
    {"%total_smem_size", SlotValue::Source::kTotalShared},
    {"%cluster_nctarank", SlotValue::Source::kClusterBlocks},
    {"%cluster_ctarank", SlotValue::Source::kClusterRank},
    {"%clusterid.x", SlotValue::Source::kZero},
    {"%clusterid.y", SlotValue::Source::kZero},
    {"%clusterid.z", SlotValue::Source::kZero},
    {"%gridid", SlotValue::Source::kZero},
    // Time does not advance: a loop that waits for it never ends and is cut off.
    {"%clock", SlotValue::Source::kZero},
    {"%clock64", SlotValue::Source::kZero},
    {"%clock_hi", SlotValue::Source::kZero},
    {"%globaltimer", SlotValue::Source::kZero},
};

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

  int32_t LineOf(std::string_view part) const {
    if (part.data() < text.data() || part.data() > text.data() + text.size()) return 0;
    const auto at = static_cast<size_t>(part.data() - text.data());
    return static_cast<int32_t>(std::upper_bound(line_starts.begin(), line_starts.end(), at) -
                                line_starts.begin());
  }
};

class KernelParser {
 public:
  KernelParser(const Scope& scope, const Module& module, const ProgramLimits& limits,
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

  void Parameters(std::string_view text) {
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

  void OpenScope() {
    if (scopes_.size() > 64) {
      return Refuse("scopes nested too deep");
    }
    scopes_.emplace_back();
    arguments_.push_back(arguments_.back());
    ++depth_;
  }
  void CloseScope() {
    if (depth_ > 0) {
      scopes_.pop_back();
      arguments_.pop_back();
      --depth_;
    }
  }
  void Label(std::string_view name) {
    labels_[name] = static_cast<int32_t>(kernel_.instructions.size());
    last_label_ = name;
  }
  // ".loc 1 42 5": what follows belongs to that line of the source.
  void Location(std::string_view text) {
    const std::vector<std::string_view> words = Words(text);
    if (words.size() > 2 && words[1] == "1") {
      source_line_ = static_cast<int32_t>(Integer(words[2]).value_or(0));
    }
  }

  // Parses the statements from `i`, just after a brace, to the matching brace, and returns its
  // position.
  size_t Body(size_t i) {
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
        if (operand == 0 && Trim(text.substr(start, i - start)).empty()) {
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
        if (StartsWith(line, ".loc") && !StartsWith(line, ".local")) {
          Location(line);
          start = i + 1;
        }
      }
    }
    return i;
  }

  void Statement(std::string_view text) {
    if (!kernel_.not_covered.empty() || text.empty()) return;
    if (text[0] == '.') {
      Directive(text);
      return;
    }
    Instruct(text);
  }

  // Call it after the last statement.
  void Finish() {
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
    FindMeetings();
    FindLoops();
    DescribeAtomics();
  }

  void Refuse(std::string why) {
    if (kernel_.not_covered.empty()) kernel_.not_covered = std::move(why);
  }

  void AddShared(const Variable& variable, Scope& scope) {
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

  static constexpr uint64_t kDynamicMark = uint64_t{1} << 40;
  Scope& module_scope() { return scopes_[0]; }

 private:
  void Directive(std::string_view text) {
    if (StartsWith(text, ".reg")) {
      DeclareRegisters(Trim(text.substr(4)));
    } else if (StartsWith(text, ".shared") || StartsWith(text, ".local") ||
               StartsWith(text, ".const") || StartsWith(text, ".global")) {
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
    } else if (StartsWith(text, ".param")) {
      const auto variable = ParseVariable(text);
      if (!variable || variable->unsized || variable->bytes > 4096) {
        return Refuse("an argument that is not understood");
      }
      const int64_t at = RoundUp(arguments_.back(), variable->align);
      arguments_.back() = at + variable->bytes;
      if (arguments_.back() > limits_.local_bytes) return Refuse("too many arguments");
      kernel_.argument_bytes = std::max(kernel_.argument_bytes, arguments_.back());
      scopes_.back().places[variable->name] = {Space::kArgument, static_cast<uint64_t>(at)};
    } else if (StartsWith(text, ".branchtargets")) {
      std::vector<std::string_view>& targets = branch_targets_[last_label_];
      targets.clear();
      for (const std::string_view target : SplitOperands(text.substr(14))) {
        targets.push_back(target);
      }
    }
    // All other directives (.pragma, .loc) have no effect.
  }

  void ResolveJumps() {
    for (const auto& [at, label] : jumps_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) return Refuse("a branch to a label that is not there");
      kernel_.instructions[static_cast<size_t>(at)].target = found->second;
    }
    jumps_.clear();
  }

  void Jump(Instruction instruction, std::string_view label) {
    instruction.flow = Flow::kBranch;
    instruction.kind = Kind::kControl;
    instruction.pipe = Pipe::kControl;
    jumps_.emplace_back(static_cast<int32_t>(kernel_.instructions.size()), label);
    kernel_.instructions.push_back(instruction);
  }

  // Expands "brx.idx index, table" to a comparison and a branch for each target.
  void BranchByTable(const Instruction& instruction, std::string_view rest) {
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

  // "call (result), name, (arguments)": inlines the body of the function.
  void Call(const Instruction& instruction, std::string_view rest) {
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
      return Refuse(StartsWith(name, "%") ? "a call by a pointer"
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

  void DeclareRegisters(std::string_view text) {
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

  std::optional<uint16_t> FindRegister(std::string_view name) {
    for (size_t i = scopes_.size(); i-- > 0;) {
      Scope& scope = scopes_[i];
      if (const auto found = scope.registers.find(name); found != scope.registers.end()) {
        return found->second;
      }
      size_t digits = name.size();
      while (digits > 0 && IsDigit(name[digits - 1])) --digits;
      const auto family =
          digits < name.size() ? scope.families.find(name.substr(0, digits)) : scope.families.end();
      if (family == scope.families.end()) continue;
      const auto index = Integer(name.substr(digits));
      if (!index || *index >= family->second.count) continue;
      const uint16_t slot = decoder_.AddSlot(family->second.kind, family->second.is_float);
      scope.registers[name] = slot;
      return slot;
    }
    for (const Special& special : kSpecials) {
      if (special.name == name) {
        return decoder_.Constant(special.source, 0,
                                 name == "%clock64" || name == "%globaltimer" || name == "%gridid"
                                     ? SlotClass::kLong
                                     : SlotClass::kWord);
      }
    }
    if (name == "WARP_SZ") return decoder_.Immediate(32, SlotClass::kWord);
    return std::nullopt;
  }

  const Scope::Place* FindPlace(std::string_view name) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      if (const auto found = scopes_[i].places.find(name); found != scopes_[i].places.end()) {
        return &found->second;
      }
    }
    return nullptr;
  }

  // Dynamic shared memory follows static memory, whose size is known only after all declarations.
  uint64_t AddressOf(const Scope::Place& place) const {
    return place.address == kDynamicMark
               ? static_cast<uint64_t>(RoundUp(kernel_.shared_bytes, dynamic_align_))
               : place.address;
  }

  std::optional<Operand> ParseOperand(std::string_view text, int depth = 0) {
    Operand operand;
    text = Trim(text);
    if (text.empty() || depth > 2) return std::nullopt;
    if (text == "_") {
      operand.type = Operand::Type::kSink;
      return operand;
    }
    if (text[0] == '{') {
      if (text.back() != '}') return std::nullopt;
      operand.type = Operand::Type::kVector;
      for (const std::string_view part : SplitOperands(text.substr(1, text.size() - 2))) {
        auto element = ParseOperand(part, depth + 1);
        if (!element) return std::nullopt;
        operand.elements.push_back(*std::move(element));
      }
      return operand;
    }
    if (text[0] == '[') {
      if (text.back() != ']') return std::nullopt;
      return ParseAddress(Trim(text.substr(1, text.size() - 2)));
    }
    if (text[0] == '!') {
      auto inner = ParseOperand(text.substr(1), depth + 1);
      if (!inner || inner->type != Operand::Type::kRegister) return std::nullopt;
      inner->negated = true;
      return inner;
    }
    if (const size_t bar = text.find('|'); bar != std::string_view::npos) {
      auto first = ParseOperand(text.substr(0, bar), depth + 1);
      const auto second = FindRegister(Trim(text.substr(bar + 1)));
      if (!first || !second) return std::nullopt;
      first->has_second = true;
      first->second = *second;
      return first;
    }
    if (const auto real = RealBits(text)) {
      operand.type = Operand::Type::kImmediate;
      operand.is_real = true;
      operand.bits = *real;
      return operand;
    }
    if (const auto integer = Integer(text)) {
      operand.type = Operand::Type::kImmediate;
      operand.bits = static_cast<uint64_t>(*integer);
      return operand;
    }
    if (const auto slot = FindRegister(text)) {
      operand.type = Operand::Type::kRegister;
      operand.slot = *slot;
      return operand;
    }
    // The address of a variable, optionally with an offset.
    auto address = ParseAddress(text);
    if (!address || !address->names_variable) return std::nullopt;
    address->type = Operand::Type::kImmediate;
    return address;
  }

  std::optional<Operand> ParseAddress(std::string_view text) {
    Operand operand;
    operand.type = Operand::Type::kAddress;
    // Further parts, such as the coordinates of a tensor, are not covered.
    if (text.find(',') != std::string_view::npos) return std::nullopt;
    size_t end = 0;
    while (end < text.size() && IsName(text[end])) ++end;
    const std::string_view base = text.substr(0, end);
    std::string_view rest = Trim(text.substr(end));
    if (!base.empty() && !IsDigit(base[0])) {
      if (const auto slot = FindRegister(base)) {
        operand.has_register = true;
        operand.slot = *slot;
      } else if (const Scope::Place* place = FindPlace(base)) {
        operand.names_variable = true;
        operand.space = place->space;
        operand.bits = AddressOf(*place);
      } else {
        return std::nullopt;
      }
      if (rest.empty()) return operand;
      if (rest[0] != '+' && rest[0] != '-') return std::nullopt;
      if (rest[0] == '+') rest.remove_prefix(1);
    } else {
      rest = text;
    }
    const auto offset = Integer(rest);
    if (!offset) return std::nullopt;
    operand.bits += static_cast<uint64_t>(*offset);
    return operand;
  }

  void Instruct(std::string_view text) {
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

  // Finds where the two paths of each branch reconverge: immediate post-dominators of basic blocks.
  void FindMeetings() {
    std::vector<Instruction>& code = kernel_.instructions;
    const auto count = static_cast<int32_t>(code.size());
    std::vector<int32_t> block_of(code.size(), -1);
    std::vector<int32_t> starts;
    std::vector<bool> leads(code.size() + 1, false);
    leads[0] = true;
    for (int32_t i = 0; i < count; ++i) {
      const Instruction& at = code[static_cast<size_t>(i)];
      if (at.flow == Flow::kBranch) {
        leads[static_cast<size_t>(at.target)] = true;
        leads[static_cast<size_t>(i) + 1] = true;
      } else if (at.flow == Flow::kExit) {
        leads[static_cast<size_t>(i) + 1] = true;
      }
    }
    for (int32_t i = 0; i < count; ++i) {
      if (leads[static_cast<size_t>(i)]) starts.push_back(i);
      block_of[static_cast<size_t>(i)] = static_cast<int32_t>(starts.size()) - 1;
    }
    const auto blocks = static_cast<int32_t>(starts.size());
    const int32_t end = blocks;  // a virtual block that all exits lead to
    std::vector<std::array<int32_t, 2>> next(static_cast<size_t>(blocks), {-1, -1});
    std::vector<std::vector<int32_t>> previous(static_cast<size_t>(blocks) + 1);
    for (int32_t b = 0; b < blocks; ++b) {
      const int32_t last = b + 1 < blocks ? starts[static_cast<size_t>(b) + 1] - 1 : count - 1;
      const Instruction& at = code[static_cast<size_t>(last)];
      auto& successors = next[static_cast<size_t>(b)];
      const int32_t through = last + 1 < count ? block_of[static_cast<size_t>(last) + 1] : end;
      if (at.flow == Flow::kBranch) {
        successors[0] = block_of[static_cast<size_t>(at.target)];
        if (at.guard >= 0) successors[1] = through;
      } else if (at.flow == Flow::kExit) {
        successors[0] = end;
        if (at.guard >= 0) successors[1] = through;
      } else {
        successors[0] = through;
      }
      for (const int32_t s : successors) {
        if (s >= 0) previous[static_cast<size_t>(s)].push_back(b);
      }
    }
    // Reverse post-order of the reversed graph, from the end.
    std::vector<int32_t> order;
    std::vector<int32_t> position(static_cast<size_t>(blocks) + 1, -1);
    {
      std::vector<std::pair<int32_t, size_t>> stack = {{end, 0}};
      std::vector<bool> seen(static_cast<size_t>(blocks) + 1, false);
      seen[static_cast<size_t>(end)] = true;
      while (!stack.empty()) {
        auto& [node, index] = stack.back();
        const auto& from = previous[static_cast<size_t>(node)];
        if (index < from.size()) {
          const int32_t to = from[index++];
          if (!seen[static_cast<size_t>(to)]) {
            seen[static_cast<size_t>(to)] = true;
            stack.emplace_back(to, 0);
          }
        } else {
          order.push_back(node);
          stack.pop_back();
        }
      }
      std::reverse(order.begin(), order.end());
      for (size_t i = 0; i < order.size(); ++i) {
        position[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
      }
    }
    std::vector<int32_t> meeting(static_cast<size_t>(blocks) + 1, -1);
    meeting[static_cast<size_t>(end)] = end;
    bool changed = true;
    for (int round = 0; changed && round < 64; ++round) {
      changed = false;
      for (const int32_t node : order) {
        if (node == end) continue;
        int32_t found = -1;
        for (const int32_t s : next[static_cast<size_t>(node)]) {
          if (s < 0 || meeting[static_cast<size_t>(s)] < 0) continue;
          if (found < 0) {
            found = s;
            continue;
          }
          int32_t a = found;
          int32_t b = s;
          while (a != b) {
            while (position[static_cast<size_t>(a)] > position[static_cast<size_t>(b)]) {
              a = meeting[static_cast<size_t>(a)];
            }
            while (position[static_cast<size_t>(b)] > position[static_cast<size_t>(a)]) {
              b = meeting[static_cast<size_t>(b)];
            }
          }
          found = a;
        }
        if (found >= 0 && meeting[static_cast<size_t>(node)] != found) {
          meeting[static_cast<size_t>(node)] = found;
          changed = true;
        }
      }
    }
    for (int32_t i = 0; i < count; ++i) {
      Instruction& at = code[static_cast<size_t>(i)];
      if (at.flow != Flow::kBranch) continue;
      const int32_t block = meeting[static_cast<size_t>(block_of[static_cast<size_t>(i)])];
      at.reconverge = block < 0 || block == end ? -1 : starts[static_cast<size_t>(block)];
    }
  }

  bool Writes(const Instruction& at, uint16_t slot) const {
    for (int k = 0; k < at.writes; ++k) {
      if (kernel_.operands[at.operands + static_cast<size_t>(k)] == slot) return true;
    }
    return false;
  }

  // Finds the comparisons that determine a predicate, going back from `from` to `head`.
  void FindDrivers(int32_t head, int32_t from, uint16_t predicate, int depth, LoopInfo& loop) {
    if (depth > 4) return;
    for (int32_t i = from; i >= head && from - i < 4096; --i) {
      Instruction& at = kernel_.instructions[static_cast<size_t>(i)];
      if (!Writes(at, predicate)) continue;
      const uint16_t* operands = kernel_.operands.data() + at.operands;
      if (at.driver == kComparesIntegers || at.driver >= 0) {
        if (at.driver < 0) at.driver = kernel_.drivers++;
        loop.drivers.push_back(at.driver);
      }
      for (int k = at.writes; k < at.writes + at.reads; ++k) {
        if (kernel_.slots[operands[k]].kind == SlotClass::kPredicate) {
          FindDrivers(head, i - 1, operands[k], depth + 1, loop);
        }
      }
      return;
    }
  }

  void FindLoops() {
    std::vector<Instruction>& code = kernel_.instructions;
    const auto count = static_cast<int32_t>(code.size());
    int64_t work = 0;
    // Index of the last loop that wrote each register.
    std::vector<int32_t> written(kernel_.slots.size(), -1);
    std::vector<int32_t> noted(kernel_.slots.size(), -1);
    for (int32_t i = 0; i < count; ++i) {
      if (code[static_cast<size_t>(i)].flow != Flow::kBranch ||
          code[static_cast<size_t>(i)].target > i || kernel_.loops.size() >= 1000) {
        continue;
      }
      const int32_t head = code[static_cast<size_t>(i)].target;
      work += i - head;
      if (work > 2'000'000) break;
      const auto index = static_cast<int32_t>(kernel_.loops.size());
      LoopInfo loop;
      loop.head = head;
      loop.end = i;
      std::vector<uint16_t> exposed;
      for (int32_t k = head; k <= i; ++k) {
        const Instruction& at = code[static_cast<size_t>(k)];
        const uint16_t* operands = kernel_.operands.data() + at.operands;
        for (int o = at.writes; o < at.writes + at.reads; ++o) {
          const uint16_t slot = operands[o];
          if (written[slot] != index && noted[slot] != index) {
            noted[slot] = index;
            exposed.push_back(slot);
          }
        }
        for (int o = 0; o < at.writes; ++o) written[operands[o]] = index;
        // Include branches that do not leave the loop: they change what an iteration does.
        if (at.flow == Flow::kBranch && at.guard >= 0 && loop.drivers.size() < 48) {
          FindDrivers(head, k, static_cast<uint16_t>(at.guard), 0, loop);
        }
      }
      for (const uint16_t slot : exposed) {
        if (written[slot] == index && !kernel_.slots[slot].is_float &&
            kernel_.slots[slot].kind != SlotClass::kPredicate && loop.carried.size() < 64) {
          loop.carried.push_back(slot);
        }
      }
      std::sort(loop.drivers.begin(), loop.drivers.end());
      loop.drivers.erase(std::unique(loop.drivers.begin(), loop.drivers.end()), loop.drivers.end());
      code[static_cast<size_t>(i)].loop = index;
      kernel_.loops.push_back(std::move(loop));
    }
    for (Instruction& at : code) {
      if (at.driver == kComparesIntegers) at.driver = -1;
    }
  }

  // Registers whose value is the same in all lanes depend on nothing that differs between lanes.
  void DescribeAtomics() {
    std::vector<Instruction>& code = kernel_.instructions;
    if (std::none_of(code.begin(), code.end(), [](const Instruction& i) { return i.is_atomic; })) {
      return;
    }
    std::vector<bool> varies(kernel_.slots.size(), false);
    for (const SlotValue& value : kernel_.values) {
      using Source = SlotValue::Source;
      varies[value.slot] =
          value.source == Source::kThreadX || value.source == Source::kThreadY ||
          value.source == Source::kThreadZ || value.source == Source::kLane ||
          (value.source >= Source::kMaskEqual && value.source <= Source::kMaskGreaterEqual);
    }
    bool changed = true;
    for (int round = 0; changed && round < 8; ++round) {
      changed = false;
      for (const Instruction& i : code) {
        const uint16_t* operands = kernel_.operands.data() + i.operands;
        bool is = i.is_atomic || (i.guard >= 0 && varies[static_cast<size_t>(i.guard)]);
        for (int k = i.writes; k < i.writes + i.reads; ++k) is = is || varies[operands[k]];
        if (!is) continue;
        for (int k = 0; k < i.writes; ++k) {
          changed = changed || !varies[operands[k]];
          varies[operands[k]] = true;
        }
      }
    }
    std::vector<bool> read(kernel_.slots.size(), false);
    for (const Instruction& i : code) {
      for (int k = i.writes; k < i.writes + i.reads; ++k) {
        read[kernel_.operands[i.operands + static_cast<size_t>(k)]] = true;
      }
    }
    for (Instruction& i : code) {
      if (!i.is_atomic) continue;
      i.result_unused = i.writes == 0 || !read[kernel_.operands[i.operands]];
      i.uniform_address =
          !changed && !varies[kernel_.operands[i.operands + static_cast<size_t>(i.writes)]];
    }
  }

 public:
  int64_t instructions_left_ = 0;

 private:
  // PTX labels contain no space, so this name is unique.
  static constexpr std::string_view kReturn = " return";

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
};

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
        if (StartsWith(line, ".version") || StartsWith(line, ".target") ||
            StartsWith(line, ".address_size") || StartsWith(line, ".file") ||
            StartsWith(line, ".loc")) {
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
    parser.instructions_left_ = left_;
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
    left_ = parser.instructions_left_;
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

const Kernel* Program::Find(std::string_view name) const {
  for (const auto& kernel : kernels) {
    if (kernel->name == name) return kernel.get();
  }
  return nullptr;
}

Program ParseProgram(std::string_view text, const ProgramLimits& limits) {
  auto stripped = std::make_unique<std::string>(
      WithoutComments(text.substr(0, static_cast<size_t>(limits.text_bytes))));
  Program program = ModuleParser(*stripped, limits).Parse();
  program.text = std::move(*stripped);
  return program;
}

}  // namespace kernelcast::worker::ptx
