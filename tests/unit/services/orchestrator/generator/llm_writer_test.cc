#include "services/orchestrator/generator/llm_writer.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <future>

#include "common/base/id.h"
#include "tests/support/crashed_with.h"
#include "tests/support/fake_chat_client.h"
#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator {
namespace {

using Catch::Matchers::Contains;
using kernelcast::testing::FakeChatClient;

constexpr char kKernel[] = "```cpp\nint kernelcast_run;\n```\n";

struct Fixture {
  explicit Fixture(CrashJournal* crash_journal = nullptr) {
    LlmWriterOptions options(KernelPrompt::Builtin().value());
    options.max_answer_tokens = 1234;
    options.crash_journal = crash_journal;
    options.site_for = [](const std::string&, const std::string&) {
      KernelSite site;
      site.device.model = "AMD EPYC";
      return site;
    };
    writer = std::make_unique<LlmWriter>(std::move(options), &client, &metrics);
    query.problem =
        std::make_shared<const Problem>(ParseProblem(testing::SmallProblemFiles()).value());
    query.target = "cpu";
    query.deadline_ns = 77;
  }

  std::future<GenerationReply> Write() {
    auto reply = std::make_shared<std::promise<GenerationReply>>();
    writer->Write(query, [reply](GenerationReply got) { reply->set_value(std::move(got)); });
    return reply->get_future();
  }
  bool HasMetric(const std::string& line) {
    return registry.Text().find(line) != std::string::npos;
  }

  MetricsRegistry registry;
  WriterMetrics metrics{registry, {"here"}};
  FakeChatClient client;
  std::unique_ptr<LlmWriter> writer;
  GenerationQuery query;
};

// Like FakeChatClient::Say, for requests that choose no shape.
void Say(Fixture& fixture, llm::CallId id, const std::string& content,
         llm::FinishReason finish = llm::FinishReason::kStop, bool with_usage = true) {
  llm::ChatAnswer answer;
  answer.content = content;
  answer.finish_reason = finish;
  if (with_usage) answer.usage = {true, 100, 60, 20, 5};
  fixture.client.Answer(id, std::move(answer));
}

TEST_CASE("A kernel is requested and parsed", "[orchestrator][writer]") {
  Fixture fixture;
  auto reply = fixture.Write();
  const llm::ChatRequest& request = fixture.client.request(1);
  CHECK(request.max_tokens == 1234);
  CHECK(request.deadline_ns == 77);
  CHECK_FALSE(request.may_hedge);
  CHECK_THAT(request.prompt->json(), Contains("AMD EPYC") && Contains("// reference"));
  Say(fixture, 1, kKernel);
  const GenerationReply got = reply.get();
  const auto* candidate = std::get_if<Candidate>(&got.result);
  REQUIRE(candidate != nullptr);
  CHECK(candidate->source == "int kernelcast_run;\n");
  CHECK(candidate->origin == "llm:model");
  CHECK(got.model == "model");
  CHECK(got.endpoint == "here");
  CHECK(got.usage.input_tokens == 100);
  CHECK(got.usage.cached_input_tokens == 60);
  CHECK(got.usage.output_tokens == 20);
  CHECK_FALSE(got.usage.estimated);
  CHECK(got.usage.cost == 0.5);
  CHECK_THAT(got.prompt_version, Catch::StartsWith("kernel-writer/2@"));
}

TEST_CASE("Requests for a kernel belong to their caller's trace, also when retried",
          "[orchestrator][writer]") {
  Fixture fixture;
  TraceContext trace;
  trace.trace_id[0] = 1;
  trace.span_id[0] = 2;
  Attempt crash;
  crash.candidate.source = "int x;\n";
  crash.failure = FailureKind::kCrash;
  crash.feedback = std::string(40'000, 'f');
  fixture.query.setbacks = {crash};
  std::future<GenerationReply> reply;
  {
    const TraceScope scope(&trace);
    reply = fixture.Write();
  }
  CHECK(fixture.client.request(1).trace == trace);
  // Its prompt was too long; the answer's thread has no trace.
  fixture.client.Fail(1, llm::ErrorKind::kContextTooLong, 400);
  CHECK(fixture.client.request(2).trace == trace);
  Say(fixture, 2, kKernel);
  CHECK(std::holds_alternative<Candidate>(reply.get().result));
  fixture.Write();
  CHECK_FALSE(fixture.client.request(3).trace.valid());
}

TEST_CASE("Answers without a kernel are counted with a reason", "[orchestrator][writer]") {
  Fixture fixture;
  auto prose = fixture.Write();
  Say(fixture, 1, "It cannot be done.");
  CHECK(std::get<GenerationReply::Unusable>(prose.get().result).reason ==
        "no fenced block of code");
  CHECK(fixture.HasMetric(R"(kernelcast_orchestrator_generation_faults_total{fault="no_code"} 1)"));
  auto cut = fixture.Write();
  Say(fixture, 2, "```cpp\nint kernelcast_run", llm::FinishReason::kLength);
  const auto cut_off = std::get<GenerationReply::Unusable>(cut.get().result);
  CHECK(cut_off.fault == "cut_off");
  CHECK(cut_off.reason ==
        "the answer ended before its code did: it was too long; raise the limit of 1234 tokens, "
        "--llm-max-tokens");
  auto large = fixture.Write();
  fixture.client.Fail(3, llm::ErrorKind::kAnswerTooLarge);
  CHECK(std::holds_alternative<GenerationReply::Unusable>(large.get().result));
}

TEST_CASE("A refusal and a content filter are named", "[orchestrator][writer]") {
  Fixture fixture;
  llm::ChatAnswer refusal;
  refusal.refusal = "I cannot help with that.";
  auto refused = fixture.Write();
  fixture.client.Answer(1, refusal);
  const auto first = std::get<GenerationReply::Unusable>(refused.get().result);
  CHECK(first.fault == "refused");
  CHECK(first.reason == "the model refused: I cannot help with that.");
  auto filtered = fixture.Write();
  Say(fixture, 2, "", llm::FinishReason::kContentFilter);
  CHECK(std::get<GenerationReply::Unusable>(filtered.get().result).fault == "content_filter");
  CHECK(fixture.HasMetric(R"(kernelcast_orchestrator_generation_faults_total{fault="refused"} 1)"));
}

TEST_CASE("A description that had to be mended is counted", "[orchestrator][writer]") {
  Fixture fixture;
  auto reply = fixture.Write();
  Say(fixture, 1, std::string(kKernel) + "```json\n{'flags': ['-O3'], // fast\n}\n```\n");
  const GenerationReply got = reply.get();
  const auto* candidate = std::get_if<Candidate>(&got.result);
  REQUIRE(candidate != nullptr);
  CHECK(candidate->flags == std::vector<std::string>{"-O3"});
  CHECK(got.repairs == std::vector<std::string>{"trailing_comma", "comment", "single_quotes"});
  CHECK(fixture.HasMetric(
      R"(kernelcast_orchestrator_generation_repairs_total{repair="trailing_comma"} 1)"));
}

TEST_CASE("An answer given entirely as reasoning is read", "[orchestrator][writer]") {
  Fixture fixture;
  auto reply = fixture.Write();
  llm::ChatAnswer answer;
  answer.reasoning = kKernel;
  fixture.client.Answer(1, std::move(answer));
  const GenerationReply got = reply.get();
  CHECK(std::holds_alternative<Candidate>(got.result));
  CHECK(got.usage.estimated);
  CHECK(got.usage.input_tokens > 100);
  CHECK(got.usage.output_tokens > 0);
}

TEST_CASE("An endpoint failure keeps its message", "[orchestrator][writer]") {
  Fixture fixture;
  auto away = fixture.Write();
  fixture.client.Fail(1, llm::ErrorKind::kUnreachable);
  const GenerationReply got = away.get();
  CHECK(std::get<GenerationReply::Unanswered>(got.result).reason == "here: unreachable: it failed");
  CHECK(got.usage.input_tokens == 0);
  fixture.client.Refuse(true);
  CHECK(std::get<GenerationReply::Unanswered>(fixture.Write().get().result).reason ==
        "too many calls");
}

TEST_CASE("A prompt too long for the endpoint is shortened", "[orchestrator][writer]") {
  Fixture fixture;
  Attempt crash;
  crash.candidate.source = "int x;\n";
  crash.failure = FailureKind::kCrash;
  crash.feedback = std::string(40'000, 'f');
  fixture.query.setbacks = {crash};
  auto reply = fixture.Write();
  const size_t first = fixture.client.request(1).prompt->json().size();
  fixture.client.Fail(1, llm::ErrorKind::kContextTooLong, 400);
  REQUIRE(fixture.client.WaitForCalls(2));
  CHECK(fixture.client.request(2).prompt->json().size() < first / 2);
  Say(fixture, 2, kKernel);
  CHECK(std::holds_alternative<Candidate>(reply.get().result));
}

TEST_CASE("A kernel that is no longer wanted is not generated", "[orchestrator][writer]") {
  Fixture fixture;
  std::stop_source stop;
  fixture.query.stop = stop.get_token();
  auto reply = fixture.Write();
  stop.request_stop();
  CHECK(fixture.client.request(1).stop.stop_requested());
  fixture.client.Fail(1, llm::ErrorKind::kCancelled);
  CHECK(std::holds_alternative<GenerationReply::Unanswered>(reply.get().result));
}

TEST_CASE("A request whose answers crashed the process twice is quarantined without asking",
          "[orchestrator][writer]") {
  const std::string path =
      (std::filesystem::temp_directory_path() / RandomId("kernelcast-crash-")).string();
  for (const int crashes : {1, 2}) {
    kernelcast::testing::CrashedWith(path, "answer:s_1/7", 1);
    auto journal = CrashJournal::Open(path);
    REQUIRE(journal.ok());
    Fixture fixture(journal->get());
    fixture.query.request_id = "s_1/7";
    auto reply = fixture.Write();
    if (crashes == 1) {
      CHECK(fixture.client.submitted() == 1);
      continue;
    }
    CHECK(fixture.client.submitted() == 0);
    CHECK_THAT(std::get<GenerationReply::Unusable>(reply.get().result).reason,
               Catch::StartsWith("set aside: "));
    // The others are requested.
    fixture.query.request_id = "s_1/8";
    auto other = fixture.Write();
    Say(fixture, 1, kKernel);
    CHECK(std::holds_alternative<Candidate>(other.get().result));
  }
  std::filesystem::remove(path);
}

TEST_CASE("A critic's answer is advice, with its tokens", "[orchestrator][writer]") {
  Fixture fixture;
  const auto advise = [&fixture] {
    auto reply = std::make_shared<std::promise<AdviceReply>>();
    fixture.writer->Advise(fixture.query,
                           [reply](AdviceReply got) { reply->set_value(std::move(got)); });
    return reply->get_future();
  };
  auto given = advise();
  CHECK_THAT(fixture.client.request(1).prompt->json(), Contains("Name the one next step"));
  CHECK(fixture.client.request(1).deadline_ns == 77);
  Say(fixture, 1, "<think>Hm.</think>\nUse wider loads.\n");
  const AdviceReply got = given.get();
  CHECK(got.advice == "Use wider loads.");
  CHECK(got.usage.input_tokens == 100);
  CHECK(got.usage.output_tokens == 20);
  CHECK(got.usage.cost == 0.5);
  CHECK(got.model == "model");
  CHECK_THAT(got.prompt_version, Catch::StartsWith("kernel-writer/2@"));

  auto empty = advise();
  Say(fixture, 2, "</think>\n");
  const AdviceReply none = empty.get();
  CHECK(none.advice.empty());
  CHECK(none.detail == "the answer is empty");
  CHECK(none.usage.output_tokens == 20);

  auto away = advise();
  fixture.client.Fail(3, llm::ErrorKind::kUnreachable);
  CHECK(away.get().detail == "here: unreachable: it failed");

  auto long_one = advise();
  Say(fixture, 4, std::string(20'000, 'a'));
  CHECK(long_one.get().advice.size() <= kMaxAdviceBytes);

  // The writer sees it.
  fixture.query.advice = "Use wider loads.";
  auto kernel = fixture.Write();
  CHECK_THAT(fixture.client.request(5).prompt->json(), Contains("Use wider loads."));
  Say(fixture, 5, kKernel);
  CHECK(std::holds_alternative<Candidate>(kernel.get().result));
}

}  // namespace
}  // namespace kernelcast::orchestrator
