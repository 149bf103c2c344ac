#include "services/cli/report/archive_table.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

v1::SearchArchive Archive(const std::string& strategy, const std::string& place = "") {
  v1::SearchArchive archive;
  archive.set_strategy(strategy);
  v1::ArchiveEntry& entry = *archive.add_entries();
  entry.set_place(place);
  entry.set_candidate_id("k_0123456789ab");
  entry.set_name("vector");
  entry.set_origin("llm:m");
  entry.set_speedup(2.5);
  entry.set_kernels(3);
  entry.set_children(2);
  entry.set_expansions(5);
  entry.set_value(3.5);
  archive.add_entries()->set_place(place);
  archive.set_total(7);
  return archive;
}

std::vector<std::string> Headers(const ArchiveTable& table) {
  std::vector<std::string> headers;
  for (const ArchiveTable::Column& column : table.columns) headers.push_back(column.header);
  return headers;
}

TEST_CASE("The table of an archive has the columns of its strategy", "[cli][report]") {
  const ArchiveTable niches = MakeArchiveTable(Archive("map_elites", "dram, 1 launch"), 1);
  CHECK(niches.title == "Niches");
  CHECK(Headers(niches) == std::vector<std::string>{"niche", "best kernel", "speedup", "trials"});
  CHECK(niches.rows == Rows{{"dram, 1 launch", "vector k_01234567", "2.50x", "3"}});
  const ArchiveTable islands = MakeArchiveTable(Archive("islands", "island 1"), 9);
  CHECK(islands.title == "Islands");
  CHECK(islands.rows ==
        Rows{{"island 1", "vector k_01234567", "2.50x", "3"}, {"island 1", "–", "–", "0"}});
  const ArchiveTable archive = MakeArchiveTable(Archive("puct"), 1);
  CHECK(archive.title == "Archive");
  CHECK(Headers(archive) ==
        std::vector<std::string>{"kernel", "speedup", "children", "Q", "visits"});
  CHECK(archive.rows == Rows{{"vector k_01234567", "2.50x", "2", "3.50x", "5"}});
  CHECK(MakeArchiveTable(Archive("beam"), 1).title == "Beam");
}

TEST_CASE("A table that is cut says so", "[cli][report]") {
  CHECK(MakeArchiveTable(Archive("puct"), 1).rest == "The first 1 of 7.");
  v1::SearchArchive whole = Archive("puct");
  whole.set_total(2);
  CHECK(MakeArchiveTable(whole, 2).rest.empty());
  const std::vector<std::string> lines = ArchiveLines(Archive("puct"), 1, Style(false), 40);
  CHECK(lines.back() == "The first 1 of 7.");
  for (const std::string& line : ArchiveLines(Archive("puct"), 2, Style(true), 30)) {
    CHECK(DisplayWidth(line) <= 30);
  }
  CHECK(ArchiveLines({}, 8, Style(false), 80).empty());
}

TEST_CASE("Names of kernels are escaped on the page", "[cli][report]") {
  ReportInput input;
  CHECK(ArchiveHtml(input).empty());
  *input.search.emplace().mutable_archive() = Archive("islands", "island 1");
  input.search->mutable_archive()->mutable_entries(0)->set_name("<script>");
  const std::string html = ArchiveHtml(input);
  CHECK_THAT(html, Catch::Contains("&lt;script&gt;"));
  CHECK_THAT(html, !Catch::Contains("<script>"));
  CHECK_THAT(html, Catch::Contains("The first 2 of 7."));
}

}  // namespace
}  // namespace kernelcast::cli
