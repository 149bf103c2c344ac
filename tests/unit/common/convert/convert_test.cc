#include "common/convert/convert.h"

#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <cctype>
#include <cmath>
#include <limits>
#include <random>

namespace kernelcast {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::util::MessageDifferencer;

// Fills messages with random content through reflection, so that a new field that the conversion
// omits fails the round trip.
class Filler {
 public:
  explicit Filler(uint64_t seed) : random_(seed) {}

  // Content of `string` fields.
  enum class Text { kUtf8, kBytes };

  void Fill(Message& message, Text text = Text::kUtf8) {
    if (message.GetDescriptor()->full_name() == "google.protobuf.Duration") {
      message.CopyFrom(DurationToProto(Signed()));
      return;
    }
    if (message.GetDescriptor()->full_name() == "google.protobuf.Timestamp") {
      message.CopyFrom(TimestampToProto(Signed()));
      return;
    }
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* const field = message.GetDescriptor()->field(i);
      if (field->real_containing_oneof() == nullptr) {
        FillField(message, field, text);
      }
    }
    for (int i = 0; i < message.GetDescriptor()->real_oneof_decl_count(); ++i) {
      const auto* const oneof = message.GetDescriptor()->oneof_decl(i);
      FillField(message, oneof->field(Below(oneof->field_count())), text);
    }
  }

 private:
  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }
  int64_t Signed() { return static_cast<int64_t>(random_()) >> Below(64); }
  uint64_t Unsigned() { return random_() >> Below(64); }
  double Real() { return std::ldexp(static_cast<double>(Signed()), Below(60) - 80); }

  std::string String(bool utf8) {
    std::string bytes(Below(12), '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(Below(utf8 ? 128 : 256));
    }
    return utf8 && Below(4) == 0 ? bytes + "\xE2\x82\xAC" : bytes;
  }

  void FillField(Message& message, const FieldDescriptor* field, Text text) {
    if (!field->is_repeated()) {
      FillOne(message, field, text);
      return;
    }
    const int count = Below(4);
    for (int i = 0; i < count; ++i) {
      FillOne(message, field, text);
    }
  }

  void FillOne(Message& message, const FieldDescriptor* field, Text text) {
    const Reflection& r = *message.GetReflection();
    const bool many = field->is_repeated();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: {
        const auto value = static_cast<int32_t>(Signed());
        many ? r.AddInt32(&message, field, value) : r.SetInt32(&message, field, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_INT64:
        many ? r.AddInt64(&message, field, Signed()) : r.SetInt64(&message, field, Signed());
        break;
      case FieldDescriptor::CPPTYPE_UINT32: {
        const auto value = static_cast<uint32_t>(Unsigned());
        many ? r.AddUInt32(&message, field, value) : r.SetUInt32(&message, field, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_UINT64:
        many ? r.AddUInt64(&message, field, Unsigned()) : r.SetUInt64(&message, field, Unsigned());
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        many ? r.AddDouble(&message, field, Real()) : r.SetDouble(&message, field, Real());
        break;
      case FieldDescriptor::CPPTYPE_BOOL: r.SetBool(&message, field, Below(2) == 1); break;
      case FieldDescriptor::CPPTYPE_ENUM: {
        // Zero means "unspecified" everywhere.
        const auto& type = *field->enum_type();
        const auto* const value = type.value(1 + Below(type.value_count() - 1));
        many ? r.AddEnum(&message, field, value) : r.SetEnum(&message, field, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string value =
            String(field->type() == FieldDescriptor::TYPE_STRING && text == Text::kUtf8);
        many ? r.AddString(&message, field, value) : r.SetString(&message, field, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Fill(many ? *r.AddMessage(&message, field) : *r.MutableMessage(&message, field), text);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT: FAIL("no field is a float");
    }
  }

  std::mt19937_64 random_;
};

template <class T>
T Value(absl::StatusOr<T> value) {
  INFO(value.status().ToString());
  REQUIRE(value.ok());
  return *std::move(value);
}

template <class T>
T Value(T value) {
  return value;
}

template <class Proto>
void CheckRoundTrips() {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Proto proto;
    Filler(seed).Fill(proto);
    const Proto back = ToProto(Value(FromProto(proto)));
    INFO(proto.DebugString() << "\nbecame\n" << back.DebugString());
    REQUIRE(MessageDifferencer::Equals(proto, back));
  }
}

bool StringsAreUtf8(const Message& message) {
  // Parsing refuses a `string` that is not UTF-8 at any depth.
  std::unique_ptr<Message> copy(message.New());
  return copy->ParseFromString(message.SerializeAsString());
}

template <class Proto>
void CheckMakesUtf8() {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Proto proto;
    Filler(seed).Fill(proto, Filler::Text::kBytes);
    REQUIRE(StringsAreUtf8(ToProto(Value(FromProto(proto)))));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("A message round-trips through the domain type", "[convert]", v1::Candidate,
                   v1::CompileFacts, v1::CompileError, v1::Artifact, v1::Forecast, v1::Abstention,
                   v1::Measurement, v1::Decision, v1::Ratio, v1::DeviceInfo) {
  CheckRoundTrips<TestType>();
}

TEMPLATE_TEST_CASE("Text that is not UTF-8 never reaches a string field", "[convert]",
                   v1::Candidate, v1::CompileFacts, v1::CompileError, v1::Artifact, v1::Forecast,
                   v1::Abstention, v1::Measurement, v1::Decision, v1::DeviceInfo) {
  CheckMakesUtf8<TestType>();
}

TEST_CASE("Sources, logs and content are passed byte for byte", "[convert]") {
  const std::string bytes("\xFF\0\xC3", 3);
  Candidate candidate;
  candidate.source = bytes;
  CHECK(Value(FromProto(ToProto(candidate))).source == bytes);
  CHECK(Value(FromProto(ToProto(CompileError{CompileStage::kLinker, bytes}))).log == bytes);
  Artifact artifact;
  artifact.content = bytes;
  CHECK(Value(FromProto(ToProto(artifact))).content == bytes);
}

TEST_CASE("A byte order mark at the start of a source or a problem's file is no part of it",
          "[convert]") {
  const std::string mark = "\xEF\xBB\xBF";
  v1::Candidate candidate;
  candidate.set_source(mark + "int x;");
  CHECK(Value(FromProto(candidate)).source == "int x;");
  const auto files =
      ReadProblemFolder(std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems/row_softmax");
  const Problem problem = Value(ParseProblem(Value(files)));
  v1::Problem proto = ProblemFilesToProto(problem);
  for (v1::SourceFile& file : *proto.mutable_files()) file.set_content(mark + file.content());
  proto.clear_problem_id();
  CHECK(Value(ProblemFromProto(proto)).problem_id == problem.problem_id);
}

TEST_CASE("Domain fields map to proto fields of the same name", "[convert]") {
  Forecast forecast;
  forecast.expected_log2_speedup = 1;
  forecast.stddev_log2_speedup = 2;
  forecast.latency_ns = 3'000'000'004;
  forecast.device_model = "NVIDIA H200";
  const v1::Forecast proto = ToProto(forecast);
  CHECK(proto.expected_log2_speedup() == 1);
  CHECK(proto.stddev_log2_speedup() == 2);
  CHECK(proto.latency().seconds() == 3);
  CHECK(proto.latency().nanos() == 4);
  CHECK(proto.device_model() == "NVIDIA H200");
  CHECK(FromProto(proto).device_model == "NVIDIA H200");

  const v1::Ratio ratio = ToProto(Ratio{1, 2, 3, 4, 5, 6});
  CHECK(ratio.value() == 1);
  CHECK(ratio.low() == 2);
  CHECK(ratio.high() == 3);
  CHECK(ratio.confidence() == 4);
  CHECK(ratio.within_deviation() == 5);
  CHECK(ratio.between_deviation() == 6);

  Measurement measurement;
  WrongResult wrong;
  wrong.got = 1;
  wrong.expected = 2;
  wrong.mismatches = 3;
  wrong.elements = 4;
  wrong.cause = WrongResult::Cause::kNotWritten;
  measurement.outcome = wrong;
  const v1::Measurement message = ToProto(measurement);
  CHECK(message.wrong_result().got() == 1);
  CHECK(message.wrong_result().expected() == 2);
  CHECK(message.wrong_result().mismatches() == 3);
  CHECK(message.wrong_result().elements() == 4);
  CHECK(message.wrong_result().cause() == v1::WrongResult::CAUSE_NOT_WRITTEN);
  wrong.cause = WrongResult::Cause::kForm;
  wrong.detail = "output 0 is a dict instead of a tensor";
  measurement.outcome = wrong;
  CHECK(ToProto(measurement).wrong_result().cause() == v1::WrongResult::CAUSE_FORM);
  CHECK(ToProto(measurement).wrong_result().detail() == wrong.detail);
  CHECK(message.level() == v1::MEASURE_LEVEL_SCREEN);
}

TEST_CASE("A message without a domain equivalent is INVALID_ARGUMENT with the field path",
          "[convert]") {
  const auto message = [](const absl::Status& status) {
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  v1::Measurement measurement;
  CHECK(message(FromProto(measurement).status()) == "outcome: not set");
  measurement.mutable_ok();
  CHECK(message(FromProto(measurement).status()) == "ok.comparison: not set");
  measurement.mutable_crash()->set_cause(static_cast<v1::Crash::Cause>(99));
  CHECK(message(FromProto(measurement).status()) == "crash.cause: 99 is not a known value");
  measurement.mutable_wrong_result();
  CHECK(message(FromProto(measurement).status()) == "wrong_result.cause: not set");
  measurement.mutable_exploit();
  CHECK(message(FromProto(measurement).status()) == "exploit.kind: not set");

  CHECK(message(FromProto(v1::Decision()).status()) == "kind: not set");
  CHECK(message(FromProto(v1::DECISION_REASON_UNSPECIFIED).status()) == "reason: not set");
  CHECK(message(FromProto(v1::CompileError()).status()) == "stage: not set");
  CHECK(message(FromProto(v1::Artifact()).status()) == "format: not set");
  CHECK(message(FromProto(v1::Abstention()).status()) == "cause: not set");
  v1::Candidate candidate;
  CHECK(Value(FromProto(candidate)).kind == CandidateKind::kUnspecified);
  candidate.set_kind(static_cast<v1::CandidateKind>(77));
  CHECK(message(FromProto(candidate).status()) == "kind: 77 is not a known value");
}

TEST_CASE("Every kind of candidates maps to its namesake", "[convert]") {
  const auto& type = *v1::CandidateKind_descriptor();
  for (int i = 0; i < type.value_count(); ++i) {
    v1::Candidate candidate;
    candidate.set_kind(static_cast<v1::CandidateKind>(type.value(i)->number()));
    const CandidateKind kind = Value(FromProto(candidate)).kind;
    CHECK(ToProto(kind) == candidate.kind());
    std::string name = "CANDIDATE_KIND_";
    for (const char c : KindName(kind)) name += static_cast<char>(std::toupper(c));
    CHECK(name == type.value(i)->name());
  }
}

TEST_CASE("Every decision reason maps to its namesake", "[convert]") {
  const auto& type = *v1::DecisionReason_descriptor();
  for (int i = 1; i < type.value_count(); ++i) {
    const auto reason = static_cast<v1::DecisionReason>(type.value(i)->number());
    CHECK(ToProto(Value(FromProto(reason))) == reason);
    std::string name = "DECISION_REASON_";
    for (const char c : Name(Value(FromProto(reason)))) {
      name += static_cast<char>(std::toupper(c));
    }
    CHECK(name == type.value(i)->name());
  }
}

TEST_CASE("An unspecified level means screening", "[convert]") {
  CHECK(FromProto(v1::MEASURE_LEVEL_UNSPECIFIED) == MeasureLevel::kScreen);
  CHECK(FromProto(v1::MEASURE_LEVEL_FINAL) == MeasureLevel::kFinal);
  CHECK(ToProto(MeasureLevel::kFinal) == v1::MEASURE_LEVEL_FINAL);
}

TEST_CASE("Times convert to the nanosecond and saturate beyond 64 bits", "[convert]") {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t ns : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{999'999'999},
                           int64_t{-1'000'000'000}, int64_t{-1'000'000'001}, kMax, kMin + 1}) {
    CHECK(ToNanoseconds(DurationToProto(ns)) == ns);
    CHECK(ToNanoseconds(TimestampToProto(ns)) == ns);
    CHECK(TimestampToProto(ns).nanos() >= 0);
  }
  google::protobuf::Duration far;
  far.set_seconds(kMax);
  CHECK(ToNanoseconds(far) == kMax);
  far.set_seconds(kMin);
  CHECK(ToNanoseconds(far) == kMin);
}

TEST_CASE("A problem is sent as its files and described as parsed", "[convert]") {
  const auto files =
      ReadProblemFolder(std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems/row_softmax");
  const Problem problem = Value(ParseProblem(Value(files)));

  v1::Problem proto = ProblemFilesToProto(problem);
  CHECK(proto.problem_id() == problem.problem_id);
  CHECK(Value(ProblemFromProto(proto)).problem_id == problem.problem_id);
  proto.clear_problem_id();
  CHECK(Value(ProblemFromProto(proto)).problem_id == problem.problem_id);
  proto.set_problem_id("p_other");
  const absl::Status mismatch = ProblemFromProto(proto).status();
  CHECK(mismatch.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(mismatch.message()).rfind("problem_id: 'p_other'", 0) == 0);

  const v1::ProblemDefinition definition = ToProto(problem);
  CHECK(definition.problem_id() == problem.problem_id);
  CHECK(definition.name() == "row_softmax");
  REQUIRE(definition.axes_size() == static_cast<int>(problem.axes.size()));
  CHECK(definition.axes(0).name() == problem.axes[0].name);
  CHECK(definition.axes(0).held_out_high() == problem.axes[0].held_out_high);
  REQUIRE(definition.inputs_size() == static_cast<int>(problem.inputs.size()));
  CHECK(definition.inputs(0).dtype() == v1::DATA_TYPE_FLOAT32);
  CHECK_FALSE(definition.inputs(0).has_tolerance());
  CHECK(definition.inputs(0).shape_size() == static_cast<int>(problem.inputs[0].shape.size()));
  REQUIRE(definition.outputs_size() == static_cast<int>(problem.outputs.size()));
  CHECK(definition.outputs(0).tolerance().rtol() == problem.outputs[0].tolerance.rtol);
  CHECK(definition.bench_shapes_size() == static_cast<int>(problem.bench_shapes.size()));
  CHECK(definition.check_shapes_size() == static_cast<int>(problem.check_shapes.size()));
  REQUIRE(definition.targets_size() == 2);
  CHECK(definition.targets(0) == "cpu");
  CHECK(definition.targets(1) == "cuda");
  CHECK(definition.space_points().at("cuda") > 0);
  CHECK(definition.space_points().at("cpu") > 0);
}

}  // namespace kernelcast
