#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_DECODER_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_DECODER_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "services/worker/virtual_gpu/program.h"

// Interface between the parser, which knows names, and the instructions, which know their
// semantics.

namespace kernelcast::worker::virtual_gpu {

struct Operand {
  enum class Type : uint8_t { kNone, kRegister, kImmediate, kAddress, kVector, kSink };
  Type type = Type::kNone;
  uint16_t slot = 0;              // kRegister; kAddress with a register
  bool has_register = false;      // kAddress
  bool negated = false;           // a predicate that is read inverted
  bool is_real = false;           // kImmediate: a floating-point number
  Space space = Space::kGeneric;  // space of the variable in an address
  bool names_variable = false;
  uint64_t bits = 0;  // kImmediate; the offset of kAddress
  // The predicate after '|', such as that of "shfl.sync.bfly.b32 r1|p, ...".
  bool has_second = false;
  uint16_t second = 0;
  std::vector<Operand> elements;  // kVector
};

struct Opcode {
  std::vector<std::string_view> parts;

  std::string_view name() const { return parts[0]; }
  bool Has(std::string_view part) const {
    return std::find(parts.begin() + 1, parts.end(), part) != parts.end();
  }
  // The last part, or empty.
  std::string_view type() const { return parts.size() > 1 ? parts.back() : std::string_view(); }
};

// Collects the registers of one instruction. After a mismatch ok() stays false.
class Decoder {
 public:
  Decoder(Kernel& kernel, int64_t max_slots) : kernel_(kernel), max_slots_(max_slots) {}

  void Begin(Instruction& instruction) {
    instruction_ = &instruction;
    instruction.operands = static_cast<uint32_t>(kernel_.operands.size());
    instruction.writes = 0;
    instruction.reads = 0;
    ok_ = true;
    why_.clear();
  }
  Instruction& instruction() { return *instruction_; }

  // Written operands must be named first. A sink is written to a register that nothing reads.
  void Write(const Operand& operand, SlotClass kind) {
    if (operand.type == Operand::Type::kSink) {
      Append(Sink(kind));
    } else if (operand.type == Operand::Type::kRegister && ClassOf(operand.slot) == kind) {
      Append(operand.slot);
    } else {
      Fail("an operand that cannot be written");
    }
    ++instruction_->writes;
  }
  void WriteSlot(uint16_t slot, SlotClass kind) {
    if (ClassOf(slot) != kind) {
      Fail("an operand of another size");
    }
    Append(slot);
    ++instruction_->writes;
  }
  void Read(const Operand& operand, SlotClass kind) {
    if (operand.type == Operand::Type::kRegister && ClassOf(operand.slot) == kind) {
      Append(operand.slot);
    } else if (operand.type == Operand::Type::kImmediate ||
               (operand.type == Operand::Type::kAddress && !operand.has_register)) {
      Append(Immediate(operand.bits, kind));
    } else {
      Fail("an operand of another size");
    }
    ++instruction_->reads;
  }
  // Accepts any class of register; immediates are long.
  SlotClass ReadAny(const Operand& operand) {
    const SlotClass kind = KindOf(operand);
    Read(operand, kind);
    return kind;
  }
  // Reads the condition code: one predicate shared by all instructions that carry. Must be the last
  // read, even if the instruction only writes it.
  void ReadCarry() {
    if (carry_ < 0) carry_ = AddSlot(SlotClass::kPredicate, false);
    Append(static_cast<uint16_t>(carry_));
    ++instruction_->reads;
  }
  SlotClass KindOf(const Operand& operand) const {
    return operand.type == Operand::Type::kRegister ? ClassOf(operand.slot) : SlotClass::kLong;
  }
  // Reads the register of an address, or 0; its offset goes to `immediate`.
  void ReadAddress(const Operand& operand) {
    if (operand.type != Operand::Type::kAddress) {
      Fail("no address where one is needed");
    }
    instruction_->immediate = static_cast<int64_t>(operand.bits);
    if (operand.type == Operand::Type::kAddress && operand.has_register) {
      if (ClassOf(operand.slot) == SlotClass::kPredicate) {
        Fail("an address that is a predicate");
      }
      Append(operand.slot);
    } else {
      Append(Immediate(0, SlotClass::kLong));
    }
    ++instruction_->reads;
  }

  SlotClass ClassOf(uint16_t slot) const { return kernel_.slots[slot].kind; }
  bool ok() const { return ok_; }
  const std::string& why() const { return why_; }
  void Fail(std::string_view why) {
    if (ok_) {
      why_ = std::string(why);
    }
    ok_ = false;
  }

  // Adds a slot of that class. If there are too many, fails and returns the first one of the class.
  uint16_t AddSlot(SlotClass kind, bool is_float) {
    if (static_cast<int64_t>(kernel_.slots.size()) >= max_slots_) {
      Fail("too many registers");
      if (!kernel_.slots.empty()) {
        for (size_t i = 0; i < kernel_.slots.size() && i < 64; ++i) {
          if (kernel_.slots[i].kind == kind) return static_cast<uint16_t>(i);
        }
        return 0;
      }
    }
    Slot slot;
    slot.kind = kind;
    slot.is_float = is_float;
    slot.offset = static_cast<uint32_t>(kernel_.register_bytes);
    // Predicates are padded to the alignment of a vector register.
    kernel_.register_bytes += kind == SlotClass::kLong ? 256 : kind == SlotClass::kWord ? 128 : 16;
    kernel_.register_bytes = (kernel_.register_bytes + 15) / 16 * 16;
    kernel_.slots.push_back(slot);
    return static_cast<uint16_t>(kernel_.slots.size() - 1);
  }
  uint16_t Immediate(uint64_t bits, SlotClass kind) {
    return Constant(SlotValue::Source::kImmediate, bits, kind);
  }
  uint16_t Constant(SlotValue::Source source, uint64_t bits, SlotClass kind) {
    for (const SlotValue& value : kernel_.values) {
      if (value.source == source && value.bits == bits && ClassOf(value.slot) == kind) {
        return value.slot;
      }
    }
    const uint16_t slot = AddSlot(kind, false);
    if (ok_) {
      kernel_.values.push_back({slot, source, bits});
      if (source == SlotValue::Source::kClock) clocks_.push_back(slot);
    }
    return slot;
  }
  // Whether the register is a clock.
  bool IsClock(uint16_t slot) const {
    return std::find(clocks_.begin(), clocks_.end(), slot) != clocks_.end();
  }
  uint16_t Sink(SlotClass kind) {
    auto& sink = sinks_[static_cast<size_t>(kind)];
    if (sink < 0) {
      sink = AddSlot(kind, true);
    }
    return static_cast<uint16_t>(sink);
  }

 private:
  void Append(uint16_t slot) { kernel_.operands.push_back(slot); }

  Kernel& kernel_;
  const int64_t max_slots_;
  Instruction* instruction_ = nullptr;
  bool ok_ = true;
  std::string why_;
  int32_t sinks_[3] = {-1, -1, -1};
  std::vector<uint16_t> clocks_;
  int32_t carry_ = -1;
};

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_DECODER_H_
