#include "services/worker/cuda/runner/program_table.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

namespace kernelcast::worker::cuda_runner {
namespace {

std::vector<Program> TwoPrograms() {
  ProgramLaunch launch;
  launch.kernel = 3;
  launch.grid[0] = 7;
  launch.block[1] = 32;
  launch.cluster[2] = 2;
  launch.shared_memory_bytes = 1024;
  launch.arguments = {{.arena = 1, .bytes = 8, .value = 512},
                      {.arena = kLiteral, .bytes = 4, .value = 42}};
  return {Program{{launch, ProgramLaunch{}}}, Program{}};
}

// A copy with one 32-bit word replaced.
std::vector<std::byte> Replaced(std::vector<std::byte> file, size_t at, uint32_t word) {
  std::memcpy(file.data() + at, &word, sizeof(word));
  return file;
}

std::string Refusal(std::span<const std::byte> file, uint32_t count) {
  const auto read = ReadPrograms(file, count);
  CHECK(absl::IsInvalidArgument(read.status()));
  return std::string(read.status().message());
}

constexpr size_t kFirstLaunch = sizeof(ProgramRecord);
constexpr size_t kFirstArgument = kFirstLaunch + sizeof(LaunchRecord);

TEST_CASE("Programs round-trip") {
  const auto written = TwoPrograms();
  const auto read = ReadPrograms(WritePrograms(written), 2);
  REQUIRE(read.ok());
  REQUIRE(read->size() == 2);
  REQUIRE((*read)[0].launches.size() == 2);
  CHECK((*read)[1].launches.empty());
  const ProgramLaunch& launch = (*read)[0].launches[0];
  CHECK(launch.kernel == 3);
  CHECK(launch.grid[0] == 7);
  CHECK(launch.grid[1] == 1);
  CHECK(launch.block[1] == 32);
  CHECK(launch.cluster[2] == 2);
  CHECK(launch.shared_memory_bytes == 1024);
  REQUIRE(launch.arguments.size() == 2);
  CHECK(launch.arguments[0].arena == 1);
  CHECK(launch.arguments[0].value == 512);
  CHECK(launch.arguments[1].arena == kLiteral);
  CHECK(launch.arguments[1].bytes == 4);
  CHECK(launch.arguments[1].value == 42);
  CHECK(WritePrograms(*read) == WritePrograms(written));
}

TEST_CASE("An empty program list is no bytes") {
  CHECK(WritePrograms({}).empty());
  CHECK(ReadPrograms({}, 0)->empty());
}

TEST_CASE("Programs truncated anywhere are refused") {
  const auto file = WritePrograms(TwoPrograms());
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    CHECK(Refusal(std::span(file).first(bytes), 2) == "programs: the file ends early");
  }
  CHECK(Refusal(file, 3) == "programs: the file ends early");
}

TEST_CASE("Trailing bytes after the last program are refused") {
  CHECK(Refusal(WritePrograms(TwoPrograms()), 1) == "programs: the file goes on after the last");
}

TEST_CASE("Programs beyond a limit are refused before they are parsed") {
  const auto file = WritePrograms(TwoPrograms());
  CHECK(Refusal(file, kMaxPrograms + 1) == "programs: too many");
  CHECK(Refusal(Replaced(file, 0, kMaxLaunches + 1), 2) == "programs: too many launches");
  CHECK(Refusal(Replaced(file, 0, ~0u), 2) == "programs: too many launches");
  const size_t arguments = kFirstLaunch + offsetof(LaunchRecord, arguments);
  CHECK(Refusal(Replaced(file, arguments, kMaxArguments + 1), 2) == "programs: too many arguments");
}

TEST_CASE("Arguments of an unknown kind are refused") {
  const auto file = WritePrograms(TwoPrograms());
  const std::string refusal = "programs: an argument of no known kind";
  CHECK(Refusal(Replaced(file, kFirstArgument, kMaxArenas), 2) == refusal);
  CHECK(Refusal(Replaced(file, kFirstArgument, kLiteral - 1), 2) == refusal);
  for (const uint32_t bytes : {0u, 3u, 5u, 16u}) {
    CHECK(Refusal(Replaced(file, kFirstArgument + offsetof(ArgumentRecord, bytes), bytes), 2) ==
          refusal);
  }
}

}  // namespace
}  // namespace kernelcast::worker::cuda_runner
