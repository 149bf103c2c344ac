#include "services/worker/cuda/target/gpu_selection.h"

#include <catch2/catch.hpp>

namespace kernelcast::worker {
namespace {

const std::vector<std::string> kUuids = {"GPU-5f2e0000", "GPU-77aa0000", "GPU-5f990000"};

TEST_CASE("GPUs are selected by number or UUID, each once, in list order") {
  CHECK(SelectGpus("all", kUuids).value() == std::vector<int>{0, 1, 2});
  CHECK(SelectGpus("", kUuids).value() == std::vector<int>{0, 1, 2});
  CHECK(SelectGpus("none", kUuids).value().empty());
  CHECK(SelectGpus("2,0,2", kUuids).value() == std::vector<int>{2, 0});
  CHECK(SelectGpus("GPU-77aa,0", kUuids).value() == std::vector<int>{1, 0});
  CHECK(SelectGpus("GPU-5f99", kUuids).value() == std::vector<int>{2});
}

TEST_CASE("A missing GPU is refused by name") {
  for (const char* wish : {"3", "-1", "GPU-00", "0,,1", "first"}) {
    INFO(wish);
    CHECK(absl::IsInvalidArgument(SelectGpus(wish, kUuids).status()));
  }
}

TEST_CASE("A child process sees only its device, under the parent's name for it") {
  CHECK(VisibleDevice(0, 1, nullptr).empty());
  CHECK(VisibleDevice(0, 1, "3").empty());
  CHECK(VisibleDevice(1, 2, nullptr) == "1");
  CHECK(VisibleDevice(1, 2, "3,5") == "5");
  CHECK(VisibleDevice(0, 2, "GPU-1,GPU-2") == "GPU-1");
}

}  // namespace
}  // namespace kernelcast::worker
