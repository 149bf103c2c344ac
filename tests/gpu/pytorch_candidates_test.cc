// Right candidates of the forms that users of KernelBench write, on a GPU.

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "common/base/file.h"
#include "tests/gpu/task_fixture.h"
#include "tests/support/services.h"

namespace kernelcast::testing {
namespace {

std::set<std::filesystem::path> In(const std::filesystem::path& folder) {
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.insert(entry.path());
  return paths;
}

TEST_CASE("Right PyTorch candidates of many forms are ok on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  const char* const only = std::getenv("KERNELCAST_CASE");
  std::optional<TaskFixture> fixture;
  for (const auto& folder : In(SourcePath("tests/gpu/candidates/pytorch"))) {
    if (only != nullptr && folder.filename() != only) continue;
    Problem problem = MakeTask(ReadFile(folder / "task.py").value());
    if (fixture) {
      fixture->Take(std::move(problem));
    } else {
      fixture.emplace(std::move(problem));
    }
    for (const auto& file : In(folder)) {
      const std::string name = folder.filename().string() + "/" + file.stem().string();
      const std::string source = ReadFile(file).value();
      if (file.filename() == "task.py") {
        // The task as its own candidate.
        (void)fixture->CheckOutcome(name, source, {"ok"});
        continue;
      }
      const Measurement measurement = fixture->Measure(source);
      const std::string feedback = MeasurementFeedback(measurement);
      std::printf("%s: %s\n", name.c_str(), feedback.c_str());
      std::fflush(stdout);
      if (feedback.find("No module named") != std::string::npos) {
        WARN(name << " needs a package that is not installed: " << feedback);
        continue;
      }
      INFO(name << ": " << feedback);
      CHECK(std::holds_alternative<MeasuredOk>(measurement.outcome));
    }
  }
}

}  // namespace
}  // namespace kernelcast::testing
