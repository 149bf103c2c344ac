#ifndef KERNELCAST_SERVICES_CLI_REPORT_ARCHIVE_TABLE_H_
#define KERNELCAST_SERVICES_CLI_REPORT_ARCHIVE_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "services/cli/core/text.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// The kernels from which a search derives candidates, as a table: niches, islands, the beam or the
// archive. Texts are safe for terminals and not escaped for HTML.
struct ArchiveTable {
  struct Column {
    std::string header;
    bool number = false;
  };

  std::string title;  // "Niches"
  std::string note;
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
  // "The first 8 of 23." Empty: the table is complete.
  std::string rest;
};

// Has at most `max_rows` rows.
ArchiveTable MakeArchiveTable(const v1::SearchArchive& archive, size_t max_rows);

// As lines without newlines, none wider than `width`; 0: no limit. Empty without entries.
std::vector<std::string> ArchiveLines(const v1::SearchArchive& archive, size_t max_rows,
                                      const Style& style, int width);

// The section of the page. Empty without an archive.
std::string ArchiveHtml(const ReportInput& input);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_ARCHIVE_TABLE_H_
