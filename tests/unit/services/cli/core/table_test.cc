#include "services/cli/core/table.h"

#include <catch2/catch.hpp>

namespace kernelcast::cli {
namespace {

TEST_CASE("Columns are aligned and lines have no trailing blanks") {
  Table table({{"name"}, {"count", Table::Align::kRight}, {"note"}});
  table.AddRow({"a", "1", "x"});
  table.AddRow({"long name", "1,000"});
  CHECK(table.Render(Style(false)) ==
        "name       count  note\n"
        "a              1  x\n"
        "long name  1,000\n");
}

TEST_CASE("A shrinking column fits the terminal's width") {
  Table table({{"id"}, {"text", Table::Align::kLeft, true}});
  table.AddRow({"1", "a rather long text that does not fit"});
  const std::string text = table.Render(Style(false), 20);
  CHECK(text == "id  text\n1   a rather long t…\n");
}

TEST_CASE("Cells that begin alike keep the ends that distinguish them") {
  Table table({{"id"}, {"kernel", Table::Align::kLeft, true}});
  table.AddRow({"1", "softmax_block_128_stages_2"});
  table.AddRow({"2", "softmax_block_128_stages_3"});
  table.AddRow({"3", "short"});
  CHECK(table.Render(Style(false), 18) ==
        "id  kernel\n"
        "1   softmax…ages_2\n"
        "2   softmax…ages_3\n"
        "3   short\n");
}

TEST_CASE("A wrapping column continues below and breaks no word") {
  Table table({{"id"}, {"text", Table::Align::kLeft, false, true}, {"n", Table::Align::kRight}});
  table.AddRow({"1", "a rather long text", "7"});
  CHECK(table.Render(Style(false), 18) ==
        "id  text         n\n"
        "1   a rather     7\n"
        "    long text\n");
}

TEST_CASE("A table that cannot shrink is wider than the terminal rather than truncated") {
  Table table({{"id"}});
  table.AddRow({"0123456789"});
  CHECK(table.Render(Style(false), 5) == "id\n0123456789\n");
}

}  // namespace
}  // namespace kernelcast::cli
