#include "services/gateway/http/front.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"
#include "common/rpc/token.h"
#include "common/tracing/tracer.h"
#include "services/gateway/dialects/dialects.h"
#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

RequestHead HeadFor(const std::string& target, const std::string& method = "GET") {
  RequestHead head;
  head.method = method;
  head.target = target;
  return head;
}

TEST_CASE("Requests go to the dialect that they name", "[gateway][front]") {
  testing::World world;
  MetricsRegistry metrics;
  Front front(world.context, MakeDialects(world.context), nullptr, &metrics);
  CHECK(front.Handle(HeadFor("/popcorn/gpus/relu"), "").body == json::array({"cpu"}));
  CHECK(front.Handle(HeadFor("/flashinfer/definitions/none"), "").status == 404);
  CHECK(front.Handle(HeadFor("/slime/none", "POST"), "not JSON").status == 400);
  const HttpReply other = front.Handle(HeadFor("/other"), "");
  CHECK(other.status == 404);
  CHECK_THAT(other.body["detail"].get<std::string>(), Contains("/kernelgym"));
  CHECK(front.Handle(HeadFor("/%zz"), "").status == 400);
  const std::string text = metrics.Text();
  CHECK_THAT(text,
             Contains("kernelcast_gateway_requests_total{code=\"2xx\",dialect=\"popcorn\"} 1"));
  CHECK_THAT(text,
             Contains("kernelcast_gateway_requests_total{code=\"4xx\",dialect=\"flashinfer\"} 1"));
  CHECK_THAT(text, Contains("kernelcast_gateway_requests_total{code=\"4xx\",dialect=\"none\"} 2"));
  CHECK_THAT(text, Contains("kernelcast_gateway_request_seconds_count{dialect=\"popcorn\"} 1"));
}

TEST_CASE("Requests note the evaluation that they are about", "[gateway][front]") {
  testing::World world;
  const std::pair<std::string, json> submissions[] = {
      {"/slime/small", {{"response", "int s;\n"}}},
      {"/flashinfer/evaluate",
       {{"solution",
         {{"name", "mine"},
          {"definition", "small"},
          {"spec", {{"language", "cpp"}, {"entry_point", "main::kernelcast_run"}}},
          {"sources", {{{"path", "main"}, {"content", "int f;\n"}}}}}}}},
      {"/gepa/small/evaluate", {{"candidate", "int g;\n"}}},
      {"/kernelgym/evaluate",
       {{"task_id", "t"},
        {"reference_code", testing::kTaskSource},
        {"kernel_code", "class ModelNew:\n    pass\n"}}}};
  const auto dialects = MakeDialects(world.context);
  for (const auto& [target, body] : submissions) {
    INFO(target);
    HttpRequest request = testing::Post(target, body);
    RequestSubject subject;
    request.subject = &subject;
    const auto dialect = std::find_if(dialects.begin(), dialects.end(), [&](const auto& one) {
      return one->name() == request.path[0];
    });
    request.path.erase(request.path.begin());
    CHECK_FALSE((*dialect)->Handle(request).body.is_null());
    REQUIRE_FALSE(world.evaluator.submissions.empty());
    CHECK(subject.request_id == world.evaluator.request_ids.back());
    CHECK(subject.candidate_id == CandidateId(world.evaluator.submissions.back()->candidate));
  }
}

TEST_CASE("Health tells whether submissions can be evaluated", "[gateway][front]") {
  testing::World world;
  MetricsRegistry metrics;
  Front front(world.context, MakeDialects(world.context), nullptr, &metrics);
  CHECK(front.Handle(HeadFor("/health"), "").status == 200);
  world.evaluator.is_healthy = false;
  CHECK(front.Handle(HeadFor("/health"), "").status == 503);
  world.evaluator.is_healthy = true;
  world.desk.Drain(absl::ZeroDuration());
  CHECK(front.Handle(HeadFor("/health"), "").body == json{{"status", "draining"}});
}

class FrontSink final : public SpanSink {
 public:
  explicit FrontSink(std::vector<SpanData>& spans) : spans_(spans) {}
  absl::Status Export(const std::vector<SpanData>& spans) override {
    spans_.insert(spans_.end(), spans.begin(), spans.end());
    return absl::OkStatus();
  }

 private:
  std::vector<SpanData>& spans_;
};

TEST_CASE("A request is a span in the trace of its client", "[gateway][front]") {
  std::vector<SpanData> spans;
  testing::World world;
  MetricsRegistry metrics;
  Front front(world.context, MakeDialects(world.context), nullptr, &metrics);
  RequestHead head = HeadFor("/slime/small", "POST");
  head.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  head.tracestate = "vendor=42";
  {
    TracerOptions options;
    options.ratio = 0;
    Tracer tracer(options, std::make_unique<FrontSink>(spans));
    SetTracer(&tracer);
    // The candidate is not measured yet.
    CHECK(front.Handle(head, R"({"response": "int s;\n"})").status == 503);
    CHECK(front.Handle(HeadFor("/health"), "").status == 200);
    // Without a trace of the client's, the ratio decides.
    CHECK(front.Handle(HeadFor("/popcorn/gpus/relu"), "").status == 200);
    head.traceparent = "nonsense";
    CHECK(front.Handle(head, "no JSON").status == 400);
    SetTracer(nullptr);
  }
  REQUIRE(spans.size() == 1);
  const SpanData& span = spans[0];
  CHECK(span.name == "POST /slime");
  CHECK(span.kind == SpanKind::kServer);
  CHECK(span.failed);
  CHECK(TraceIdHex(span.context) == "0af7651916cd43dd8448eb211c80319c");
  CHECK(span.context.state == "vendor=42");
  TraceContext parent;
  parent.span_id = span.parent_span_id;
  CHECK(SpanIdHex(parent) == "b7ad6b7169203331");
  std::map<std::string, SpanValue> attributes(span.attributes.begin(), span.attributes.end());
  CHECK(attributes["http.request.method"] == SpanValue("POST"));
  CHECK(attributes["http.route"] == SpanValue("/slime"));
  CHECK(std::get<std::string>(attributes["kernelcast.request_id"]) ==
        world.evaluator.request_ids.at(0));
  // The evaluation belongs to it.
  REQUIRE(world.evaluator.traces.size() == 1);
  CHECK(world.evaluator.traces[0] == span.context);
  CHECK(CurrentTrace() == nullptr);
}

TEST_CASE("Web pages are refused", "[gateway][front]") {
  testing::World world;
  MetricsRegistry metrics;
  Front front(world.context, MakeDialects(world.context), nullptr, &metrics);
  RequestHead head = HeadFor("/slime/small", "POST");
  CHECK_FALSE(front.Refusal(head).has_value());
  head.from_web_page = true;
  CHECK(front.Refusal(head)->status == 403);
}

TEST_CASE("Tokens are checked in each place where clients can put them", "[gateway][front]") {
  const std::string token = MakeToken();
  const std::string path = (std::filesystem::temp_directory_path() / RandomId("tokens-")).string();
  std::ofstream(path) << "tokens:\n  - {name: alice, sha256: " << TokenHashText(HashToken(token))
                      << ", roles: [submit], calls_per_second: 3}\n"
                      << "  - {name: bob, sha256: " << TokenHashText(HashToken(token + "x"))
                      << ", roles: [admin]}\n";
  testing::World world;
  MetricsRegistry metrics;
  const auto check = TokenCheck::Create(path, &metrics);
  std::filesystem::remove(path);
  REQUIRE(check.ok());
  CHECK((*check)->NameOf("Bearer " + token) == "alice");
  CHECK((*check)->NameOf("Bearer " + token + "y").empty());
  CHECK((*check)->NameOf(token).empty());
  Front front(world.context, MakeDialects(world.context), check->get(), &metrics);
  RequestHead head = HeadFor("/popcorn/leaderboards");
  const std::optional<HttpReply> refusal = front.Refusal(head);
  REQUIRE(refusal.has_value());
  CHECK(refusal->status == 401);
  CHECK(refusal->body.contains("detail"));
  CHECK_FALSE(front.Refusal(HeadFor("/health")).has_value());
  head.authorization = "Bearer " + token + "x";
  CHECK(front.Refusal(head)->status == 403);
  head.authorization = "Bearer " + token;
  CHECK_FALSE(front.Refusal(head).has_value());
  head.authorization = "";
  head.popcorn_id = token;
  CHECK_FALSE(front.Refusal(head).has_value());
  CHECK_FALSE(front.Refusal(head).has_value());
  // More than its calls per second.
  const std::optional<HttpReply> slower = front.Refusal(head);
  REQUIRE(slower.has_value());
  CHECK(slower->status == 429);
  CHECK(slower->retry_after_s > 0);
}

TEST_CASE("Callers differ by their credentials", "[gateway][front]") {
  testing::World world;
  MetricsRegistry metrics;
  Front front(world.context, MakeDialects(world.context), nullptr, &metrics);
  RequestHead head = HeadFor("/popcorn/submission/small/h200/test", "POST");
  head.content_type = "multipart/form-data; boundary=b";
  head.popcorn_id = "alice";
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.cu\"\r\n\r\n"
      "int x;\r\n--b--\r\n";
  const json id = front.Handle(head, body).body["details"]["id"];
  RequestHead poll = HeadFor(absl::StrCat("/popcorn/user/submissions/", id.dump()));
  poll.popcorn_id = "alice";
  CHECK(front.Handle(poll, "").status == 200);
  CHECK_THAT(front.Handle(poll, "").body["user_id"].get<std::string>(), !Contains("alice"));
  poll.popcorn_id = "bob";
  CHECK(front.Handle(poll, "").status == 403);
}

}  // namespace
}  // namespace kernelcast::gateway
