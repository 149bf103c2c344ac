#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_WIRE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_WIRE_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/worker/virtual_gpu/estimate/estimate.h"
#include "services/worker/virtual_gpu/execute/launch.h"

// Protocol between the worker and kernelcast-cuda-compiler over a socket. Each message is a frame:
// its size in 8 bytes, then its fields. Both programs run on one machine and are built together.
//
//   worker    --start-->            program
//             <--Hello--            whether the compiler works, and its version
//             --CompileRequest or SimulateRequest-->
//             <--CompileReply or SimulateReply--     one per request, in order
//             --end of file-->      the program exits
//
// The worker reads facts from a program's PTX. It does not send it back: a simulation names the
// program, and if the process does not keep it, the worker has it compiled again.

namespace kernelcast::worker::compiler_wire {

inline constexpr int kSocketFd = 3;
inline constexpr int kHeadersFd = 4;
// A process keeps at most this many programs for simulations, and fewer if they are large.
inline constexpr size_t kKeptPrograms = 64;

class Encoder {
 public:
  Encoder& Number(uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Encoder& Real(double value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Encoder& Text(std::string_view text) {
    Number(text.size());
    bytes_ += text;
    return *this;
  }
  // Returns the fields without their size.
  std::string TakeFields() { return std::move(bytes_); }
  // Returns the frame.
  std::string Take() {
    const uint64_t size = bytes_.size();
    bytes_.insert(0, reinterpret_cast<const char*>(&size), sizeof(size));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// Reads the fields of a frame's content, which must outlive the decoder. After a missing field, all
// numbers read as 0 and all texts as empty.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : bytes_(bytes) {}
  uint64_t Number() {
    uint64_t value = 0;
    if (!ok_ || bytes_.size() < sizeof(value)) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_.remove_prefix(sizeof(value));
    return value;
  }
  double Real() {
    const uint64_t bits = Number();
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  std::string_view Text() {
    const uint64_t size = Number();
    if (!ok_ || size > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return text;
  }
  // Reads the number of fields that follow, each of at least 8 bytes.
  uint64_t Count() {
    const uint64_t count = Number();
    if (count > bytes_.size() / sizeof(uint64_t)) {
      ok_ = false;
      return 0;
    }
    return count;
  }
  // Whether all fields were present and nothing is left.
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

struct Hello {
  std::string error;                    // empty: no error
  std::string version;                  // e.g. "13.0.88"
  std::vector<uint64_t> architectures;  // 90 is sm_90
  std::vector<std::string> missing_protections;

  std::string Encode() const {
    Encoder encoder;
    encoder.Text(error).Text(version).Number(architectures.size());
    for (const uint64_t architecture : architectures) {
      encoder.Number(architecture);
    }
    encoder.Number(missing_protections.size());
    for (const std::string& protection : missing_protections) {
      encoder.Text(protection);
    }
    return encoder.Take();
  }
  static std::optional<Hello> Decode(std::string_view content) {
    Decoder decoder(content);
    Hello hello;
    hello.error = decoder.Text();
    hello.version = decoder.Text();
    for (uint64_t left = decoder.Count(); left > 0; --left) {
      hello.architectures.push_back(decoder.Number());
    }
    for (uint64_t left = decoder.Count(); left > 0; --left) {
      hello.missing_protections.emplace_back(decoder.Text());
    }
    return decoder.done() ? std::optional(std::move(hello)) : std::nullopt;
  }
};

// A header under the name used by an #include. Its text is in the memory of kHeadersFd, from
// `offset` to the next NUL.
struct NamedHeader {
  std::string name;
  uint64_t offset = 0;
};

// The first number of a request.
enum class RequestKind : uint64_t { kCompile = 1, kSimulate = 2 };

struct CompileRequest {
  // The process keeps the program under this name for simulations; empty: it does not.
  std::string program;
  std::string source;
  std::vector<std::string> options;
  std::vector<NamedHeader> headers;

  std::string Encode() const {
    Encoder encoder;
    encoder.Number(static_cast<uint64_t>(RequestKind::kCompile));
    encoder.Text(program).Text(source).Number(options.size());
    for (const std::string& option : options) {
      encoder.Text(option);
    }
    encoder.Number(headers.size());
    for (const NamedHeader& header : headers) {
      encoder.Text(header.name).Number(header.offset);
    }
    return encoder.Take();
  }
  static std::optional<CompileRequest> Decode(std::string_view content) {
    Decoder decoder(content);
    CompileRequest request;
    if (decoder.Number() != static_cast<uint64_t>(RequestKind::kCompile)) {
      return std::nullopt;
    }
    request.program = decoder.Text();
    request.source = decoder.Text();
    for (uint64_t left = decoder.Count(); left > 0; --left) {
      request.options.emplace_back(decoder.Text());
    }
    for (uint64_t left = decoder.Count(); left > 0; --left) {
      NamedHeader header;
      header.name = decoder.Text();
      header.offset = decoder.Number();
      request.headers.push_back(std::move(header));
    }
    return decoder.done() ? std::optional(std::move(request)) : std::nullopt;
  }
};

enum class ReplyCode : uint64_t { kCompiled = 0, kRefused = 1, kOutOfMemory = 2, kBroken = 3 };

struct CompileReply {
  ReplyCode code = ReplyCode::kBroken;
  std::string log;
  std::string ptx;
  std::string cubin;

  std::string Encode() const {
    return Encoder().Number(static_cast<uint64_t>(code)).Text(log).Text(ptx).Text(cubin).Take();
  }
  static std::optional<CompileReply> Decode(std::string_view content) {
    Decoder decoder(content);
    CompileReply reply;
    const uint64_t code = decoder.Number();
    reply.log = decoder.Text();
    reply.ptx = decoder.Text();
    reply.cubin = decoder.Text();
    if (!decoder.done() || code > static_cast<uint64_t>(ReplyCode::kBroken)) {
      return std::nullopt;
    }
    reply.code = static_cast<ReplyCode>(code);
    return reply;
  }
};

// Input of the virtual GPU at one shape.
struct SimulatedShape {
  std::vector<virtual_gpu::BufferSpec> buffers;
  std::vector<virtual_gpu::LaunchSpec> launches;
  std::vector<virtual_gpu::LaunchResources> resources;  // one per launch
  bool checks = false;  // check for faults instead of estimating times
  // Checks only: the buffers whose content after the launches is wanted.
  std::vector<uint64_t> wanted = {};
};

// Simulates a program that this process has compiled and keeps, or PTX of another compiler.
struct SimulateRequest {
  std::string program;  // CompileRequest::program; empty: `ptx`
  std::string ptx;
  uint64_t gpu = 0;                                 // index into virtual_gpu::AllGpuModels()
  uint64_t check_steps = virtual_gpu::kCheckSteps;  // for all checks
  std::vector<SimulatedShape> shapes;

  std::string Encode() const {
    Encoder encoder;
    encoder.Number(static_cast<uint64_t>(RequestKind::kSimulate));
    encoder.Text(program).Text(ptx).Number(gpu).Number(check_steps);
    encoder.Number(shapes.size());
    for (const SimulatedShape& shape : shapes) {
      encoder.Number(shape.checks ? 1 : 0).Number(shape.buffers.size());
      for (const virtual_gpu::BufferSpec& buffer : shape.buffers) {
        encoder.Number(static_cast<uint64_t>(buffer.bytes));
        encoder.Number(static_cast<uint64_t>(buffer.type));
        encoder.Number(static_cast<uint64_t>(buffer.values)).Real(buffer.first).Real(buffer.second);
        encoder.Number(buffer.initialised ? 1 : 0)
            .Number(buffer.is_output ? 1 : 0)
            .Text(buffer.name)
            .Text(buffer.content);
      }
      encoder.Number(shape.wanted.size());
      for (const uint64_t buffer : shape.wanted) encoder.Number(buffer);
      encoder.Number(shape.launches.size());
      for (size_t k = 0; k < shape.launches.size(); ++k) {
        const virtual_gpu::LaunchSpec& launch = shape.launches[k];
        encoder.Text(launch.kernel);
        for (size_t d = 0; d < 3; ++d) {
          encoder.Number(launch.grid[d]).Number(launch.block[d]);
        }
        encoder.Number(static_cast<uint64_t>(launch.dynamic_shared_bytes));
        encoder.Number(static_cast<uint64_t>(shape.resources[k].registers));
        encoder.Number(static_cast<uint64_t>(shape.resources[k].shared_bytes));
        encoder.Number(static_cast<uint64_t>(shape.resources[k].stack_bytes));
        encoder.Number(launch.arguments.size());
        for (const virtual_gpu::LaunchArgument& argument : launch.arguments) {
          encoder.Number(argument.is_buffer ? 1 : 0).Number(static_cast<uint64_t>(argument.buffer));
          encoder.Number(argument.bits).Number(static_cast<uint64_t>(argument.bytes));
        }
      }
    }
    return encoder.Take();
  }
  static std::optional<SimulateRequest> Decode(std::string_view content) {
    Decoder decoder(content);
    SimulateRequest request;
    if (decoder.Number() != static_cast<uint64_t>(RequestKind::kSimulate)) {
      return std::nullopt;
    }
    request.program = decoder.Text();
    request.ptx = decoder.Text();
    request.gpu = decoder.Number();
    request.check_steps = decoder.Number();
    for (uint64_t left = decoder.Count(); left > 0; --left) {
      SimulatedShape& shape = request.shapes.emplace_back();
      shape.checks = decoder.Number() != 0;
      for (uint64_t buffers = decoder.Count(); buffers > 0; --buffers) {
        virtual_gpu::BufferSpec& buffer = shape.buffers.emplace_back();
        buffer.bytes = static_cast<int64_t>(decoder.Number());
        buffer.type = static_cast<virtual_gpu::ElementType>(decoder.Number());
        buffer.values = static_cast<virtual_gpu::BufferSpec::Values>(decoder.Number());
        buffer.first = decoder.Real();
        buffer.second = decoder.Real();
        buffer.initialised = decoder.Number() != 0;
        buffer.is_output = decoder.Number() != 0;
        buffer.name = decoder.Text();
        buffer.content = decoder.Text();
      }
      for (uint64_t wanted = decoder.Count(); wanted > 0; --wanted) {
        shape.wanted.push_back(decoder.Number());
      }
      for (uint64_t launches = decoder.Count(); launches > 0; --launches) {
        virtual_gpu::LaunchSpec& launch = shape.launches.emplace_back();
        launch.kernel = decoder.Text();
        for (size_t d = 0; d < 3; ++d) {
          launch.grid[d] = static_cast<uint32_t>(decoder.Number());
          launch.block[d] = static_cast<uint32_t>(decoder.Number());
        }
        launch.dynamic_shared_bytes = static_cast<int64_t>(decoder.Number());
        virtual_gpu::LaunchResources& resources = shape.resources.emplace_back();
        resources.registers = static_cast<int64_t>(decoder.Number());
        resources.shared_bytes = static_cast<int64_t>(decoder.Number());
        resources.stack_bytes = static_cast<int64_t>(decoder.Number());
        for (uint64_t arguments = decoder.Count(); arguments > 0; --arguments) {
          virtual_gpu::LaunchArgument& argument = launch.arguments.emplace_back();
          argument.is_buffer = decoder.Number() != 0;
          argument.buffer = static_cast<int>(decoder.Number());
          argument.bits = decoder.Number();
          argument.bytes = static_cast<int>(decoder.Number());
        }
      }
    }
    return decoder.done() ? std::optional(std::move(request)) : std::nullopt;
  }
};

struct SimulateReply {
  struct Launch {
    std::string kernel;
    std::string not_covered;
    std::vector<double> values;
    std::string not_checked = {};
    std::vector<virtual_gpu::LaunchFinding> findings = {};
    // Checks: why the values that it wrote may differ from a GPU's; empty: they do not.
    std::string inexact = {};
  };
  bool known = true;  // false: this process does not keep the program
  std::vector<std::vector<Launch>> shapes;
  // By shape: the content of the wanted buffers; none if a launch is inexact.
  std::vector<std::vector<std::string>> contents = {};

  std::string Encode() const {
    Encoder encoder;
    encoder.Number(known ? 1 : 0).Number(shapes.size());
    for (const std::vector<Launch>& launches : shapes) {
      encoder.Number(launches.size());
      for (const Launch& launch : launches) {
        encoder.Text(launch.kernel).Text(launch.not_covered).Number(launch.values.size());
        for (const double value : launch.values) {
          encoder.Real(value);
        }
        encoder.Text(launch.not_checked).Number(launch.findings.size());
        for (const virtual_gpu::LaunchFinding& finding : launch.findings) {
          encoder.Number(static_cast<uint64_t>(finding.fault));
          encoder.Number(static_cast<uint64_t>(finding.line));
          encoder.Number(static_cast<uint64_t>(finding.source_line));
          encoder.Text(finding.detail).Number(static_cast<uint64_t>(finding.count));
        }
        encoder.Text(launch.inexact);
      }
    }
    encoder.Number(contents.size());
    for (const std::vector<std::string>& shape : contents) {
      encoder.Number(shape.size());
      for (const std::string& content : shape) encoder.Text(content);
    }
    return encoder.Take();
  }
  static std::optional<SimulateReply> Decode(std::string_view content) {
    Decoder decoder(content);
    SimulateReply reply;
    reply.known = decoder.Number() != 0;
    for (uint64_t shapes = decoder.Count(); shapes > 0; --shapes) {
      std::vector<Launch>& launches = reply.shapes.emplace_back();
      for (uint64_t left = decoder.Count(); left > 0; --left) {
        Launch& launch = launches.emplace_back();
        launch.kernel = decoder.Text();
        launch.not_covered = decoder.Text();
        for (uint64_t values = decoder.Count(); values > 0; --values) {
          launch.values.push_back(decoder.Real());
        }
        launch.not_checked = decoder.Text();
        for (uint64_t findings = decoder.Count(); findings > 0; --findings) {
          virtual_gpu::LaunchFinding& finding = launch.findings.emplace_back();
          finding.fault = static_cast<virtual_gpu::Fault>(decoder.Number());
          finding.line = static_cast<int32_t>(decoder.Number());
          finding.source_line = static_cast<int32_t>(decoder.Number());
          finding.detail = decoder.Text();
          finding.count = static_cast<int64_t>(decoder.Number());
        }
        launch.inexact = decoder.Text();
      }
    }
    for (uint64_t shapes = decoder.Count(); shapes > 0; --shapes) {
      std::vector<std::string>& shape = reply.contents.emplace_back();
      for (uint64_t left = decoder.Count(); left > 0; --left) shape.emplace_back(decoder.Text());
    }
    return decoder.done() ? std::optional(std::move(reply)) : std::nullopt;
  }
};

}  // namespace kernelcast::worker::compiler_wire

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_WIRE_H_
