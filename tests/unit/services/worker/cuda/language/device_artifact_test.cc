#include <catch2/catch.hpp>
#include <string>

#include "services/worker/cuda/language/device_code.h"

namespace kernelcast::worker {
namespace {

DeviceArtifact Sample() {
  DeviceArtifact artifact;
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
  artifact.source = "__global__ void softmax();";
  return artifact;
}

TEST_CASE("An artefact holds the cubin first, the launches and the source", "[unit]") {
  const DeviceArtifact sample = Sample();
  const std::string content = EncodeDeviceArtifact(sample);
  CHECK(content.starts_with(sample.cubin));
  const auto artifact = DecodeDeviceArtifact(content);
  REQUIRE(artifact.ok());
  CHECK(artifact->cubin == sample.cubin);
  CHECK(artifact->launches == sample.launches);
  CHECK(artifact->source == sample.source);
}

TEST_CASE("Damaged artefacts are refused", "[unit]") {
  const std::string content = EncodeDeviceArtifact(Sample());
  CHECK(!DecodeDeviceArtifact("").ok());
  CHECK(!DecodeDeviceArtifact(Sample().cubin).ok());
  for (size_t size = 0; size < content.size(); ++size) {
    CHECK(!DecodeDeviceArtifact(content.substr(0, size)).ok());
  }
  for (size_t at = 13; at < content.size(); ++at) {
    std::string changed = content;
    changed[at] = '\xff';
    (void)DecodeDeviceArtifact(changed);
  }
}

}  // namespace
}  // namespace kernelcast::worker
