// Messages that callers or servers compress: refused, and not inflated.

#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/unary_reactor.h"
#include "kernelcast/v1/worker.grpc.pb.h"

namespace kernelcast::compression_test {
namespace {

constexpr int kMaxMessageBytes = 1 << 20;
// Its gzip form, about 60 KB, fits into the initial window of HTTP/2.
constexpr size_t kInflatedBytes = size_t{60} << 20;

class OneWorker final : public v1::Worker::CallbackService {
  grpc::ServerUnaryReactor* Compile(grpc::CallbackServerContext* context,
                                    const v1::CompileRequest* request,
                                    v1::CompileReply* reply) override {
    reply->set_request_id(request->request_id());
    return FinishNow(context, absl::OkStatus());
  }
};

std::string Gzip(const std::string& content) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) ==
          Z_OK);
  std::string packed(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string Number(uint64_t value, int bytes) {
  std::string text;
  while (bytes-- > 0) text += static_cast<char>(value >> (8 * bytes));
  return text;
}

std::string Frame(char type, char flags, uint32_t stream, std::string_view payload) {
  return Number(payload.size(), 3) + type + flags + Number(stream, 4) + std::string(payload);
}

// An HPACK literal that the receiver does not index.
std::string Header(const std::string& name, const std::string& value) {
  return '\0' + Number(name.size(), 1) + name + Number(value.size(), 1) + value;
}

// The bytes that a client sends for one call. They are made by hand, so that the test needs little
// memory.
std::string CallByHand(const std::string& message, const std::string& encoding) {
  constexpr char kData = 0, kHeaders = 1, kSettings = 4;
  constexpr size_t kMaxFrameBytes = 16384;
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, "");
  bytes +=
      Frame(kHeaders, /*END_HEADERS*/ 4, 1,
            Header(":method", "POST") + Header(":scheme", "http") +
                Header(":path", "/kernelcast.v1.Worker/Compile") +
                Header(":authority", "localhost") + Header("te", "trailers") +
                Header("content-type", "application/grpc") + Header("grpc-encoding", encoding));
  const std::string data =
      std::string(1, encoding == "identity" ? 0 : 1) + Number(message.size(), 4) + message;
  REQUIRE(data.size() < 65535);
  for (size_t at = 0; at < data.size(); at += kMaxFrameBytes) {
    const bool last = at + kMaxFrameBytes >= data.size();
    bytes += Frame(kData, last ? /*END_STREAM*/ 1 : 0, 1, data.substr(at, kMaxFrameBytes));
  }
  return bytes;
}

// The value of the header grpc-status in what a server sent; empty: there is none so far.
std::string StatusIn(const std::string& answer) {
  constexpr std::string_view kName = "grpc-status";
  const size_t at = answer.find(kName);
  if (at == std::string::npos || at + kName.size() >= answer.size()) return "";
  const size_t length = static_cast<unsigned char>(answer[at + kName.size()]);
  return answer.substr(at + kName.size() + 1, length);
}

std::string StatusOf(int port, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t size = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) break;
    sent += static_cast<size_t>(size);
  }
  std::string answer;
  char buffer[4096];
  pollfd readable{fd, POLLIN, 0};
  while (StatusIn(answer).empty() && poll(&readable, 1, 30'000) == 1) {
    const ssize_t size = recv(fd, buffer, sizeof buffer, 0);
    if (size <= 0) break;
    answer.append(buffer, static_cast<size_t>(size));
  }
  close(fd);
  return StatusIn(answer);
}

size_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  size_t kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (std::sscanf(line.c_str(), "VmHWM: %zu", &kib) == 1) break;
  }
  return kib * 1024;
}

TEST_CASE("A server does not inflate what a caller compresses", "[server]") {
  OneWorker worker;
  ServerOptions options;
  options.max_message_bytes = kMaxMessageBytes;
  const auto server = RpcServer::Start(options, {&worker}, nullptr);
  REQUIRE(server.ok());
  v1::CompileRequest request;
  request.set_request_id("r");
  CHECK(StatusOf((*server)->port(), CallByHand(request.SerializeAsString(), "identity")) == "0");

  request.mutable_candidate()->set_source(std::string(kInflatedBytes, 'x'));
  std::string bomb = Gzip(request.SerializeAsString());
  request.Clear();
  INFO(bomb.size());
  const std::string call = CallByHand(bomb, "gzip");
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins again at what there is now
  const size_t before = PeakBytes();
  for (int i = 0; i < 3; ++i) {
    CHECK(StatusOf((*server)->port(), call) == std::to_string(grpc::StatusCode::UNIMPLEMENTED));
  }
  CHECK(PeakBytes() < before + kInflatedBytes / 4);
  // The connection's others, and later callers, are served.
  CHECK(StatusOf((*server)->port(), CallByHand("", "identity")) == "0");
}

TEST_CASE("A caller that compresses gets UNIMPLEMENTED", "[server]") {
  OneWorker worker;
  const auto server = RpcServer::Start({}, {&worker}, nullptr);
  REQUIRE(server.ok());
  const auto stub = v1::Worker::NewStub(
      grpc::CreateChannel((*server)->address(), grpc::InsecureChannelCredentials()));
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::CompileRequest request;
    request.set_request_id(std::string(1000, 'r'));
    v1::CompileReply reply;
    const grpc::Status status = stub->Compile(&context, request, &reply);
    CHECK(status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
    CHECK_THAT(status.error_message(), Catch::Contains("ompression algorithm"));
  }
}

// A server that compresses its reply although the client accepts no compression.
class Compressing final : public v1::Worker::Service {
  grpc::Status Compile(grpc::ServerContext* context, const v1::CompileRequest*,
                       v1::CompileReply* reply) override {
    context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    reply->mutable_success()->set_log(std::string(4 * kMaxMessageBytes, 'x'));
    return grpc::Status::OK;
  }
};

TEST_CASE("A client does not inflate what a server compresses", "[server]") {
  Compressing service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  REQUIRE(server != nullptr);
  ChannelOptions options;
  options.max_message_bytes = 8 * kMaxMessageBytes;
  const auto channel = MakeChannel("127.0.0.1:" + std::to_string(port), options);
  REQUIRE(channel.ok());
  grpc::ClientContext context;
  v1::CompileReply reply;
  const grpc::Status status = v1::Worker::NewStub(*channel)->Compile(&context, {}, &reply);
  CHECK(status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
  CHECK(reply.ByteSizeLong() == 0);
}

}  // namespace
}  // namespace kernelcast::compression_test
