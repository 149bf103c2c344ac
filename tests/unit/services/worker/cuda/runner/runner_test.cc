#include "services/worker/cuda/runner/runner.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "common/process/memory_file.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fake_kernels.h"

namespace kernelcast::worker::cuda_runner {
namespace {

using testing::FakeCubin;
using testing::FakeCuda;
using Effect = FakeCuda::Effect;

constexpr int64_t kArenaBytes = 8192;
constexpr uint32_t kX = 0;
constexpr uint32_t kY = 1;

template <class Record>
void Append(std::vector<std::byte>& packet, const Record& record) {
  const auto bytes = std::as_bytes(std::span(&record, 1));
  packet.insert(packet.end(), bytes.begin(), bytes.end());
}

// A runner on a fresh driver, driven packet by packet. Its destructor checks that nothing is held.
class Subject {
 public:
  Subject() { FakeCuda::Instance().Reset(); }
  ~Subject() {
    runner_.reset();
    CHECK(FakeCuda::Instance().Held().empty());
    CHECK(FakeCuda::Instance().misuse().empty());
  }

  bool Start() { return runner_->Start(); }

  Reply Ask(const Request& request, const std::vector<std::byte>& records = {}, int fd = -1) {
    std::vector<std::byte> packet;
    Append(packet, request);
    packet.insert(packet.end(), records.begin(), records.end());
    const Runner::Answer answer = runner_->Handle(packet, fd);
    values.assign(answer.values.begin(), answer.values.end());
    return answer.reply;
  }

  Reply Map(uint32_t arena, const MemoryFile& file, bool writable, uint64_t bytes = kArenaBytes,
            uint32_t padding = 0) {
    Request request{};
    request.extra = padding;
    request.command = Command::kMap;
    request.slot = arena;
    request.bytes = bytes;
    request.writable = writable ? 1 : 0;
    return Ask(request, {}, file.fd());
  }
  Reply ForSlot(Command command, uint32_t slot) {
    Request request{};
    request.command = command;
    request.slot = slot;
    return Ask(request);
  }
  Reply Load(uint32_t slot, const std::string& cubin, const std::vector<std::string>& names) {
    std::string content = cubin;
    for (const std::string& name : names) content += name + '\0';
    const auto file = MemoryFile::FromContent("cubin", content).value();
    Request request{};
    request.command = Command::kLoad;
    request.slot = slot;
    request.bytes = cubin.size();
    request.count = static_cast<uint32_t>(names.size());
    request.extra = static_cast<uint32_t>(content.size() - cubin.size());
    return Ask(request, {}, file.fd());
  }
  Reply SetPrograms(uint32_t slot, const std::vector<Program>& programs) {
    const auto bytes = WritePrograms(programs);
    const auto file = MemoryFile::FromContent(
                          "programs", {reinterpret_cast<const char*>(bytes.data()), bytes.size()})
                          .value();
    Request request{};
    request.command = Command::kPrograms;
    request.slot = slot;
    request.bytes = bytes.size();
    request.count = static_cast<uint32_t>(programs.size());
    return Ask(request, {}, file.fd());
  }
  Reply Run(const std::vector<RunRecord>& runs) {
    Request request{};
    request.command = Command::kRun;
    request.count = static_cast<uint32_t>(runs.size());
    std::vector<std::byte> records;
    for (const RunRecord& run : runs) Append(records, run);
    return Ask(request, records);
  }
  Reply Time(const std::vector<SampleRecord>& samples, const std::vector<PoisonRecord>& poisons,
             uint32_t flushes = 1, bool replay = false) {
    Request request{};
    request.command = Command::kTime;
    request.replay = replay ? 1 : 0;
    request.count = static_cast<uint32_t>(samples.size());
    request.extra = static_cast<uint32_t>(poisons.size());
    request.flushes = flushes;
    std::vector<std::byte> records;
    for (const SampleRecord& sample : samples) Append(records, sample);
    for (const PoisonRecord& poison : poisons) Append(records, poison);
    return Ask(request, records);
  }

  std::vector<float> values;

 private:
  std::unique_ptr<Runner> runner_ =
      std::make_unique<Runner>(FakeCuda::Api(), FakeCuda::Instance().clock());
};

// y = 2 x + 1 over `n` elements at the start of both arenas.
Program Call(int64_t n, uint64_t y_offset = 0) {
  ProgramLaunch launch;
  launch.arguments = {
      {.arena = kX}, {.arena = kY, .value = y_offset}, {.value = static_cast<uint64_t>(n)}};
  return Program{{launch}};
}

// Started, with arenas and a module.
class Ready : public Subject {
 public:
  explicit Ready(const std::string& kernel = "map affine scale=2 add=1 ns=50000") {
    REQUIRE(Start());
    REQUIRE(Map(kX, x, false).failure == Failure::kNone);
    REQUIRE(Map(kY, y, true).failure == Failure::kNone);
    REQUIRE(Load(kCandidate, FakeCubin({kernel}), {"map"}).failure == Failure::kNone);
    for (int i = 0; i < 100; ++i) reinterpret_cast<float*>(x.data())[i] = static_cast<float>(i);
  }
  float At(int i) const { return reinterpret_cast<const float*>(y.data())[i]; }
  Failure Program100() { return SetPrograms(kCandidate, {Call(100)}).failure; }

  MemoryFile x = MemoryFile::Create("x", kArenaBytes, MemoryFile::Sharing::kReadWrite).value();
  MemoryFile y = MemoryFile::Create("y", kArenaBytes, MemoryFile::Sharing::kReadWrite).value();
};

std::string Where(const Reply& reply) { return reply.where; }

// Copies what x holds to y, and computes from the copy.
Program CopyAndCall() {
  Program program = Call(100, 1024);
  program.launches[0].arguments[0] = {.arena = kY};
  ProgramLaunch copy;
  copy.kernel = kCopy;
  copy.arguments = {{.arena = kY}, {.arena = kX}, {.value = 400}};
  program.launches.insert(program.launches.begin(), copy);
  return program;
}

TEST_CASE("A program copies memory before its launches") {
  Ready runner;
  REQUIRE(runner.SetPrograms(kCandidate, {CopyAndCall()}).failure == Failure::kNone);
  REQUIRE(runner.Run({{kCandidate, 0}}).failure == Failure::kNone);
  CHECK(runner.At(7) == 7);
  CHECK(runner.At(256 + 7) == 15);
  Program damaged = CopyAndCall();
  damaged.launches[0].arguments.pop_back();
  CHECK(Where(runner.SetPrograms(kCandidate, {damaged})) == "kPrograms: copy");
}

TEST_CASE("Launches are replayed as a graph, which the first replay captures") {
  Ready runner;
  FakeCuda& cuda = FakeCuda::Instance();
  REQUIRE(runner.SetPrograms(kCandidate, {CopyAndCall(), Program{}}).failure == Failure::kNone);
  const std::vector<SampleRecord> samples = {
      {kCandidate, 0, 0, 0}, {kCandidate, 1, 0, 0}, {kCandidate, 0, 0, 0}};
  REQUIRE(runner.Time(samples, {}, 1, /*replay=*/true).failure == Failure::kNone);
  CHECK(runner.At(256 + 7) == 15);
  CHECK(cuda.calls("StreamBeginCapture") == 1);
  CHECK(cuda.calls("GraphLaunch") == 2);
  CHECK(cuda.Held().at("graphs") == 1);
  // The copy takes 1 us, the kernel 50.
  CHECK(runner.values[1] == Approx(51).margin(0.01));
  CHECK(runner.values[5] == Approx(51).margin(0.01));
  // Graphs end with the memory and the module that they use.
  runner.ForSlot(Command::kUnload, kCandidate);
  CHECK(cuda.Held().count("graphs") == 0);
}

TEST_CASE("A graph that cannot be made is a failure, and the launches still run") {
  for (const char* const function :
       {"StreamBeginCapture", "LaunchKernelEx", "StreamEndCapture", "GraphInstantiateWithFlags"}) {
    INFO(function);
    Ready runner;
    REQUIRE(runner.Program100() == Failure::kNone);
    FakeCuda::Instance().Inject(function, 1, Effect::kFailOnce, CUDA_ERROR_INVALID_VALUE);
    const Reply failed = runner.Time({{kCandidate, 0, 0, 0}}, {}, 1, /*replay=*/true);
    CHECK(failed.failure == Failure::kDriver);
    CHECK(FakeCuda::Instance().Held().count("graphs") == 0);
    CHECK(runner.Run({{kCandidate, 0}}).failure == Failure::kNone);
  }
}

TEST_CASE("A mapped, loaded and set program runs and is timed") {
  Ready runner;
  REQUIRE(runner.Program100() == Failure::kNone);
  const Reply reply = runner.Run({{kCandidate, 0}});
  CHECK(reply.failure == Failure::kNone);
  CHECK(reply.command == Command::kRun);
  CHECK(reply.wall_ns == 50'000);
  CHECK(runner.At(0) == 1);
  CHECK(runner.At(99) == 199);
}

TEST_CASE("A sample is the time between its events, without poison and flush") {
  Ready runner;
  REQUIRE(runner.Program100() == Failure::kNone);
  const Reply reply = runner.Time({{kCandidate, 0, 0, 1}, {kCandidate, 0, 1, 0}},
                                  {{kY, 0x12345678, 0, kArenaBytes}});
  REQUIRE(reply.failure == Failure::kNone);
  REQUIRE(runner.values.size() == 4);
  CHECK(runner.values[0] > runner.values[2]);
  CHECK(runner.values[1] == Approx(50));
  CHECK(runner.values[3] == Approx(50));
  CHECK(runner.At(99) == 199);
  uint32_t beyond = 0;
  std::memcpy(&beyond, runner.y.data() + 400, 4);
  CHECK(beyond == 0x12345678);
  CHECK(reply.wall_ns > 100'000);
}

TEST_CASE("The time on the host begins when the device works for this process") {
  Ready runner;
  REQUIRE(runner.Program100() == Failure::kNone);
  const auto wall_ns = [&] {
    const Reply reply = runner.Time({{kCandidate, 0, 0, 0}}, {});
    REQUIRE(reply.failure == Failure::kNone);
    return reply.wall_ns;
  };
  const int64_t at_once_ns = wall_ns();
  FakeCuda::Instance().set_elsewhere_ns(2'000'000);
  CHECK(wall_ns() == at_once_ns);
}

TEST_CASE("The cache is overwritten as often as the request says, outside the sample") {
  Ready runner;
  REQUIRE(runner.Program100() == Failure::kNone);
  const auto before_us = [&](uint32_t flushes) {
    REQUIRE(runner.Time({{kCandidate, 0, 0, 0}}, {}, flushes).failure == Failure::kNone);
    CHECK(runner.values[1] == Approx(50));
    return runner.values[0];
  };
  const float once = before_us(1) - before_us(0);
  CHECK(once > 0);
  CHECK(before_us(3) - before_us(0) == Approx(3 * once).epsilon(0.01));
}

TEST_CASE("A runner that failed to start answers every request with the reason") {
  Subject runner;
  FakeCuda::Instance().Inject("EventCreate", 5, Effect::kFail, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_FALSE(runner.Start());
  for (const Command command : {Command::kHello, Command::kRun}) {
    const Reply reply = runner.ForSlot(command, 0);
    CHECK(reply.failure == Failure::kDriver);
    CHECK(reply.cuda_error == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(Where(reply) == "cuEventCreate");
  }
}

TEST_CASE("Requests of unknown kind or size are refused") {
  Ready runner;
  CHECK(runner.ForSlot(static_cast<Command>(99), 0).failure == Failure::kRequest);
  CHECK(runner.ForSlot(static_cast<Command>(0), 0).failure == Failure::kRequest);
  Runner other(FakeCuda::Api(), FakeCuda::Instance().clock());
  REQUIRE(other.Start());
  const std::vector<std::byte> packet(sizeof(Request) - 1);
  CHECK(other.Handle(packet, -1).reply.failure == Failure::kRequest);
  CHECK(other.Handle({}, -1).reply.failure == Failure::kRequest);
}

TEST_CASE("Nonexistent slots are refused") {
  Ready runner;
  CHECK(runner.Map(kMaxArenas, runner.x, false).failure == Failure::kRequest);
  CHECK(runner.ForSlot(Command::kUnmap, kMaxArenas).failure == Failure::kRequest);
  CHECK(runner.Load(kSlots, FakeCubin({}), {}).failure == Failure::kRequest);
  CHECK(runner.ForSlot(Command::kUnload, kSlots).failure == Failure::kRequest);
  CHECK(runner.SetPrograms(kSlots, {Call(1)}).failure == Failure::kRequest);
  CHECK(runner.SetPrograms(kReference, {Call(1)}).failure == Failure::kRequest);
  CHECK(runner.Run({{kSlots, 0}}).failure == Failure::kRequest);
  CHECK(runner.Run({{kReference, 0}}).failure == Failure::kRequest);
  CHECK(runner.Run({{kCandidate, 0}}).failure == Failure::kRequest);
  CHECK(runner.Time({{kSlots, 0, 0, 0}}, {}).failure == Failure::kRequest);
  // Unmapping and unloading nonexistent items is not an error.
  CHECK(runner.ForSlot(Command::kUnmap, 5).failure == Failure::kNone);
  CHECK(runner.ForSlot(Command::kUnload, kReference).failure == Failure::kNone);
}

TEST_CASE("Memory is mapped once, whole, and only from memory files") {
  Ready runner;
  CHECK(runner.Map(kX, runner.x, false).failure == Failure::kRequest);
  CHECK(runner.Map(2, runner.x, false, 0).failure == Failure::kRequest);
  CHECK(runner.Map(2, MemoryFile(), false).failure == Failure::kRequest);
  CHECK(runner.Map(2, runner.x, false, kArenaBytes, kArenaBytes).failure == Failure::kRequest);
  for (const uint64_t bytes : {uint64_t{4096}, uint64_t{16384}, ~uint64_t{0}, uint64_t{1}}) {
    CHECK(runner.Map(2, runner.x, false, bytes).failure == Failure::kDriver);
  }
  CHECK(runner.Map(2, runner.x, false).failure == Failure::kNone);
}

TEST_CASE("An arena begins after its padding and ends with the memory") {
  Ready runner;
  const auto before = FakeCuda::Instance().Held();
  REQUIRE(runner.Map(2, runner.x, true, kArenaBytes, 512).failure == Failure::kNone);
  const auto poison = [&](uint64_t offset, uint64_t bytes) {
    return runner.Time({{kReference, 0, 0, 1}}, {{2, 7, offset, bytes}}).failure;
  };
  REQUIRE(runner.Load(kReference, FakeCubin({}), {}).failure == Failure::kNone);
  REQUIRE(runner.SetPrograms(kReference, std::vector<Program>(1)).failure == Failure::kNone);
  CHECK(poison(0, kArenaBytes - 512) == Failure::kNone);
  CHECK(poison(0, kArenaBytes - 508) == Failure::kRequest);
  CHECK(runner.ForSlot(Command::kUnmap, 2).failure == Failure::kNone);
  CHECK(runner.ForSlot(Command::kUnload, kReference).failure == Failure::kNone);
  CHECK(FakeCuda::Instance().Held() == before);
}

TEST_CASE("A mapping that fails midway leaves nothing mapped") {
  Ready runner;
  const auto before = FakeCuda::Instance().Held();
  for (const char* function :
       {"MemImportFromShareableHandle", "MemAddressReserve", "MemMap", "MemSetAccess"}) {
    FakeCuda::Instance().Inject(function, 1, Effect::kFailOnce, CUDA_ERROR_OUT_OF_MEMORY);
    const Reply reply = runner.Map(2, runner.x, true);
    CHECK(reply.failure == Failure::kDriver);
    CHECK(reply.cuda_error == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(reply.context_lost == 0);
    CHECK(FakeCuda::Instance().Held() == before);
  }
  CHECK(runner.Map(2, runner.x, true).failure == Failure::kNone);
}

TEST_CASE("Writing to a read-only mapping kills the context") {
  Ready runner("map affine write_input=1");
  REQUIRE(runner.Program100() == Failure::kNone);
  const Reply reply = runner.Run({{kCandidate, 0}});
  CHECK(reply.failure == Failure::kDriver);
  CHECK(reply.cuda_error == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(reply.context_lost == 1);
  CHECK(runner.Run({{kCandidate, 0}}).context_lost == 1);
}

TEST_CASE("A module that does not load leaves its slot empty") {
  Ready runner;
  REQUIRE(runner.Program100() == Failure::kNone);
  SECTION("no cubin") {
    CHECK(runner.Load(kCandidate, "\177ELF, says it", {"map"}).cuda_error ==
          CUDA_ERROR_INVALID_IMAGE);
  }
  SECTION("no such kernel") {
    CHECK(runner.Load(kCandidate, FakeCubin({"map affine"}), {"map", "other"}).cuda_error ==
          CUDA_ERROR_NOT_FOUND);
  }
  CHECK(FakeCuda::Instance().Held()["modules"] == 0);
  CHECK(runner.Run({{kCandidate, 0}}).failure == Failure::kRequest);
  CHECK(runner.SetPrograms(kCandidate, {Call(100)}).failure == Failure::kRequest);
}

TEST_CASE("A file of the wrong length is refused, not read") {
  Ready runner;
  const auto file = MemoryFile::FromContent("short", "fake cubin\nend\n").value();
  Request request{};
  request.slot = kCandidate;
  for (const Command command : {Command::kLoad, Command::kPrograms}) {
    request.command = command;
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{16}, uint64_t{1} << 20, ~uint64_t{0}}) {
      request.bytes = bytes;
      CHECK(runner.Ask(request, {}, file.fd()).failure == Failure::kRequest);
    }
    request.bytes = 15;
    CHECK(runner.Ask(request, {}, -1).failure == Failure::kRequest);
  }
  // Incomplete names.
  request.command = Command::kLoad;
  request.count = 1;
  CHECK(Where(runner.Ask(request, {}, file.fd())) == "kLoad: names");
}

TEST_CASE("Arguments of other number or size than the kernel's are refused") {
  Ready runner;
  Program program = Call(100);
  program.launches[0].arguments.pop_back();
  CHECK(Where(runner.SetPrograms(kCandidate, {program})) == "the kernel takes 3 arguments, not 2");
  program = Call(100);
  program.launches[0].arguments.push_back({});
  CHECK(Where(runner.SetPrograms(kCandidate, {program})) == "the kernel takes 3 arguments, not 4");
  program = Call(100);
  program.launches[0].arguments[2].bytes = 4;
  CHECK(Where(runner.SetPrograms(kCandidate, {program})) ==
        "argument 3 has 4 bytes, its parameter 8");
  program = Call(100);
  program.launches[0].kernel = 1;
  CHECK(Where(runner.SetPrograms(kCandidate, {program})) == "kPrograms: kernel");
}

TEST_CASE("Refused programs keep the previous ones") {
  Ready runner;
  REQUIRE(runner.Program100() == Failure::kNone);
  REQUIRE(runner.SetPrograms(kCandidate, {Call(100), Call(100, kArenaBytes + 1)}).failure ==
          Failure::kRequest);
  CHECK(runner.Run({{kCandidate, 0}}).failure == Failure::kNone);
}

TEST_CASE("Addresses stay within a mapped arena") {
  Ready runner;
  CHECK(runner.SetPrograms(kCandidate, {Call(1, kArenaBytes)}).failure == Failure::kNone);
  CHECK(runner.SetPrograms(kCandidate, {Call(1, kArenaBytes + 1)}).failure == Failure::kRequest);
  CHECK(runner.SetPrograms(kCandidate, {Call(1, ~uint64_t{0})}).failure == Failure::kRequest);
  Program program = Call(1);
  program.launches[0].arguments[0].arena = 2;
  CHECK(Where(runner.SetPrograms(kCandidate, {program})) == "kPrograms: arena");
}

TEST_CASE("Programs do not outlive an arena that they may address") {
  Ready runner;
  REQUIRE(runner.Program100() == Failure::kNone);
  REQUIRE(runner.ForSlot(Command::kUnmap, kY).failure == Failure::kNone);
  CHECK(Where(runner.Run({{kCandidate, 0}})) == "no such program");
}

TEST_CASE("Excess or incomplete runs, samples and poisons are refused") {
  Ready runner;
  REQUIRE(runner.Program100() == Failure::kNone);
  CHECK(runner.Run(std::vector<RunRecord>(kMaxRuns, {kCandidate, 0})).failure == Failure::kNone);
  CHECK(runner.Run(std::vector<RunRecord>(kMaxRuns + 1, {kCandidate, 0})).failure ==
        Failure::kRequest);
  const std::vector<SampleRecord> most(kMaxSamples, {kCandidate, 0, 0, 0});
  CHECK(runner.Time(most, {}).failure == Failure::kNone);
  CHECK(runner.values.size() == 2 * kMaxSamples);
  CHECK(runner.Time(std::vector<SampleRecord>(kMaxSamples + 1), {}).failure == Failure::kRequest);
  CHECK(runner.values.empty());
  CHECK(runner.Time(most, std::vector<PoisonRecord>(kMaxPoisons + 1)).failure == Failure::kRequest);
  Request request{};
  for (const Command command : {Command::kRun, Command::kTime}) {
    request.command = command;
    request.count = ~0u;
    CHECK(runner.Ask(request).failure == Failure::kRequest);
    request.count = 1;
    CHECK(runner.Ask(request, std::vector<std::byte>(4)).failure == Failure::kRequest);
  }
  request.count = 0;
  request.extra = ~0u;
  CHECK(runner.Ask(request).failure == Failure::kRequest);
}

TEST_CASE("Poison stays within a mapped arena and on whole words") {
  Ready runner;
  REQUIRE(runner.Program100() == Failure::kNone);
  const auto poisoned = [&](const PoisonRecord& poison) {
    return runner.Time({{kCandidate, 0, 0, 1}}, {poison}).failure;
  };
  CHECK(poisoned({kY, 1, 0, kArenaBytes}) == Failure::kNone);
  CHECK(poisoned({kY, 1, kArenaBytes, 0}) == Failure::kNone);
  for (const PoisonRecord& poison :
       {PoisonRecord{kY, 1, 4, kArenaBytes}, PoisonRecord{kY, 1, kArenaBytes + 4, 0},
        PoisonRecord{kY, 1, 2, 4}, PoisonRecord{kY, 1, 0, 3}, PoisonRecord{2, 1, 0, 4},
        PoisonRecord{kMaxArenas, 1, 0, 4}, PoisonRecord{kY, 1, 4, ~uint64_t{3}},
        PoisonRecord{~0u, 1, 0, 4}}) {
    CHECK(poisoned(poison) == Failure::kRequest);
    CHECK(runner.values.empty());
  }
  CHECK(runner.Time({{kCandidate, 0, 1, 1}}, {{kY, 1, 0, 4}}).failure == Failure::kRequest);
  CHECK(runner.Time({{kCandidate, 0, ~0u, 2}}, {{kY, 1, 0, 4}}).failure == Failure::kRequest);
}

TEST_CASE("An arena index past the last is refused") {
  Ready runner;
  REQUIRE(runner.Map(kMaxArenas - 1, runner.y, true).failure == Failure::kNone);
  REQUIRE(runner.Program100() == Failure::kNone);
  CHECK(runner.Time({{kCandidate, 0, 0, 1}}, {{kMaxArenas, 1, 0, 4}}).failure == Failure::kRequest);
}

TEST_CASE("A refused launch does not hide an earlier kernel failure") {
  Ready runner("map affine fault=700");
  REQUIRE(runner.Load(kReference, FakeCubin({"map affine launch_error=701"}), {"map"}).failure ==
          Failure::kNone);
  REQUIRE(runner.Program100() == Failure::kNone);
  REQUIRE(runner.SetPrograms(kReference, {Call(100)}).failure == Failure::kNone);
  FakeCuda::Instance().Inject("LaunchKernelEx", 2, Effect::kFail,
                              CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  const Reply reply = runner.Run({{kCandidate, 0}, {kReference, 0}});
  CHECK(reply.failure == Failure::kDriver);
  CHECK(reply.cuda_error == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK(reply.context_lost == 1);
}

TEST_CASE("A refused launch leaves the context intact") {
  Ready runner("map affine launch_error=701");
  REQUIRE(runner.Program100() == Failure::kNone);
  const Reply reply = runner.Time({{kCandidate, 0, 0, 0}}, {});
  CHECK(reply.failure == Failure::kDriver);
  CHECK(reply.cuda_error == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK(reply.context_lost == 0);
  CHECK(Where(reply) == "cuLaunchKernelEx");
  CHECK(runner.values.empty());
}

}  // namespace
}  // namespace kernelcast::worker::cuda_runner
