#include "services/worker/cuda/language/tilelang/tilelang_plan.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "services/worker/cuda/compiler/wire.h"
#include "tests/support/kernel_examples.h"

namespace kernelcast::worker {
namespace {

using compiler_wire::Decoder;
using compiler_wire::Encoder;

ProblemTarget& Cuda(Problem& problem) { return problem.targets.at("cuda"); }

TEST_CASE("A TileLang kernel is made for each timed shape, and with symbols for the others",
          "[unit]") {
  Problem problem = testing::ReadExampleProblem("row_softmax");
  Cuda(problem).bench_shapes = {
      {{"rows", 8}, {"cols", 64}}, {{"rows", 9}, {"cols", 64}}, {{"rows", 8}, {"cols", 64}}};
  CHECK(PlanTilelang(problem, Cuda(problem)) ==
        std::vector<TilelangVariant>{{{{"rows", 8}, {"cols", 64}}, "cols==64 && rows==8"},
                                     {{{"rows", 9}, {"cols", 64}}, "cols==64 && rows==9"},
                                     {{}, "(cols==64 && rows==8)==0 && (cols==64 && rows==9)==0"}});
}

TEST_CASE("Few shapes have a TileLang kernel of their own", "[unit]") {
  Problem problem = testing::ReadExampleProblem("row_softmax");
  Cuda(problem).bench_shapes.clear();
  for (int64_t rows = 1; rows <= 20; ++rows) {
    Cuda(problem).bench_shapes.push_back({{"rows", rows}, {"cols", 64}});
  }
  const auto variants = PlanTilelang(problem, Cuda(problem));
  REQUIRE(variants.size() == kMaxTilelangShapes + 1);
  CHECK(variants.back().fixed.empty());
  CHECK(variants.back().when.size() <= 1000);
}

TEST_CASE("An axis with one value is a number in every TileLang kernel", "[unit]") {
  Problem problem = testing::ReadExampleProblem("row_softmax");
  const auto set = [&](const std::string& name, int64_t value) {
    for (Axis& axis : problem.axes) {
      if (axis.name == name) axis.held_out_low = axis.held_out_high = value;
    }
    for (auto* const shapes : {&Cuda(problem).check_shapes, &Cuda(problem).bench_shapes}) {
      for (AxisValues& shape : *shapes) shape[name] = value;
    }
  };
  set("cols", 64);
  CHECK(PlanTilelang(problem, Cuda(problem)) ==
        std::vector<TilelangVariant>{{{{"rows", 8192}, {"cols", 64}}, "rows==8192"},
                                     {{{"cols", 64}}, "(rows==8192)==0"}});
  set("rows", 8192);
  CHECK(PlanTilelang(problem, Cuda(problem)) ==
        std::vector<TilelangVariant>{{{{"rows", 8192}, {"cols", 64}}, ""}});
}

TEST_CASE("A TileLang request has tensors, axes and numbers of elements", "[unit]") {
  Problem problem = testing::ReadExampleProblem("row_softmax");
  const auto variants = PlanTilelang(problem, Cuda(problem));
  const std::string request = EncodeTilelangRequest(problem, Cuda(problem), variants, 90, "code");
  Decoder decoder(request);
  CHECK(decoder.Number() == 90);
  CHECK(decoder.Text() == "code");
  CHECK(decoder.Number() == 2);
  for (const char* name : {"x", "y"}) {
    CHECK(decoder.Text() == name);
    CHECK(decoder.Text() == "float32");
  }
  CHECK(decoder.Number() == 2);
  for (const bool is_timed : {true, false}) {
    CHECK(decoder.Number() == 2);
    for (const auto& [name, value] : {std::pair("rows", 8192), std::pair("cols", 4096)}) {
      CHECK(decoder.Text() == name);
      CHECK(decoder.Text() == "int32");
      CHECK(decoder.Number() == static_cast<uint64_t>(is_timed ? value : 0));
    }
    for (int tensor = 0; tensor < 2; ++tensor) {
      CHECK(decoder.Number() == static_cast<uint64_t>(is_timed ? 8192 * 4096 : 0));
    }
  }
  CHECK(decoder.done());
}

TEST_CASE("A TileLang answer has a launch for each variant", "[unit]") {
  const std::vector<TilelangVariant> variants = {{{{"n", 8}}, "n==8"}, {{}, "(n==8)==0"}};
  Encoder encoder;
  encoder.Text("source").Number(2);
  for (const char* kernel : {"first", "second"}) {
    encoder.Text(kernel);
    for (const char* extent : {"n", "1", "1", "128", "1", "1", "64"}) encoder.Text(extent);
    encoder.Number(2).Text("x").Text("n:int32");
  }
  const std::string fields = encoder.TakeFields();
  const auto lowered = DecodeTilelangReply(fields, variants);
  REQUIRE(lowered.ok());
  CHECK(lowered->source == "source");
  REQUIRE(lowered->launches.size() == 2);
  CHECK(lowered->launches[1].kernel == "second");
  CHECK(lowered->launches[1].when == "(n==8)==0");
  CHECK(lowered->launches[1].grid == std::vector<std::string>{"n", "1", "1"});
  CHECK(lowered->launches[1].block == std::vector<std::string>{"128", "1", "1"});
  CHECK(lowered->launches[1].shared_memory_bytes == "64");
  CHECK(lowered->launches[1].arguments == std::vector<std::string>{"x", "n:int32"});
  for (size_t size = 0; size < fields.size(); ++size) {
    CHECK(!DecodeTilelangReply(fields.substr(0, size), variants).ok());
  }
  CHECK(!DecodeTilelangReply(fields + "x", variants).ok());
  CHECK(!DecodeTilelangReply(fields, {variants[0]}).ok());
  CHECK(!DecodeTilelangReply(fields, {variants[0], variants[1], variants[1]}).ok());
}

}  // namespace
}  // namespace kernelcast::worker
