#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_WIRE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_WIRE_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What the worker and kernelcast-cuda-compiler say to one another over a socket. Each message is a
// frame: its size in 8 bytes, then its fields. Both run on one machine and are built together.
//
//   worker    --start-->            program
//             <--Hello--            the compiler works, and what it is
//             --CompileRequest-->
//             <--CompileReply--     one for each request, in turn
//             --end of file-->      the program ends

namespace kernelcast::worker::compiler_wire {

inline constexpr int kSocketFd = 3;
inline constexpr int kHeadersFd = 4;

class Encoder {
 public:
  Encoder& Number(uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Encoder& Text(std::string_view text) {
    Number(text.size());
    bytes_ += text;
    return *this;
  }
  // The frame.
  std::string Take() {
    const uint64_t size = bytes_.size();
    bytes_.insert(0, reinterpret_cast<const char*>(&size), sizeof(size));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// Reads fields of a frame's content, which must outlive it. Once something was missing, every
// number is 0 and every text empty.
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
  // A number of fields that follow, each of at least 8 bytes.
  uint64_t Count() {
    const uint64_t count = Number();
    if (count > bytes_.size() / sizeof(uint64_t)) {
      ok_ = false;
      return 0;
    }
    return count;
  }
  // All was there, and nothing is left.
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

struct Hello {
  std::string error;                    // empty: it works
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

// A header under the name that an #include says. Its text is in the memory of kHeadersFd, from
// `offset` to the next NUL.
struct NamedHeader {
  std::string name;
  uint64_t offset = 0;
};

struct CompileRequest {
  std::string source;
  std::vector<std::string> options;
  std::vector<NamedHeader> headers;

  std::string Encode() const {
    Encoder encoder;
    encoder.Text(source).Number(options.size());
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

}  // namespace kernelcast::worker::compiler_wire

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_WIRE_H_
