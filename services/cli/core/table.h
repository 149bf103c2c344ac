#ifndef KERNELCAST_SERVICES_CLI_CORE_TABLE_H_
#define KERNELCAST_SERVICES_CLI_CORE_TABLE_H_

#include <string>
#include <vector>

#include "services/cli/core/text.h"

namespace kernelcast::cli {

// A table for a terminal. Cells must already be safe to print; they may contain colours.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string header;
    Align align = Align::kLeft;
    // If the table is wider than the terminal, the widest of the shrinkable columns shrinks first.
    // Its cells lose their ends, or their middles where different cells would look the same.
    bool shrinks = false;
    // A cell that does not fit wraps instead of being cut.
    bool wraps = false;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty. A row must not have more cells than there are columns.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Returns lines that each end in a newline. `width` 0: no limit.
  std::string Render(const Style& style, int width = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_TABLE_H_
