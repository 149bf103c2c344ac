#ifndef KERNELCAST_SERVICES_FORECASTER_RPC_QUESTION_FILE_H_
#define KERNELCAST_SERVICES_FORECASTER_RPC_QUESTION_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/llm/forecast_prompt.h"

namespace kernelcast::forecaster {

// Questions from a file, asked or rendered without serving. They take the same path as the
// questions of a Forecast call, so models are trained on the bytes that they are served.

struct Question {
  std::string id;
  ForecastInput input;
};

// Reads a file with one JSON object per line:
//
//   {"problem": PROBLEM}                 a v1.Problem, for the questions below it
//   {"id": ID, "request": REQUEST}       a v1.ForecastRequest about such a problem
//   {"id": ID, "pair": {"pack", "anchor_code", "candidate_code", "hardware", "bin_scheme_id",
//    "problem_id"}}                      the candidate compared with the anchor, as the reference
//    of
//                                        the problem, or of an unknown one if "problem_id" is empty
//
// INVALID_ARGUMENT: "FILE:LINE: what is wrong".
[[nodiscard]] absl::StatusOr<std::vector<Question>> ReadQuestions(const std::string& path);

// Writes a line per question, in order: {"id", "prompt_version", "messages", and "response_format",
// or "tools" and "tool_choice"}, as the first request for it has them; {"id", "error"} for a prompt
// that is too long.
[[nodiscard]] absl::Status WritePrompts(const std::vector<Question>& questions,
                                        const ForecastPrompt& prompt, size_t max_prompt_bytes,
                                        const std::string& path);

struct AskOptions {
  size_t max_in_flight = 64;
  int64_t timeout_ns = 600'000'000'000;  // for each question
};

// Asks the questions and writes a line for each answer when it arrives: {"id", "forecast"} or
// {"id", "abstention"}, with v1.Forecast and v1.Abstention.
[[nodiscard]] absl::Status AskQuestions(std::vector<Question> questions, Backend& backend,
                                        const AskOptions& options, const Clock& clock,
                                        const std::string& path);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_QUESTION_FILE_H_
