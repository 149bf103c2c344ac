#ifndef KERNELCAST_SERVICES_CLI_REPORT_HTML_PARTS_H_
#define KERNELCAST_SERVICES_CLI_REPORT_HTML_PARTS_H_

#include <string>
#include <string_view>

#include "common/domain/candidate.h"
#include "common/domain/measurement.h"

namespace kernelcast::cli {

// Parts of a report's page. Arguments of type string_view are text and are escaped; arguments of
// type std::string are HTML.

// Escapes text for HTML: valid UTF-8, markup characters as entities. Control characters become
// visible pictures and direction overrides a visible code, so that the reader sees exactly what is
// compiled. Safe in element content and in quoted attributes.
std::string Html(std::string_view untrusted);

// The beginning of a page, up to its content. `links` stand on its top. The page's content security
// policy keeps a browser from loading anything and from running a script other than `script`, which
// the caller adds.
std::string PageStart(std::string_view title, std::string_view kind, const std::string& links = "",
                      std::string_view script = {});

// The script as a source of a content security policy: "'sha256-...'".
std::string ScriptSource(std::string_view script);

std::string Times(double speedup);  // "3.42×"
// "3.42× [3.38, 3.46]", green if the interval is above 1.
std::string SpeedupHtml(const Ratio& speedup);
// `style`: "good", "warn", or "route" and the name of a route.
std::string Chip(std::string_view style, std::string_view text);
std::string Term(std::string_view term, const std::string& definition);
// Returns "" if `html` is empty.
std::string KeyValue(std::string_view key, const std::string& html);
std::string Section(std::string_view id, std::string_view title, const std::string& note,
                    const std::string& body);
std::string Empty(std::string_view text);
std::string TunableChips(const Candidate& candidate);
// Numbered lines of source, which the page's script colours.
std::string SourceListing(std::string_view source);

// Returns nullptr if the outcome is not ok.
const MeasuredOk* OkOf(const Measurement& measurement);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_HTML_PARTS_H_
