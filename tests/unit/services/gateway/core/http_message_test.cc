#include "services/gateway/core/http_message.h"

#include <catch2/catch.hpp>

namespace kernelcast::gateway {
namespace {

using Catch::Matchers::Contains;

HttpRequest Parsed(std::string_view target) {
  HttpRequest request;
  REQUIRE(ParseTarget(target, request).ok());
  return request;
}

TEST_CASE("A target is split into decoded segments and parameters", "[gateway][http]") {
  const HttpRequest request = Parsed("/gpus//row%2Fsoft%20max?limit=5&name=a%26b+c&empty");
  CHECK(request.path == std::vector<std::string>{"gpus", "row/soft max"});
  CHECK(request.query ==
        std::map<std::string, std::string>{{"limit", "5"}, {"name", "a&b c"}, {"empty", ""}});
  CHECK(Parsed("/").path.empty());
}

TEST_CASE("A target with a bad escape or too many parts is refused", "[gateway][http]") {
  HttpRequest request;
  CHECK_FALSE(ParseTarget("/a%2", request).ok());
  CHECK_FALSE(ParseTarget("/a?b=%zz", request).ok());
  std::string many;
  for (int i = 0; i < 65; ++i) many += "/a";
  CHECK_FALSE(ParseTarget(many, request).ok());
}

TEST_CASE("The password of basic authentication is a bearer token", "[gateway][http]") {
  CHECK(BearerFromHeader("Basic dXNlcjprY190b2tlbg==") == "Bearer kc_token");
  CHECK(BearerFromHeader("Bearer kc_token") == "Bearer kc_token");
  CHECK(BearerFromHeader("Basic !!") == "Basic !!");
  CHECK(BearerFromHeader("Basic bm9jb2xvbg==") == "Basic bm9jb2xvbg==");
}

constexpr char kForm[] =
    "--xyz\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nfirst\r\n"
    "--xyz\r\nContent-Type: text/plain\r\n"
    "content-disposition: form-data; name=\"file\"; filename=\"a b.cu\"\r\n\r\nline\r\n\r\n--x\r\n"
    "--xyz--\r\n";

TEST_CASE("An uploaded file is found in a form", "[gateway][http]") {
  const auto file = FindUpload("multipart/form-data; boundary=xyz", kForm, "file");
  REQUIRE(file.ok());
  CHECK(file->file_name == "a b.cu");
  CHECK(file->content == "line\r\n\r\n--x");
  CHECK(FindUpload("multipart/form-data; boundary=\"xyz\"", kForm, "other")->content == "first");
}

TEST_CASE("A form without the file, or cut short, is refused", "[gateway][http]") {
  CHECK_FALSE(FindUpload("application/json", kForm, "file").ok());
  CHECK_FALSE(FindUpload("multipart/form-data", kForm, "file").ok());
  CHECK_FALSE(FindUpload("multipart/form-data; boundary=xyz", kForm, "missing").ok());
  const std::string form = kForm;
  for (size_t length = 0; length < form.find("\r\n--xyz--"); ++length) {
    CHECK_FALSE(
        FindUpload("multipart/form-data; boundary=xyz", form.substr(0, length), "file").ok());
  }
}

TEST_CASE("Fields of JSON have the type that is expected", "[gateway][http]") {
  const nlohmann::json object = {
      {"text", "a"}, {"none", nullptr}, {"number", 1.5}, {"list", {"b"}}};
  CHECK(*JsonText(object, "text") == "a");
  CHECK(*JsonText(object, "none", "c") == "c");
  CHECK_THAT(std::string(JsonText(object, "absent").status().message()), Contains("is missing"));
  CHECK_THAT(std::string(JsonText(object, "number").status().message()), Contains("a string"));
  CHECK(*JsonNumber(object, "number", 0) == 1.5);
  CHECK(*JsonNumber(object, "absent", 7) == 7);
  CHECK_FALSE(JsonNumber(object, "text", 0).ok());
  CHECK(*JsonTexts(object, "list") == std::vector<std::string>{"b"});
  CHECK(JsonTexts(object, "absent")->empty());
  CHECK_FALSE(JsonTexts(object, "text").ok());
}

TEST_CASE("A body that is no JSON object is refused", "[gateway][http]") {
  for (const char* body : {"", "[]", "{", "1", "\"a\""}) {
    HttpRequest request;
    request.body = body;
    CHECK_FALSE(ParseJsonBody(request).ok());
  }
  HttpRequest deep;
  deep.body = R"({"a":)" + std::string(1000, '[') + std::string(1000, ']') + "}";
  CHECK_FALSE(ParseJsonBody(deep).ok());
}

TEST_CASE("Times are written with milliseconds", "[gateway][http]") {
  CHECK(FormatTime(1'000'000'000'123'000'000) == "2001-09-09T01:46:40.123Z");
}

TEST_CASE("Too much work is status 429 and an absent orchestrator 503", "[gateway][http]") {
  CHECK(HttpStatus(absl::ResourceExhaustedError("")) == 429);
  CHECK(HttpStatus(absl::UnavailableError("")) == 503);
  CHECK(HttpStatus(absl::UnauthenticatedError("")) == 401);
  CHECK(HttpStatus(absl::DataLossError("")) == 500);
}

}  // namespace
}  // namespace kernelcast::gateway
