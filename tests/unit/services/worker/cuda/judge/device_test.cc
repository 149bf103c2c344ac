#include "services/worker/cuda/judge/device.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

namespace kernelcast::worker {
namespace {

using testing::FakeCuda;
using testing::FakeJudge;
using Effect = FakeCuda::Effect;

std::map<std::string, int> Held() { return FakeCuda::Instance().Held(); }

TEST_CASE("A device is described without a context") {
  FakeCuda::Instance().Reset();
  const auto facts = DescribeDevice(FakeCuda::Api());
  REQUIRE(facts.ok());
  CHECK(facts->info.model == "Fake GPU");
  CHECK(facts->info.uuid == "GPU-00112233-4455-6677-8899-aabbccddeeff");
  CHECK(facts->info.runtime_version == "CUDA 13.0");
  CHECK(facts->compute_capability_major == 9);
  CHECK(facts->compute_capability_minor == 0);
  CHECK(facts->l2_bytes == FakeCuda::kL2Bytes);
  CHECK(Held().empty());
}

TEST_CASE("A device that cannot be opened leaves nothing") {
  FakeCuda& cuda = FakeCuda::Instance();
  for (const char* function : {"Init", "DeviceGet", "DevicePrimaryCtxRetain", "CtxSetCurrent",
                               "StreamCreate", "DeviceGetAttribute"}) {
    cuda.Reset();
    cuda.Inject(function, 1, Effect::kFailOnce, CUDA_ERROR_NO_DEVICE);
    CHECK(absl::IsUnavailable(CudaDevice::Open(FakeCuda::Api()).status()));
    CHECK(Held().empty());
    CHECK(cuda.misuse().empty());
  }
}

TEST_CASE("A buffer has one owner that frees it") {
  FakeJudge judge;
  const auto before = Held();
  {
    auto first = DeviceBuffer::Allocate(judge.device(), 100);
    REQUIRE(first.ok());
    CHECK(Held()["buffers"] == 1);
    DeviceBuffer moved = *std::move(first);
    CHECK(first->address() == 0);
    CHECK(moved.bytes() == 100);
    DeviceBuffer other = DeviceBuffer::Allocate(judge.device(), 8).value();
    const CUdeviceptr address = moved.address();
    other = std::move(moved);
    CHECK(other.address() == address);
    other = DeviceBuffer();
  }
  CHECK(Held() == before);
  CHECK(DeviceBuffer::Allocate(judge.device(), 0).ok());
}

TEST_CASE("A failed allocation or fill leaves no buffer") {
  FakeJudge judge;
  const auto before = Held();
  FakeCuda::Instance().set_memory_bytes(4096);
  CHECK(absl::IsResourceExhausted(DeviceBuffer::Allocate(judge.device(), 8192).status()));
  const std::vector<std::byte> content(64);
  FakeCuda::Instance().Inject("MemcpyHtoDAsync", 1, Effect::kFailOnce);
  CHECK(absl::IsInternal(DeviceBuffer::Copy(judge.device(), content).status()));
  CHECK(Held() == before);
}

TEST_CASE("An arena is mapped and shared through its descriptor") {
  FakeJudge judge;
  const auto before = Held();
  {
    SharedArena arena = SharedArena::Create(judge.device(), 5000).value();
    CHECK(arena.bytes() == 8192);
    CHECK(FakeCuda::Instance().Memory(arena.address(), 8192, true) != nullptr);
    struct stat file {};
    CHECK(fstat(arena.fd(), &file) == 0);
    CHECK(file.st_size == 8192);
    const int fd = arena.fd();
    SharedArena moved = std::move(arena);
    CHECK(arena.fd() == -1);
    CHECK(moved.fd() == fd);
    moved = SharedArena::Create(judge.device(), 1).value();
    CHECK(moved.bytes() == 4096);
    CHECK(Held()["mappings"] == 1);
    moved = SharedArena();
    CHECK(Held() == before);
  }
  CHECK(Held() == before);
}

TEST_CASE("A failed arena leaves nothing") {
  FakeJudge judge;
  const auto before = Held();
  for (const char* function :
       {"MemGetAllocationGranularity", "MemCreate", "MemExportToShareableHandle",
        "MemAddressReserve", "MemMap", "MemSetAccess"}) {
    FakeCuda::Instance().Inject(function, 1, Effect::kFailOnce, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(absl::IsResourceExhausted(SharedArena::Create(judge.device(), 1).status()));
    CHECK(Held() == before);
  }
}

TEST_CASE("A size that overflows when rounded up is out of memory") {
  FakeJudge judge;
  CHECK(absl::IsResourceExhausted(SharedArena::Create(judge.device(), ~size_t{0} - 5).status()));
}

TEST_CASE("Memory of a lost context is freed") {
  FakeJudge judge;
  {
    const auto buffer = DeviceBuffer::Allocate(judge.device(), 100);
    const auto arena = SharedArena::Create(judge.device(), 100);
    REQUIRE((buffer.ok() && arena.ok()));
    FakeCuda::Instance().Inject("StreamSynchronize", 1, Effect::kFailOnce,
                                CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(absl::IsAborted(judge.device().Synchronize()));
    CHECK(absl::IsAborted(judge.device().Synchronize()));
  }
  CHECK(Held().count("buffers") == 0);
  CHECK(Held().count("handles") == 0);
}

}  // namespace
}  // namespace kernelcast::worker
