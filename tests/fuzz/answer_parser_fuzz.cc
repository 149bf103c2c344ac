// libFuzzer harness for model answers. An input is a reply in parts, each starting with a line "===
// call NAME", "=== reasoning" or "=== content"; text before the first is content. The first byte
// chooses the bin scheme. make_answer_corpus.py writes such inputs.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/base/utf8.h"
#include "common/domain/forecast.h"
#include "services/forecaster/core/answer_parser.h"

namespace kernelcast::forecaster {
namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

ModelReply Split(std::string_view text) {
  constexpr std::string_view kMark = "=== ";
  constexpr std::string_view kCall = "call ";
  ModelReply reply;
  std::string* part = &reply.content;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(kMark)) {
      part->append(line).push_back('\n');
      continue;
    }
    const std::string_view what = line.substr(kMark.size());
    if (what.starts_with(kCall) && reply.tool_calls.size() < 8) {
      part = &reply.tool_calls.emplace_back().arguments;
      reply.tool_calls.back().name = what.substr(kCall.size());
    } else {
      part = what == "reasoning" ? &reply.reasoning : &reply.content;
    }
  }
  return reply;
}

void Check(const BinScheme& scheme, const ParsedAnswer& answer, size_t longest) {
  const std::string& rationale = answer.forecast.rationale;
  switch (answer.status) {
    case ParseStatus::kOk:
    case ParseStatus::kRenormalized:
      Require(ValidateForecast(answer.forecast).ok(), "a forecast is valid");
      Require(answer.forecast.bin_scheme_id == scheme.id(), "a forecast is of the scheme");
      Require(answer.fault == AnswerFault::kNone && answer.error.empty(), "no fault is named");
      break;
    case ParseStatus::kDeferred:
      Require(answer.fault == AnswerFault::kNone && answer.error.empty(), "no fault is named");
      Require(answer.forecast.bin_probabilities.empty(), "a deferral has no bins");
      break;
    case ParseStatus::kUnparsable:
      Require(answer.fault != AnswerFault::kNone && !answer.error.empty(), "the fault is named");
      Require(IsValidUtf8(answer.error) && answer.error.size() < 70'000,
              "the error is bounded UTF-8");
      break;
  }
  Require(rationale.size() <= longest && IsValidUtf8(rationale), "the rationale is bounded UTF-8");
}

}  // namespace
}  // namespace kernelcast::forecaster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kernelcast;
  using namespace kernelcast::forecaster;
  if (size == 0) return 0;
  const BinScheme& scheme = *BinScheme::All()[data[0] % BinScheme::All().size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const ParsedAnswer strict = ParseAnswer(scheme, text);
  Check(scheme, strict, kMaxAnswerBytes);
  Check(scheme, ParseReply(scheme, Split(text)), kMaxRationaleBytes);
  // A forecast accepted by the strict reader must be read the same by the lenient one.
  if (strict.status == ParseStatus::kOk || strict.status == ParseStatus::kRenormalized) {
    ModelReply reply;
    reply.tool_calls.push_back({std::string(kSubmitToolName), std::string(text)});
    const ParsedAnswer forgiving = ParseReply(scheme, reply);
    Require(forgiving.status == ParseStatus::kOk || forgiving.status == ParseStatus::kRenormalized,
            "the forgiving reader takes what the strict one takes");
    Require(forgiving.forecast.bin_probabilities == strict.forecast.bin_probabilities,
            "both read the same probabilities");
  }
  return 0;
}
