#include "services/cli/report/archive_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/cli/core/table.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/html_parts.h"

namespace kernelcast::cli {
namespace {

constexpr size_t kMaxPageRows = 24;

std::string KernelText(const v1::ArchiveEntry& entry) {
  if (entry.candidate_id().empty()) return "–";
  Candidate named;
  named.name = entry.name();
  named.origin = entry.origin();
  return absl::StrCat(OneLine(NameOf(named)), " ", OneLine(entry.candidate_id()).substr(0, 10));
}

std::string SpeedupText(const v1::ArchiveEntry& entry) {
  return entry.candidate_id().empty() ? "–" : FormatSpeedup(entry.speedup());
}

}  // namespace

ArchiveTable MakeArchiveTable(const v1::SearchArchive& archive, size_t max_rows) {
  ArchiveTable table;
  const bool niches = archive.strategy() == "map_elites";
  const bool places = niches || archive.strategy() == "islands";
  if (niches) {
    table.title = "Niches";
    table.note = "The best kernel of each kind. New kernels are derived from all of them alike.";
    table.columns = {{"niche"}, {"best kernel"}, {"speedup", true}, {"trials", true}};
  } else if (places) {
    table.title = "Islands";
    table.note = "Populations that evolve separately.";
    table.columns = {{"island"}, {"best kernel"}, {"speedup", true}, {"kernels", true}};
  } else {
    const bool beam = archive.strategy() == "beam";
    table.title = beam ? "Beam" : "Archive";
    table.note = absl::StrCat(
        "The kernels that new ones are derived from. Children are the measured kernels that were "
        "derived from one, Q is the speedup of the fastest of them, and visits count how often ",
        "something was derived from it.");
    table.columns = {
        {"kernel"}, {"speedup", true}, {"children", true}, {"Q", true}, {"visits", true}};
  }
  for (const v1::ArchiveEntry& entry : archive.entries()) {
    if (table.rows.size() == max_rows) break;
    if (places) {
      table.rows.push_back({OneLine(entry.place()), KernelText(entry), SpeedupText(entry),
                            FormatCount(entry.kernels())});
    } else {
      table.rows.push_back({KernelText(entry), SpeedupText(entry), FormatCount(entry.children()),
                            FormatSpeedup(entry.value()), FormatCount(entry.expansions())});
    }
  }
  if (archive.total() > table.rows.size()) {
    table.rest = absl::StrCat("The first ", FormatCount(table.rows.size()), " of ",
                              FormatCount(archive.total()), ".");
  }
  return table;
}

std::vector<std::string> ArchiveLines(const v1::SearchArchive& archive, size_t max_rows,
                                      const Style& style, int width) {
  const ArchiveTable table = MakeArchiveTable(archive, max_rows);
  if (table.rows.empty()) return {};
  std::vector<Table::Column> columns;
  for (const ArchiveTable::Column& column : table.columns) {
    columns.push_back({column.header, column.number ? Table::Align::kRight : Table::Align::kLeft,
                       /*shrinks=*/!column.number});
  }
  Table text(columns);
  for (const std::vector<std::string>& row : table.rows) text.AddRow(row);
  std::vector<std::string> lines =
      absl::StrSplit(text.Render(style, width), '\n', absl::SkipEmpty());
  if (width > 0 && std::ranges::any_of(lines, [&](const std::string& line) {
        return DisplayWidth(line) > width;
      })) {
    // Too narrow for the table. Colours cannot be cut.
    lines = absl::StrSplit(text.Render(Style(false), width), '\n', absl::SkipEmpty());
    for (std::string& line : lines) line = Truncate(line, width);
  }
  if (!table.rest.empty()) {
    lines.push_back(style.Dim(width > 0 ? Truncate(table.rest, width) : table.rest));
  }
  return lines;
}

std::string ArchiveHtml(const ReportInput& input) {
  if (!input.search) return "";
  const ArchiveTable table = MakeArchiveTable(input.search->archive(), kMaxPageRows);
  if (table.rows.empty()) return "";
  std::string body = "<div class=scroll><table class=plain><thead><tr>";
  for (const ArchiveTable::Column& column : table.columns) {
    absl::StrAppend(&body, column.number ? "<th class=n>" : "<th>", Html(column.header));
  }
  body += "</tr></thead><tbody>";
  for (const std::vector<std::string>& row : table.rows) {
    body += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&body, table.columns[i].number ? "<td class=n>" : "<td>", Html(row[i]),
                      "</td>");
    }
    body += "</tr>";
  }
  body += "</tbody></table></div>";
  if (!table.rest.empty()) absl::StrAppend(&body, "<p class=note>", Html(table.rest), "</p>");
  return Section("archive", table.title, Html(table.note), body);
}

}  // namespace kernelcast::cli
