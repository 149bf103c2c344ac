// Many tasks that take much device memory, one after the other in one worker.

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/task_fixture.h"

namespace kernelcast::testing {
namespace {

constexpr const char* kImports = "import torch\nimport torch.nn as nn\n";

std::string Module(const std::string& name, const std::string& body) {
  return absl::StrCat("class ", name, "(nn.Module):\n    def forward(self, x):\n", body, "\n");
}

// Makes this many copies of its input, which it reduces to one.
std::string Copies(int copies) {
  return absl::StrCat("        y = x.unsqueeze(0).repeat(", copies,
                      ", 1)\n        return y.relu_().amax(0)\n");
}

Problem Task(int64_t elements, int copies) {
  return MakeTask(absl::StrCat(kImports, Module("Model", Copies(copies)),
                               "def get_inputs():\n    return [torch.randn(", elements,
                               ")]\n\ndef get_init_inputs():\n    return []\n"));
}

int Tasks() {
  int tasks = 60;
  if (const char* wanted = std::getenv("KERNELCAST_STREAM_TASKS")) {
    REQUIRE(absl::SimpleAtoi(wanted, &tasks));
  }
  return tasks;
}

TEST_CASE("A stream of tasks that take up to 20 GB each ends without a lack of memory") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(Task(1 << 20, 4));
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const int tasks = Tasks();
  for (int i = 0; i < tasks; ++i) {
    // From 64 MB to 0.5 GB, and 2 to 20 GB with the copies.
    const int64_t elements = (int64_t{16} << 20) * (1 + i % 8);
    const int64_t bytes = (int64_t{2} << 30) + (int64_t{18} << 30) * (i % 10) / 9;
    const int copies = static_cast<int>(bytes / (4 * elements));
    fixture.Take(Task(elements, copies));
    // Every other candidate takes as much memory as its reference.
    const std::string body = i % 2 == 0 ? "        return torch.relu(x)\n" : Copies(copies);
    fixture.CheckOutcome(absl::StrCat("task ", i, ", ", bytes >> 20, " MiB"),
                         absl::StrCat(kImports, Module("ModelNew", body)), {"ok"});
  }
  std::printf("%d tasks in %.0f s\n", tasks,
              1e-9 * static_cast<double>(Clock::Real().MonotonicNs() - start_ns));
}

TEST_CASE("A candidate lacks memory only if it does with the device to itself") {
  KERNELCAST_NEEDS_TASKS();
  constexpr int64_t kElements = int64_t{256} << 20;
  TaskFixture fixture(Task(kElements, 2));
  // Problems that are kept take most of the device.
  for (int copies = 2; copies < 6; ++copies) {
    fixture.Take(Task(kElements, copies));
    fixture.CheckOutcome("kept", absl::StrCat(kImports, Module("ModelNew", Copies(copies))),
                         {"ok"});
  }
  fixture.Take(Task(1 << 20, 3));
  const auto taking = [](int64_t share_of_256, const std::string& raises) {
    return absl::StrCat(
        kImports,
        Module("ModelNew", absl::StrCat("        try:\n"
                                        "            total = torch.cuda.get_device_properties(0)."
                                        "total_memory\n"
                                        "            y = torch.empty(total * ",
                                        share_of_256,
                                        " // 256, dtype=torch.uint8, device='cuda')\n"
                                        "            del y\n            torch.cuda.empty_cache()\n"
                                        "        except torch.cuda.OutOfMemoryError:\n"
                                        "            ",
                                        raises, "\n        return torch.relu(x)\n")));
  };
  // Half of the device is there once the kept problems are dropped, however the lack shows.
  fixture.CheckOutcome("half", taking(128, "raise"), {"ok"});
  for (int copies = 2; copies < 6; ++copies) {
    fixture.Take(Task(kElements, copies));
    fixture.CheckOutcome("kept", absl::StrCat(kImports, Module("ModelNew", Copies(copies))),
                         {"ok"});
  }
  fixture.Take(Task(1 << 20, 3));
  fixture.CheckOutcome("half, another error", taking(130, "raise RuntimeError('no handle')"),
                       {"ok"});
  const Measurement crashed = fixture.CheckOutcome("twice all", taking(512, "raise"), {"crash"});
  CHECK(std::get<Crash>(crashed.outcome).cause == Crash::Cause::kMemoryLimit);
  fixture.CheckOutcome("after it", absl::StrCat(kImports, Module("ModelNew", Copies(3))), {"ok"});
}

}  // namespace
}  // namespace kernelcast::testing
