#include "services/worker/cuda/language/triton/triton_wire.h"

#include <catch2/catch.hpp>
#include <string>

#include "services/worker/cuda/compiler/wire.h"

namespace kernelcast::worker {
namespace {

using compiler_wire::Encoder;

TEST_CASE("A reply has as many kernels as it says", "[unit]") {
  Encoder encoder;
  encoder.Number(1).Text("ptx").Number(64).Number(4).Number(0).Number(1);
  const std::string content = encoder.TakeFields();
  const auto reply = TritonReply::Decode(content);
  REQUIRE(reply);
  REQUIRE(reply->kernels.size() == 1);
  CHECK(reply->kernels[0].ptx == "ptx");
  CHECK(reply->kernels[0].shared_bytes == 64);
  for (size_t size = 0; size < content.size(); ++size) {
    CHECK(!TritonReply::Decode(content.substr(0, size)));
  }
  CHECK(!TritonReply::Decode(content + "x"));
}

TEST_CASE("A reply with too many kernels is refused", "[unit]") {
  Encoder many;
  many.Number(kMaxTritonVariants + 1);
  for (size_t i = 0; i <= kMaxTritonVariants; ++i) {
    many.Text("").Number(0).Number(0).Number(0).Number(0);
  }
  CHECK(!TritonReply::Decode(many.TakeFields()));
}

}  // namespace
}  // namespace kernelcast::worker
