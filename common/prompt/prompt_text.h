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

// Parts of a prompt as Markdown. The same input always gives the same bytes. Texts of several lines
// end in a newline.
//
// Text from others cannot imitate the prompt's own text: multi-line texts are fenced by more
// backticks than any run inside, names and other short texts are put on one line without backticks,
// and control tokens of chat templates are broken up by a space.

// A fenced block of "```" or longer, with `language` after the opening fence.
std::string Fenced(std::string_view content, std::string_view language);

// One line without backticks and control characters, cut after `max_bytes`.
std::string Inline(std::string_view text, size_t max_bytes = 200);

// Inserts a space into each token by which chat templates mark roles, turns and reasoning, such as
// "<|" and "</s>". In code these occur only in strings and comments, except "[INST]" as a
// subscript.
std::string WithoutControlTokens(std::string_view text);

// "cols=64, rows=8".
std::string AxisText(const AxisValues& shape);

// Model and known data of a device: what the device reports, and published data of known GPUs.
// `target` is used if there is no device.
std::string HardwareText(const DeviceInfo& device, std::string_view target);

// Title, description, axes, tensors, tolerances, bench shapes and their amount of work.
std::string TaskText(const Problem& problem, std::string_view target);

// Source, flags and launches of the reference, or a sentence if there is none.
std::string ReferenceText(const Problem& problem, std::string_view target);

// A table of the most informative facts of candidate and reference and their difference, without
// rows of zeros. A sentence if there are no facts.
std::string FactsText(const CompileFacts& candidate, const CompileFacts& reference);

// Names of the facts that FactsText and SimulationText may show. For tests.
std::vector<std::string_view> ShownFacts(std::string_view schema_id);

// Simulation results over all launches and shapes, as a table like that of FactsText. Times and
// counts are summed; other values are averaged, weighted by estimated launch time. A sentence if
// there are no results or a launch of the candidate is not supported.
std::string SimulationText(const CompileFacts& candidate, const CompileFacts& reference);

// "BLOCK=8, UNROLL=4".
std::string TunableText(const std::vector<Tunable>& tunables);

// Each formatted by Inline, with `separator` in between.
std::string InlineList(const std::vector<std::string>& texts, const char* separator);

// Origin, flags, tunables, launches and finally the source.
std::string CandidateText(const Candidate& candidate);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROMPT_PROMPT_TEXT_H_
