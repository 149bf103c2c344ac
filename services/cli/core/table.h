#ifndef KERNELCAST_SERVICES_CLI_CORE_TABLE_H_
#define KERNELCAST_SERVICES_CLI_CORE_TABLE_H_

#include <string>
#include <vector>

#include "services/cli/core/text.h"

namespace kernelcast::cli {

// Columns of text for a terminal. Cells are already safe to print; they may hold colours.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string header;
    Align align = Align::kLeft;
    // The widest column of those that shrink gives way where the table is wider than the terminal.
    bool shrinks = false;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty; a row may not have more cells than there are columns.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Lines, each ending in a newline. `width` 0: no limit.
  std::string Render(const Style& style, int width = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_TABLE_H_
