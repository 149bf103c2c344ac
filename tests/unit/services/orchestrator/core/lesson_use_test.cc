#include "services/orchestrator/core/lesson_use.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kernelcast::orchestrator {
namespace {

constexpr char kDevice[] = "Fake CPU";

Lesson Known(std::string aspect, std::string from, std::string to, double mean) {
  Lesson lesson;
  lesson.family = "toy";
  lesson.target = "cpu";
  lesson.device_model = kDevice;
  lesson.aspect = std::move(aspect);
  lesson.from = std::move(from);
  lesson.to = std::move(to);
  lesson.trials = 50;
  lesson.held = 50;
  lesson.mean_log2_gain = mean;
  lesson.stddev_log2_gain = 0.1;
  lesson.searches = 10;
  return lesson;
}

TEST_CASE("The most useful lessons come first, one of each change") {
  Lesson other_bound = Known("vector bytes", "4", "16", 0.6);
  other_bound.bottleneck = "issue";
  Lesson weak = Known("launches", "1", "2", 2);
  weak.held = 10;
  Lesson same_change = Known("shared memory", "yes", "no", 0.3);
  Lesson other_device = Known("tensor cores", "no", "yes", 0.5);
  other_device.device_model = "Other";
  const std::vector<Lesson> lessons = {other_bound, weak, Known("shared memory", "no", "yes", -0.5),
                                       same_change, other_device};
  const auto aspects = [&](std::string_view bound, size_t count) {
    std::string text;
    for (const Lesson& lesson : MostUseful(lessons, "cpu", kDevice, bound, count)) {
      text += lesson.aspect + ";";
    }
    return text;
  };
  CHECK(aspects("issue", 8) == "vector bytes;shared memory;tensor cores;");
  CHECK(aspects("", 8) == "vector bytes;shared memory;tensor cores;");
  CHECK(aspects("dram", 8) == "shared memory;tensor cores;vector bytes;");
  CHECK(aspects("issue", 2) == "vector bytes;shared memory;");
  CHECK(MostUseful(lessons, "cuda", kDevice, "", 8).empty());
}

}  // namespace
}  // namespace kernelcast::orchestrator
