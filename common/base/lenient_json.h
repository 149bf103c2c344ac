#ifndef KERNELCAST_COMMON_BASE_LENIENT_JSON_H_
#define KERNELCAST_COMMON_BASE_LENIENT_JSON_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/bounded_json.h"

namespace kernelcast {

// What a reader of a model's answer had to overlook. Each has only one possible meaning.
enum class Repair {
  kTrailingComma,
  kComment,           // "// ...", "# ..." or "/* ... */"
  kSingleQuotes,      // 'text'
  kBareKey,           // {key: 1}
  kPythonWord,        // True, False or None
  kNumberForm,        // .5, 5. or +0.5
  kControlCharacter,  // a line break or another one inside a string
  kEscape,            // a backslash before a character that needs none
  kPercent,           // 13% or "13%" where a fraction is expected
  kEncodedTwice,      // a JSON text inside a JSON string
  kInReasoning,       // the answer is in the reasoning, and the content is empty
};
inline constexpr Repair kRepairs[] = {
    Repair::kTrailingComma, Repair::kComment,          Repair::kSingleQuotes, Repair::kBareKey,
    Repair::kPythonWord,    Repair::kNumberForm,       Repair::kEscape,       Repair::kPercent,
    Repair::kEncodedTwice,  Repair::kControlCharacter, Repair::kInReasoning,
};

std::string_view Name(Repair repair);  // "trailing_comma"

// A JSON value as models write it, as strict JSON.
struct MendedJson {
  std::string strict;
  size_t end = 0;  // after the value in the text that was read
  std::set<Repair> repairs;
};

// Reads the value that begins at the start of `text`, and stops after it. Accepts JSON and the
// faults named by Repair, except those of whole answers. A number with a percent sign becomes a
// string. Empty if there is no complete value, or it is nested deeper than kMaxJsonDepth. The time
// is linear.
std::optional<MendedJson> MendJsonValue(std::string_view text);

// Parses a text that is one value. As ParseBoundedJson, and if that fails with MendJsonValue, whose
// repairs are added to `repairs`. Discarded if both fail.
template <class Json = nlohmann::json>
Json ParseLenientJson(std::string_view text, std::set<Repair>& repairs) {
  Json parsed = ParseBoundedJson<Json>(text);
  if (!parsed.is_discarded()) return parsed;
  std::optional<MendedJson> mended = MendJsonValue(text);
  if (!mended || text.find_first_not_of(" \t\r\n", mended->end) != std::string_view::npos) {
    return parsed;
  }
  parsed = ParseBoundedJson<Json>(mended->strict);
  if (!parsed.is_discarded()) repairs.merge(mended->repairs);
  return parsed;
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_LENIENT_JSON_H_
