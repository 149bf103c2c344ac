#include <algorithm>
#include <utility>

#include "common/base/strings.h"
#include "services/worker/virtual_gpu/parse/kernel_parser.h"
#include "services/worker/virtual_gpu/text.h"

// The names and operands of the statements of a kernel.

namespace kernelcast::worker::virtual_gpu {
namespace {

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
    {"%clock", SlotValue::Source::kClock},
    {"%clock64", SlotValue::Source::kClock},
    {"%clock_hi", SlotValue::Source::kZero},
    {"%globaltimer", SlotValue::Source::kClock},
};

}  // namespace

std::optional<uint16_t> KernelParser::FindRegister(std::string_view name) {
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

const Scope::Place* KernelParser::FindPlace(std::string_view name) const {
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (const auto found = scopes_[i].places.find(name); found != scopes_[i].places.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

uint64_t KernelParser::AddressOf(const Scope::Place& place) const {
  return place.address == kDynamicMark
             ? static_cast<uint64_t>(RoundUp(kernel_.shared_bytes, dynamic_align_))
             : place.address;
}

std::optional<Operand> KernelParser::ParseOperand(std::string_view text, int depth) {
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

std::optional<Operand> KernelParser::ParseAddress(std::string_view text) {
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

}  // namespace kernelcast::worker::virtual_gpu
