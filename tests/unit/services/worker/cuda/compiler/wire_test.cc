#include "services/worker/cuda/compiler/wire.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::worker::compiler_wire {
namespace {

std::string Content(const std::string& frame) {
  uint64_t size = 0;
  std::memcpy(&size, frame.data(), sizeof(size));
  REQUIRE(frame.size() == size + sizeof(size));
  return frame.substr(sizeof(size));
}

TEST_CASE("Messages arrive as sent") {
  CompileRequest request;
  request.program = "a_1";
  request.source = std::string("source\0with a NUL", 17);
  request.options = {"-arch=sm_90a", ""};
  request.headers = {{"cuda_fp16.h", 12}, {"nv/target", 9999}};
  const auto got = CompileRequest::Decode(Content(request.Encode()));
  REQUIRE(got.has_value());
  CHECK(got->program == "a_1");
  CHECK(got->source == request.source);
  CHECK(got->options == request.options);
  REQUIRE(got->headers.size() == 2);
  CHECK(got->headers[1].name == "nv/target");
  CHECK(got->headers[1].offset == 9999);

  Hello hello;
  hello.version = "13.0.88";
  hello.architectures = {80, 90};
  hello.missing_protections = {"seccomp"};
  const auto greeted = Hello::Decode(Content(hello.Encode()));
  REQUIRE(greeted.has_value());
  CHECK(greeted->architectures == hello.architectures);
  CHECK(greeted->missing_protections == hello.missing_protections);

  CompileReply reply;
  reply.code = ReplyCode::kRefused;
  reply.log = "kernel.cu(1): error";
  const auto replied = CompileReply::Decode(Content(reply.Encode()));
  REQUIRE(replied.has_value());
  CHECK(replied->code == ReplyCode::kRefused);
  CHECK(replied->log == reply.log);

  SimulateRequest simulate;
  simulate.program = "a_1";
  simulate.ptx = ".entry k";
  simulate.gpu = 3;
  simulate.shapes.push_back({.buffers = {{.bytes = 4, .content = "abcd"}},
                             .launches = {},
                             .resources = {},
                             .checks = true,
                             .wanted = {0}});
  const auto simulated = SimulateRequest::Decode(Content(simulate.Encode()));
  REQUIRE(simulated.has_value());
  CHECK(simulated->program == "a_1");
  CHECK(simulated->ptx == ".entry k");
  CHECK(simulated->gpu == 3);
  REQUIRE(simulated->shapes.size() == 1);
  CHECK(simulated->shapes[0].buffers.at(0).content == "abcd");
  CHECK(simulated->shapes[0].wanted == std::vector<uint64_t>{0});

  SimulateReply unknown;
  unknown.known = false;
  unknown.shapes = {{{.kernel = "k", .not_covered = "", .values = {}, .inexact = "clusters"}}};
  unknown.contents = {{std::string("a\0b", 3)}};
  const auto answered = SimulateReply::Decode(Content(unknown.Encode()));
  REQUIRE(answered.has_value());
  CHECK_FALSE(answered->known);
  CHECK(answered->shapes.at(0).at(0).inexact == "clusters");
  CHECK(answered->contents == unknown.contents);
}

TEST_CASE("A truncated or inconsistent message is refused") {
  CompileRequest request;
  request.source = "x";
  request.options = {"-a", "-b"};
  const std::string content = Content(request.Encode());
  for (size_t size = 0; size < content.size(); ++size) {
    CHECK_FALSE(CompileRequest::Decode(content.substr(0, size)).has_value());
  }
  CHECK_FALSE(CompileRequest::Decode(content + "x").has_value());
  // A count that no frame could hold.
  CHECK_FALSE(Hello::Decode(Content(Encoder().Text("").Text("").Number(UINT64_MAX).Take())));
  CHECK_FALSE(
      CompileReply::Decode(Content(Encoder().Number(99).Text("").Text("").Text("").Take())));
}

}  // namespace
}  // namespace kernelcast::worker::compiler_wire
