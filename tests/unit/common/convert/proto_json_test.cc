#include "common/convert/proto_json.h"

#include <catch2/catch.hpp>
#include <string>

#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast {
namespace {

TEST_CASE("A message survives its JSON, which has the names of the proto") {
  v1::ExportRecord record;
  record.mutable_evaluation()->set_candidate_id("k-1");
  const std::string json = ProtoToJson(record);
  CHECK(json == R"({"evaluation":{"candidate_id":"k-1"}})");
  v1::ExportRecord read;
  REQUIRE(ProtoFromJson(json, &read).ok());
  CHECK(read.SerializeAsString() == record.SerializeAsString());
}

TEST_CASE("Fields of later versions are ignored, and other text is refused") {
  v1::ExportRecord record;
  CHECK(ProtoFromJson(R"({"from_a_later_version":[1]})", &record).ok());
  CHECK(absl::IsInvalidArgument(ProtoFromJson("{", &record)));
  CHECK(absl::IsInvalidArgument(ProtoFromJson(R"({"evaluation":7})", &record)));
}

TEST_CASE("Sources and other texts are text, and contents are base64") {
  v1::ExportRecord record;
  record.mutable_candidate()->set_source("int x = 1;  // \xC3\xA9\n");
  record.mutable_evaluation()->set_text_feedback("\"fast\"");
  CHECK(ProtoToJson(record) ==
        "{\"evaluation\":{\"text_feedback\":\"\\\"fast\\\"\"},"
        "\"candidate\":{\"source\":\"int x = 1;  // \xC3\xA9\\n\"}}");
  v1::ExportRecord read;
  REQUIRE(ProtoFromJson(ProtoToJson(record), &read).ok());
  CHECK(read.SerializeAsString() == record.SerializeAsString());
  v1::Artifact artifact;
  artifact.set_content(std::string("\0\xff", 2));
  CHECK(ProtoToJson(artifact) == R"({"content":"AP8="})");
  REQUIRE(ProtoFromJson(R"({"content":"AP8="})", &artifact).ok());
  CHECK(artifact.content() == std::string("\0\xff", 2));
}

TEST_CASE("Text that is not UTF-8 is replaced") {
  v1::ExportRecord record;
  record.mutable_candidate()->set_source(
      "a\xff"
      "b");
  v1::ExportRecord read;
  REQUIRE(ProtoFromJson(ProtoToJson(record), &read).ok());
  CHECK(read.candidate().source() ==
        "a\xEF\xBF\xBD"
        "b");
}

TEST_CASE("Numbers of a record are finite") {
  const std::string json = R"({"facts":{"values":["NaN"]}})";
  v1::ExportRecord record;
  CHECK(ProtoFromJson(json, &record).ok());
  CHECK(absl::IsInvalidArgument(RecordFromJson(json, &record)));
  CHECK(RecordFromJson(R"({"facts":{"values":[1.5]}})", &record).ok());
}

}  // namespace
}  // namespace kernelcast
