#include "services/worker/cuda/triton/triton_wire.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::worker {
namespace {

using compiler_wire::Encoder;

std::string Content(Encoder& encoder) { return encoder.Take().substr(sizeof(uint64_t)); }

TEST_CASE("A reply has as many kernels as it says", "[unit]") {
  Encoder encoder;
  encoder.Number(0).Text("log").Number(1).Text("ptx").Number(64).Number(4).Number(0).Number(1);
  const std::string content = Content(encoder);
  const auto reply = TritonReply::Decode(content);
  REQUIRE(reply);
  CHECK(reply->code == TritonCode::kCompiled);
  CHECK(reply->log == "log");
  REQUIRE(reply->kernels.size() == 1);
  CHECK(reply->kernels[0].ptx == "ptx");
  CHECK(reply->kernels[0].shared_bytes == 64);
  for (size_t size = 0; size < content.size(); ++size) {
    CHECK(!TritonReply::Decode(content.substr(0, size)));
  }
  CHECK(!TritonReply::Decode(content + "x"));
}

TEST_CASE("A reply with an unknown code or too many kernels is refused", "[unit]") {
  Encoder unknown;
  unknown.Number(17).Text("").Number(0);
  CHECK(!TritonReply::Decode(Content(unknown)));
  Encoder many;
  many.Number(0).Text("").Number(kMaxTritonVariants + 1);
  for (size_t i = 0; i <= kMaxTritonVariants; ++i) {
    many.Text("").Number(0).Number(0).Number(0).Number(0);
  }
  CHECK(!TritonReply::Decode(Content(many)));
}

}  // namespace
}  // namespace kernelcast::worker
