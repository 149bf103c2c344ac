#include "services/orchestrator/clients/worker_replies.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"

namespace kernelcast::orchestrator::worker_replies_test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

v1::MeasureRequest Asked() {
  v1::MeasureRequest request;
  request.set_request_id("r_1");
  request.mutable_candidate()->set_candidate_id("k_1");
  request.mutable_candidate()->set_problem_id("p_1");
  request.mutable_candidate()->set_target("cuda");
  request.set_device_model("NVIDIA H200");
  request.set_level(v1::MEASURE_LEVEL_FINAL);
  return request;
}

// A measurement with every field of its outcome set.
v1::MeasureReply Honest(MeasureOutcome outcome) {
  Measurement measurement;
  measurement.candidate_id = "k_1";
  measurement.problem_id = "p_1";
  measurement.target = "cuda";
  measurement.level = MeasureLevel::kFinal;
  measurement.worker_id = "w";
  measurement.device = {"NVIDIA H200", "GPU-1", "580", "13.0", 132, 1ULL << 37};
  measurement.measured_at_ns = 1'700'000'000'000'000'000;
  measurement.device_time_ns = 2'000'000'000;
  measurement.preparation_time_ns = 1'000'000'000;
  measurement.toolchain = "nvcc";
  measurement.architecture = "sm_90";
  measurement.protocol_version = "measure/1";
  measurement.outcome = std::move(outcome);
  v1::MeasureReply reply;
  reply.set_request_id("r_1");
  *reply.mutable_measurement() = ToProto(measurement);
  return reply;
}

MeasuredOk FullOk() {
  const Ratio ratio = {1.5, 1.4, 1.6, 0.95, 0.01, 0.02};
  const TimeStatistics times = {1000, 900, 950, 1050, 1500, 64};
  ShapeTiming shape;
  shape.shape = {{"rows", 128}};
  shape.candidate = shape.reference = times;
  shape.speedup = ratio;
  shape.blocks = 64;
  shape.discarded_blocks = 2;
  shape.stop_reason = "precise";
  shape.bytes = shape.flops = 1e6;
  shape.implausible_below_ns = 10;
  shape.call_overhead_ns = 20;
  shape.profile = ShapeProfile{
      {{"kernel", 1, 900, 32, 0, 0}}, 1000, 900, {{"inst", 5}}, {{"wait", 0.5}}, {"dram"}};
  shape.roofline = Roofline{800, Roofline::Bound::kMemory, "dram", 1.2, 0.8};
  MeasuredOk ok;
  ok.speedup = ratio;
  ok.comparison = Comparison::kFaster;
  ok.shapes = {shape};
  ok.environment = {1.9e9, 1.8e9, {"power"}, 60, 500, "none"};
  ok.runners = 3;
  ok.correctness_cases = 12;
  ok.runner_speedups = {1.5, 1.49, 1.51};
  return ok;
}

std::vector<MeasureOutcome> Outcomes() {
  WrongResult wrong;
  wrong.output = "y";
  wrong.mismatches = 3;
  wrong.elements = 10;
  wrong.got = 1;
  wrong.expected = 2;
  wrong.normwise_error = 0.5;
  return {FullOk(),
          wrong,
          Crash{.signal = 11, .output_tail = "x", .stage = "check"},
          Timeout{5'000'000'000, "check"},
          Exploit{.evidence = "x"},
          EnvironmentUnstable{"noise", 3, 10, {1.5, 1.4, 1.6, 0.95, 0.01, 0.02}}};
}

// Calls `visit` for every set field of the message and its submessages, with its path.
void ForEachField(
    Message& message, const std::string& path,
    const std::function<void(Message&, const FieldDescriptor&, const std::string&)>& visit) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = absl::StrCat(path, path.empty() ? "" : ".", field->name());
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      visit(message, *field, name);
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        ForEachField(*reflection.MutableRepeatedMessage(&message, field, i), name, visit);
      }
    } else {
      ForEachField(*reflection.MutableMessage(&message, field), name, visit);
    }
  }
}

// Whether the reply is accepted with the field at the path changed.
bool IsTaken(const v1::MeasureReply& honest, const std::string& path,
             const std::function<void(Message&, const FieldDescriptor&)>& change) {
  v1::MeasureReply reply = honest;
  bool changed = false;
  ForEachField(reply, "",
               [&](Message& message, const FieldDescriptor& field, const std::string& name) {
                 if (name != path || changed) return;
                 change(message, field);
                 changed = true;
               });
  REQUIRE(changed);
  const auto read = ReadMeasureReply(Asked(), reply);
  if (!read.ok()) {
    CHECK(read.status().code() == absl::StatusCode::kInternal);
    CHECK_THAT(std::string(read.status().message()), Catch::Contains("impossible"));
  }
  return read.ok();
}

void SetDouble(Message& message, const FieldDescriptor& field, double value) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    reflection.SetRepeatedDouble(&message, &field, 0, value);
  } else {
    reflection.SetDouble(&message, &field, value);
  }
}

// Output values may be any number; counters and temperatures may be below 0.
bool MayBeAnyNumber(const std::string& path) {
  return path.ends_with("wrong_result.got") || path.ends_with("wrong_result.expected") ||
         path.ends_with("wrong_result.normwise_error");
}
bool MayBeNegative(const std::string& path) {
  return path.ends_with("temperature_celsius") || path.ends_with("counters.value");
}

TEST_CASE("Every outcome of an honest worker is accepted") {
  for (const MeasureOutcome& outcome : Outcomes()) {
    INFO(OutcomeName(outcome));
    const auto read = ReadMeasureReply(Asked(), Honest(outcome));
    INFO(read.status().ToString());
    REQUIRE(read.ok());
    CHECK(std::get<Measurement>(*read).outcome.index() == outcome.index());
  }
}

TEST_CASE("A measurement with an impossible number is refused") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::set<std::string> seen;
  for (const MeasureOutcome& outcome : Outcomes()) {
    v1::MeasureReply honest = Honest(outcome);
    std::set<std::string> paths;
    ForEachField(honest, "", [&](Message&, const FieldDescriptor& field, const std::string& path) {
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) paths.insert(path);
    });
    for (const std::string& path : paths) {
      for (const double value : {std::nan(""), kInfinity, -kInfinity, -1.0, -1e-300}) {
        INFO(path << " = " << value);
        const bool taken = IsTaken(honest, path, [&](Message& message, const auto& field) {
          SetDouble(message, field, value);
        });
        if (MayBeAnyNumber(path)) continue;
        CHECK(taken == (MayBeNegative(path) && std::isfinite(value)));
      }
    }
    seen.merge(paths);
  }
  CHECK(seen.size() >= 40);
}

TEST_CASE("The length of every text in a measurement is limited") {
  const v1::MeasureReply honest = Honest(FullOk());
  v1::MeasureReply walked = honest;
  std::set<std::string> paths;
  ForEachField(walked, "", [&](Message&, const FieldDescriptor& field, const std::string& path) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) paths.insert(path);
  });
  CHECK(paths.size() >= 15);
  for (const std::string& path : paths) {
    // Axes are few and limited by the message size.
    if (path.ends_with("shape.values.key")) continue;
    INFO(path);
    CHECK_FALSE(IsTaken(honest, path, [](Message& message, const FieldDescriptor& field) {
      const std::string text(2 << 20, 'x');
      if (field.is_repeated()) {
        message.GetReflection()->SetRepeatedString(&message, &field, 0, text);
      } else {
        message.GetReflection()->SetString(&message, &field, text);
      }
    }));
  }
}

TEST_CASE("A measurement of something other than the request is refused") {
  const v1::MeasureReply honest = Honest(FullOk());
  const std::function<void(v1::Measurement&)> lies[] = {
      [](v1::Measurement& m) { m.set_candidate_id("k_2"); },
      [](v1::Measurement& m) { m.clear_candidate_id(); },
      [](v1::Measurement& m) { m.set_problem_id("p_2"); },
      [](v1::Measurement& m) { m.set_target("cpu"); },
      [](v1::Measurement& m) { m.mutable_device()->set_model("NVIDIA B200"); },
      [](v1::Measurement& m) { m.set_level(v1::MEASURE_LEVEL_SCREEN); },
      [](v1::Measurement& m) { m.clear_level(); },
      [](v1::Measurement& m) { m.clear_outcome(); },
      [](v1::Measurement& m) { m.mutable_device_time()->set_seconds(-1); },
      [](v1::Measurement& m) { m.mutable_device_time()->set_seconds(115 * 86400); },
      [](v1::Measurement& m) { m.mutable_preparation_time()->set_seconds(3); },
      [](v1::Measurement& m) { m.mutable_preparation_time()->set_seconds(-3); },
      [](v1::Measurement& m) { m.mutable_measured_at()->set_seconds(-1); },
      [](v1::Measurement& m) { m.mutable_ok()->mutable_speedup()->set_value(0); },
      [](v1::Measurement& m) { m.mutable_ok()->mutable_speedup()->set_value(2); },
      [](v1::Measurement& m) { m.mutable_ok()->mutable_speedup()->set_value(1); },
      [](v1::Measurement& m) { m.mutable_ok()->mutable_speedup()->set_confidence(1.5); },
      [](v1::Measurement& m) {
        m.mutable_ok()->mutable_shapes(0)->mutable_candidate()->set_median_ns(0);
      },
      [](v1::Measurement& m) { m.mutable_crash()->set_signal(-11); },
      [](v1::Measurement& m) { m.mutable_wrong_result()->set_mismatches(1); },
      [](v1::Measurement& m) { m.mutable_timeout()->mutable_limit()->set_seconds(-1); },
  };
  for (size_t i = 0; i < std::size(lies); ++i) {
    INFO(i);
    v1::MeasureReply reply = honest;
    lies[i](*reply.mutable_measurement());
    CHECK(ReadMeasureReply(Asked(), reply).status().code() == absl::StatusCode::kInternal);
  }
  CHECK(ReadMeasureReply(Asked(), {}).status().code() == absl::StatusCode::kInternal);
}

TEST_CASE("A reply to another request is refused, whatever it holds") {
  v1::MeasureReply measured = Honest(FullOk());
  REQUIRE(ReadMeasureReply(Asked(), measured).ok());
  v1::MeasureReply refused;
  refused.set_request_id("r_1");
  refused.mutable_compile_error()->set_stage(v1::CompileError::STAGE_COMPILER);
  REQUIRE(ReadMeasureReply(Asked(), refused).ok());
  v1::CompileReply compiled;
  compiled.set_request_id("r_1");
  compiled.mutable_compile_error()->set_stage(v1::CompileError::STAGE_COMPILER);
  REQUIRE(ReadCompileReply("r_1", compiled).ok());
  for (const char* id : {"r_2", "", "r_11"}) {
    INFO(id);
    measured.set_request_id(id);
    refused.set_request_id(id);
    compiled.set_request_id(id);
    CHECK(ReadMeasureReply(Asked(), measured).status().code() == absl::StatusCode::kInternal);
    CHECK(ReadMeasureReply(Asked(), refused).status().code() == absl::StatusCode::kInternal);
    CHECK(ReadCompileReply("r_1", compiled).status().code() == absl::StatusCode::kInternal);
  }
}

TEST_CASE("Facts that are not finite and implausible credits are refused") {
  v1::CompileReply reply;
  reply.set_request_id("r_1");
  auto* const artifact = reply.mutable_success()->mutable_artifact();
  *artifact = ToProto(Artifact{"a", ArtifactFormat::kCubin, "sm_90", "nvcc", ""});
  auto* const facts = reply.mutable_success()->mutable_facts();
  facts->set_schema("ptx/1");
  facts->add_values(1);
  CHECK(ReadCompileReply("r_1", reply).ok());
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    facts->set_values(0, value);
    CHECK(ReadCompileReply("r_1", reply).status().code() == absl::StatusCode::kInternal);
  }
  v1::WorkerDescription description;
  description.set_measure_credits(8);
  CHECK(ImpossibleInDescription(description).empty());
  description.set_measure_credits(4'000'000'000);
  CHECK_FALSE(ImpossibleInDescription(description).empty());
}

}  // namespace
}  // namespace kernelcast::orchestrator::worker_replies_test
