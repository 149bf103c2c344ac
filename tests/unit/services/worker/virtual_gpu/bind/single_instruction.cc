#include "tests/unit/services/worker/virtual_gpu/bind/single_instruction.h"

#include "services/worker/virtual_gpu/execute/memory.h"
#include "services/worker/virtual_gpu/execute/simulator.h"
#include "services/worker/virtual_gpu/parse/parser.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

constexpr int kBytesPerThread = 256;

// The statement that stores register `number` of a kind.
std::string Store(std::string_view kind, const std::string& number) {
  const std::string name = "%" + std::string(kind) + number;
  if (kind == "p") {
    return "selp.u32 %result, 1, 0, " + name + ";\nst.global.u32 [%at], %result;\n";
  }
  const std::string type = kind == "rd"  ? "u64"
                           : kind == "d" ? "f64"
                           : kind == "f" ? "f32"
                           : kind == "h" ? "u16"
                                         : "u32";
  return "st.global." + type + " [%at], " + name + ";\n";
}

Ran Execute(const std::string& ptx, int threads, std::span<const std::array<uint64_t, 3>> operands,
            bool checks = false) {
  Ran ran;
  const Program program = ParseProgram(ptx);
  if (program.kernels.size() != 1) {
    ran.not_covered = "the PTX has no kernel";
    return ran;
  }
  LaunchSpec launch;
  launch.kernel = "k";
  launch.block = {static_cast<uint32_t>(threads), 1, 1};
  launch.arguments = {{.is_buffer = true, .buffer = 0}};
  const std::vector<BufferSpec> buffers = {{.bytes = int64_t{threads} * kBytesPerThread}};
  GlobalMemory memory(buffers, program);
  const auto at = [](size_t thread) {
    return GlobalMemory::AddressOf(0) + thread * kBytesPerThread;
  };
  for (size_t k = 0; k < operands.size(); ++k) {
    for (size_t source = 0; source < 3; ++source) {
      memory.Write(at(k) + 64 + 8 * source, 8, operands[k][source]);
    }
  }
  const std::vector<LaunchSpec> launches = {launch};
  if (checks) {
    const auto made = Check(program, buffers, launches, CheckLimits(kCheckSteps), memory);
    ran.inexact = made[0].inexact();
  } else {
    const auto counts = Simulate(program, launches, {}, memory);
    ran.not_covered = counts[0].not_covered;
    ran.counters = counts[0].counters;
    ran.cycles = counts[0].block_cycles;
  }
  for (size_t k = 0; k < static_cast<size_t>(threads); ++k) {
    ran.results.push_back(memory.Read(at(k), 8));
  }
  return ran;
}

}  // namespace

std::string SingleKernel(std::string_view body) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
         ".reg .pred %p<10>;\n.reg .b16 %h<10>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n"
         ".reg .f32 %f<20>;\n.reg .f64 %d<10>;\n.reg .b64 %at;\n.reg .b32 %result;\n"
         ".shared .align 16 .b8 sh[64];\n.local .align 16 .b8 lo[64];\n"
         "ld.param.u64 %at, [out];\nmov.u32 %result, %tid.x;\n"
         "mad.wide.u32 %at, %result, 256, %at;\n" +
         std::string(body) + "\nret;\n}\n";
}

Ran RunBody(std::string_view body, int threads) {
  std::string store;
  for (const std::string_view kind : {"rd", "r", "f", "d", "h", "p"}) {
    const std::string name = "%" + std::string(kind) + "0";
    const size_t found = body.find(name);
    if (found == std::string_view::npos) continue;
    store = Store(kind, "0");
    break;
  }
  return Execute(SingleKernel(std::string(body) + "\n" + store), threads, {});
}

Ran RunKernel(const std::string& ptx, int threads) { return Execute(ptx, threads, {}); }

Ran CheckKernel(const std::string& ptx, int threads) { return Execute(ptx, threads, {}, true); }

std::vector<uint64_t> RunOn(const std::string& opcode, const std::vector<std::string>& registers,
                            std::span<const std::array<uint64_t, 3>> operands) {
  std::string body;
  std::string statement = opcode + " %" + registers[0] + "0";
  for (size_t k = 1; k < registers.size(); ++k) {
    const std::string& kind = registers[k];
    const std::string name = "%" + kind + std::to_string(k);
    const std::string type = kind == "rd"  ? "u64"
                             : kind == "d" ? "f64"
                             : kind == "f" ? "f32"
                             : kind == "h" ? "u16"
                                           : "u32";
    body += "ld.global." + type + " " + name + ", [%at+" + std::to_string(56 + 8 * k) + "];\n";
    statement += ", " + name;
  }
  body += statement + ";\n" + Store(registers[0], "0");
  const Ran ran = Execute(SingleKernel(body), static_cast<int>(operands.size()), operands);
  return ran.not_covered.empty() ? ran.results : std::vector<uint64_t>();
}

}  // namespace kernelcast::worker::virtual_gpu
