#ifndef KERNELCAST_COMMON_PROMPT_PROMPT_TEXT_H_
#define KERNELCAST_COMMON_PROMPT_PROMPT_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"

namespace kernelcast {

// The parts of a prompt as Markdown, each the same bytes for the same input, ending in a newline
// where it has several lines.
//
// What others wrote cannot pose as the prompt's own words: texts of several lines stand in a fence
// that is longer than any row of backticks within, names and the like on one line without
// backticks, and what chat templates take for control tokens is broken up by a blank.

// In a fence of its own, "```" or longer, with `language` after the opening one.
std::string Fenced(std::string_view content, std::string_view language);

// One line, without backticks and control characters, cut after `max_bytes`.
std::string Inline(std::string_view text, size_t max_bytes = 200);

// With a blank inside each of the marks by which chat templates tell roles, turns and reasoning
// apart, such as "<|" and "</s>". None of them can stand in code outside of strings and comments,
// with the exception of "[INST]" as a subscript.
std::string WithoutControlTokens(std::string_view text);

// Model and what is known of it: what the device says of itself, and published figures of GPUs that
// are known by name. `target` is named where there is no device.
std::string HardwareText(const DeviceInfo& device, std::string_view target);

// Title, description, axes, tensors, tolerances, bench shapes and the work that they are.
std::string TaskText(const Problem& problem, std::string_view target);

// Source, flags and launches. A message in words where the problem has no reference.
std::string ReferenceText(const Problem& problem, std::string_view target);

// A table of those facts that tell most, of candidate, reference and their difference; rows of
// zeros are left out. A message in words where there are none.
std::string FactsText(const CompileFacts& candidate, const CompileFacts& reference);

// Names of the facts that FactsText may show, and SimulationText, for tests.
std::vector<std::string_view> ShownFacts(std::string_view schema_id);

// What a virtual GPU makes of all launches at all shapes, as a table in the manner of FactsText:
// times and counts added up, the rest averaged by the time that launches are estimated to take.
// A message in words where there is nothing, or a launch of the candidate is not covered.
std::string SimulationText(const CompileFacts& candidate, const CompileFacts& reference);

// "BLOCK=8, UNROLL=4".
std::string TunableText(const std::vector<Tunable>& tunables);

// Each as by Inline, with `separator` in between.
std::string InlineList(const std::vector<std::string>& texts, const char* separator);

// Origin, flags, tunables, launches, and last the source.
std::string CandidateText(const Candidate& candidate);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROMPT_PROMPT_TEXT_H_
