#include <catch2/catch.hpp>
#include <string>

#include "services/worker/cuda/triton/triton_compiler.h"

namespace kernelcast::worker {
namespace {

TritonArtifact Sample() {
  TritonArtifact artifact;
  artifact.cubin = std::string(
      "\x7f"
      "ELF and more",
      13);
  Launch& launch = artifact.launches.emplace_back();
  launch.kernel = "softmax";
  launch.grid = {"rows", "2"};
  launch.block = {"256"};
  launch.shared_memory_bytes = "1024";
  launch.arguments = {"x", "cols:int32"};
  launch.when = "mod(cols,16)==0";
  artifact.launches.emplace_back().kernel = "other";
  return artifact;
}

TEST_CASE("An artefact holds the cubin first, and the launches", "[unit]") {
  const TritonArtifact sample = Sample();
  const std::string content = EncodeTritonArtifact(sample);
  CHECK(content.starts_with(sample.cubin));
  const auto artifact = DecodeTritonArtifact(content);
  REQUIRE(artifact.ok());
  CHECK(artifact->cubin == sample.cubin);
  CHECK(artifact->launches == sample.launches);
}

TEST_CASE("Damaged artefacts are refused", "[unit]") {
  const std::string content = EncodeTritonArtifact(Sample());
  CHECK(!DecodeTritonArtifact("").ok());
  CHECK(!DecodeTritonArtifact(Sample().cubin).ok());
  for (size_t size = 0; size < content.size(); ++size) {
    CHECK(!DecodeTritonArtifact(content.substr(0, size)).ok());
  }
  for (size_t at = 13; at < content.size(); ++at) {
    std::string changed = content;
    changed[at] = '\xff';
    (void)DecodeTritonArtifact(changed);
  }
}

}  // namespace
}  // namespace kernelcast::worker
