#include "services/orchestrator/core/search_strategy.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/domain/search_names.h"
#include "services/orchestrator/core/policy.h"
#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator {
namespace {

using testing::FakeForecasters;

std::unique_ptr<const SearchStrategy> Make(const std::string& name,
                                           const std::map<std::string, double>& parameters = {}) {
  auto strategy = MakeStrategy(name, parameters);
  INFO(strategy.status().ToString());
  REQUIRE(strategy.ok());
  return *std::move(strategy);
}

// A kernel of the archive.
struct Kernel {
  std::string id;
  std::string parent;
  double speedup = 0;
  uint64_t batch = 0;
  int expansions = 0;
  CompileFacts facts = {};
};

Archive ArchiveOf(const std::vector<Kernel>& kernels, ArchiveLimits limits = {}) {
  Archive archive("ref", limits);
  for (const Kernel& kernel : kernels) {
    Attempt attempt;
    attempt.candidate.candidate_id = kernel.id;
    attempt.candidate.parent_candidate_id = kernel.parent;
    attempt.speedup = kernel.speedup;
    attempt.facts = kernel.facts;
    archive.Add(std::move(attempt), kernel.batch);
    for (int i = 0; i < kernel.expansions; ++i) archive.Expand(kernel.id);
  }
  return archive;
}

// The first parents that many draws give.
std::set<std::string> FirstParents(const SearchStrategy& strategy, const Archive& archive,
                                   uint64_t batch = 0) {
  std::set<std::string> parents;
  for (uint64_t random = 0; random < 200; ++random) {
    parents.insert(strategy.ChooseParents(archive, batch, random).first);
  }
  return parents;
}

using Ids = std::set<std::string>;

TEST_CASE("Strategies are made by name") {
  std::set<std::string_view> names;
  for (const StrategyKind& kind : StrategyKinds()) {
    CAPTURE(std::string(kind.name));
    names.insert(kind.name);
    std::map<std::string, double> defaults;
    for (const StrategyParameter& each : kind.parameters) {
      defaults[std::string(each.name)] = each.value;
    }
    CHECK(Make(std::string(kind.name), defaults)->name() == kind.name);
  }
  CHECK(names.size() == StrategyKinds().size());
  CHECK(Make("")->name() == "selection");
}

TEST_CASE("An error about a strategy lists what is allowed") {
  struct Row {
    std::string name;
    std::map<std::string, double> parameters;
    std::string message;
  };
  std::vector<std::string> names;
  for (const StrategyKind& kind : StrategyKinds()) names.emplace_back(kind.name);
  const Row row = GENERATE_COPY(
      Row{"genetic",
          {},
          absl::StrCat("strategy: 'genetic' is not one of ", absl::StrJoin(names, ", "))},
      Row{"beam",
          {{"depth", 1}},
          "strategy_parameters: 'depth' is not a parameter of strategy beam; it has children "
          "(candidates derived from a parent in one go), admit (of these, the number that the "
          "forecasts admit to be measured), parents (parents whose candidates compete for "
          "measurements at a time), width (number of kernels that are parents)"},
      Row{"random",
          {{"width", 1}},
          "strategy_parameters: 'width' is not a parameter of strategy random; it has none"},
      Row{"beam",
          {{"width", 0}},
          "strategy_parameters[width]: 0 is not a whole number from 1 to 1000 (number of kernels "
          "that are parents)"},
      Row{"beam",
          {{"width", 2.5}},
          "strategy_parameters[width]: 2.5 is not a whole number from 1 to 1000 (number of kernels "
          "that are parents)"},
      Row{"puct",
          {{"exploration", -1}},
          "strategy_parameters[exploration]: -1 is not a number from 0 to 100 (weight of untried "
          "parents)"},
      Row{"puct", {{"admit", 20}}, "strategy_parameters: admit 20 must not exceed children 16"});
  const absl::Status status = MakeStrategy(row.name, row.parameters).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()) == row.message);
}

TEST_CASE("Every strategy starts from the reference and repeats its choices") {
  for (const StrategyKind& kind : StrategyKinds()) {
    CAPTURE(std::string(kind.name));
    const auto strategy = Make(std::string(kind.name));
    CHECK(FirstParents(*strategy, ArchiveOf({})) == Ids{"ref"});
    const Archive archive = ArchiveOf({{"a", "ref", 2}, {"b", "a", 3, 1}});
    for (uint64_t random = 0; random < 20; ++random) {
      const Parents once = strategy->ChooseParents(archive, 5, random);
      const Parents again = strategy->ChooseParents(archive, 5, random);
      CHECK(once.first == again.first);
      CHECK(once.second == again.second);
    }
  }
}

TEST_CASE("PUCT weighs the best child, the rank and the expansions of a parent") {
  struct Row {
    std::vector<Kernel> kernels;
    double exploration;
    std::string parent;
  };
  const Row row = GENERATE(
      // Without exploration: the largest value, which is the best child's.
      Row{{{"a", "ref", 4}, {"b", "ref", 2}, {"b1", "b", 8}}, 0, "b1"},
      Row{{{"a", "ref", 4}, {"a1", "a", 0.5}, {"b", "ref", 3}}, 0, "ref"},
      // The better kernel of those with equal values.
      Row{{{"a", "ref", 4}, {"a1", "a", 4}}, 0, "a"},
      // Exploration tries what was expanded less.
      Row{{{"a", "ref", 4, 0, 30}, {"b", "ref", 3.9}}, 1, "b"},
      Row{{{"a", "ref", 4}, {"b", "ref", 3.9, 0, 30}}, 1, "a"});
  const auto strategy = Make("puct", {{"exploration", row.exploration}});
  CHECK(FirstParents(*strategy, ArchiveOf(row.kernels)) == Ids{row.parent});
}

TEST_CASE("PUCT keeps an archive of 1,000") {
  CHECK(Make("puct")->archive_limits().parents == 1000);
  const auto small = Make("puct", {{"archive", 3}, {"kept", 1}});
  const Archive archive = ArchiveOf({{"a", "ref", 2}, {"b", "ref", 3}}, small->archive_limits());
  CHECK(archive.Find("a") == nullptr);
  CHECK(archive.Find("b") != nullptr);
  CHECK(Make("puct")->batches()->children == 16);
  CHECK(Make("puct")->batches()->admit == 4);
  CHECK(Make("puct")->batches()->parents == 2);
}

TEST_CASE("Islands take turns and exchange their best") {
  const auto strategy = Make("islands", {{"islands", 2}, {"migrate_every", 3}});
  const Archive archive =
      ArchiveOf({{"a", "ref", 4, 0}, {"b", "ref", 2, 1}, {"a2", "a", 3, 2}, {"b2", "b", 5, 3}});
  struct Row {
    uint64_t batch;
    Ids parents;
  };
  const Row row = GENERATE(Row{0, {"a", "a2"}}, Row{1, {"b", "b2"}}, Row{2, {"a", "a2"}},
                           // The third generation comes from the neighbour's best.
                           Row{6, {"b2"}}, Row{7, {"a"}}, Row{8, {"a", "a2"}}, Row{12, {"b2"}});
  CAPTURE(row.batch);
  CHECK(FirstParents(*strategy, archive, row.batch) == row.parents);
  // An island without kernels starts from the reference until one immigrates.
  const Archive alone = ArchiveOf({{"a", "ref", 4, 0}});
  CHECK(FirstParents(*strategy, alone, 1) == Ids{"ref"});
  CHECK(FirstParents(*strategy, alone, 7) == Ids{"a"});
}

CompileFacts FactsOf(double occupancy) {
  const FactSchema& schema = **FindFactSchema(kCudaPtxSchemaId);
  std::vector<double> values(schema.names.size(), 0);
  const auto fact = std::ranges::find(schema.names, "launch_occupancy");
  values[static_cast<size_t>(fact - schema.names.begin())] = occupancy;
  return CompileFacts{std::string(kCudaPtxSchemaId), values};
}

TEST_CASE("MAP-Elites derives from the best of each niche and from the reference") {
  const Archive archive = ArchiveOf({{"full", "ref", 2, 0, 0, FactsOf(1)},
                                     {"fuller", "ref", 3, 0, 0, FactsOf(0.9)},
                                     {"half", "ref", 1.1, 0, 0, FactsOf(0.5)}});
  CHECK(FirstParents(*Make("map_elites"), archive) == Ids{"ref", "fuller", "half"});
}

TEST_CASE("A beam derives from the best few, the least expanded first") {
  const auto strategy = Make("beam", {{"width", 2}});
  struct Row {
    std::vector<Kernel> kernels;
    Ids parents;
  };
  const Row row =
      GENERATE(Row{{{"a", "ref", 4}}, {"a"}}, Row{{{"a", "ref", 4, 0, 1}}, {"ref"}},
               Row{{{"a", "ref", 4, 0, 1}, {"b", "ref", 3}, {"c", "ref", 2}}, {"b"}},
               Row{{{"a", "ref", 4, 0, 1}, {"b", "ref", 3, 0, 1}, {"c", "ref", 2}}, {"a"}},
               // Slower kernels than the reference are parents too.
               Row{{{"a", "ref", 0.5, 0, 1}, {"b", "ref", 0.4}}, {"b"}});
  CHECK(FirstParents(*strategy, ArchiveOf(row.kernels)) == row.parents);
}

TEST_CASE("Random parents are all of the archive") {
  const Archive archive = ArchiveOf({{"a", "ref", 4}, {"b", "ref", 0.1}});
  CHECK(FirstParents(*Make("random"), archive) == Ids{"ref", "a", "b"});
  CHECK_FALSE(Make("random")->batches().has_value());
  CHECK(Make("measure_all")->measures_everything());
}

// The entries as lines: place, best kernel, speedup, kernels, children, expansions, value.
std::vector<std::string> Lines(const ArchiveOverview& overview) {
  std::vector<std::string> lines;
  for (const ArchiveEntry& entry : overview.entries) {
    lines.push_back(absl::StrCat(entry.place, "|", entry.candidate_id, "|", entry.speedup, "|",
                                 entry.kernels, "|", entry.children, "|", entry.expansions, "|",
                                 entry.value));
  }
  return lines;
}

TEST_CASE("The overview of an archive lists what the strategy chooses among") {
  struct Row {
    std::string strategy;
    std::map<std::string, double> parameters;
    std::vector<std::string> lines;
  };
  const Row row =
      GENERATE(Row{"puct", {}, {"|b|8|1|0|0|8", "|a|4|1|1|3|8", "|c|2|1|0|0|2", "|ref|1|1|2|0|4"}},
               Row{"beam", {{"width", 2}}, {"|b|8|1|0|0|8", "|a|4|1|1|3|8"}},
               Row{"map_elites", {}, {"2/4 occupancy|b|8|2|0|0|8", "4/4 occupancy|a|4|1|1|3|8"}},
               Row{"islands",
                   {{"islands", 3}},
                   {"island 1|a|4|2|1|3|8", "island 2|b|8|1|0|0|8", "island 3||0|0|0|0|0"}});
  const Archive archive = ArchiveOf({{"a", "ref", 4, 0, 3, FactsOf(1)},
                                     {"b", "a", 8, 1, 0, FactsOf(0.5)},
                                     {"c", "ref", 2, 3, 0, FactsOf(0.4)}});
  const ArchiveOverview overview = OverviewOf(*Make(row.strategy, row.parameters), archive);
  CHECK(overview.strategy == row.strategy);
  CHECK(overview.total == row.lines.size());
  CHECK(Lines(overview) == row.lines);
}

TEST_CASE("The overview of a large archive has its best entries") {
  std::vector<Kernel> kernels;
  for (int i = 1; i <= 100; ++i) kernels.push_back({absl::StrCat("k", i), "ref", 1.0 + i});
  const ArchiveOverview overview =
      OverviewOf(*Make("puct"), ArchiveOf(kernels, {.parents = 1000, .children = 1000}));
  CHECK(overview.total == 101);
  REQUIRE(overview.entries.size() == ArchiveOverview::kMaxEntries);
  CHECK(overview.entries.front().candidate_id == "k100");
  CHECK(overview.entries.back().candidate_id == "k37");
}

TEST_CASE("The expected bin and then the win probability choose the next measurement") {
  struct Row {
    std::vector<double> speedups;
    std::vector<double> win_probabilities;
    std::vector<bool> lost;
    std::optional<size_t> chosen;
    double failure_probability_of_last = 0;
  };
  const Row row = GENERATE(Row{{1.2, 3, 0.4}, {0.2, 0.1, 0.9}, {false, false, false}, 1},
                           Row{{3, 3, 0.4}, {0.1, 0.3, 0.9}, {false, false, false}, 1},
                           // Bins that are expected to be about the same.
                           Row{{3.0, 2.98}, {0.1, 0.3}, {false, false}, 1},
                           // A candidate that lost returns when it is likely to win.
                           Row{{0.4, 3}, {0.2, 0.49}, {false, true}, 0},
                           Row{{0.4, 3}, {0.2, 0.5}, {false, true}, 1},
                           Row{{3}, {0.2}, {true}, std::nullopt}, Row{{}, {}, {}, std::nullopt},
                           // A failure counts as bin 0.
                           Row{{1.2, 3}, {0.2, 0.3}, {false, false}, 0, 0.9});
  std::vector<Forecast> forecasts;
  for (const double speedup : row.speedups) {
    forecasts.push_back(FakeForecasters::Make(Candidate(), speedup, 0.2, 0));
  }
  for (Forecast& forecast : forecasts) forecast.failure_probability = 0;
  if (!forecasts.empty()) forecasts.back().failure_probability = row.failure_probability_of_last;
  std::vector<PrunedCandidate> pruned;
  for (size_t i = 0; i < forecasts.size(); ++i) {
    pruned.push_back({&forecasts[i], row.win_probabilities[i], row.lost[i]});
  }
  CHECK(Make("puct")->ChooseMeasurement(pruned, 1) == row.chosen);
}

std::string ReadConcept(const std::string& name) {
  return ReadFile(std::string(KERNELCAST_SOURCE_DIR) + "/docs/concepts/" + name).value();
}

// "`children` 8, `admit` 2"
template <class Parameters>
std::string WithDefaults(const Parameters& parameters) {
  std::string text;
  for (const auto& parameter : parameters) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "`", std::string(parameter.name), "` ",
                    parameter.value);
  }
  return text;
}

TEST_CASE("docs/concepts/search.md lists every strategy with its parameters") {
  std::string table = "| strategy | | parameters with defaults |\n|---|---|---|\n";
  for (const StrategyKind& kind : StrategyKinds()) {
    absl::StrAppend(&table, "| `", std::string(kind.name), "` | ", std::string(kind.meaning), " | ",
                    WithDefaults(kind.parameters), " |\n");
  }
  INFO(table);
  CHECK_THAT(ReadConcept("search.md"), Catch::Contains(table));
}

TEST_CASE("docs/concepts/routing.md lists every policy with its parameters") {
  const std::string page = ReadConcept("routing.md");
  for (const std::string_view name : PolicyNames()) {
    const std::string start = absl::StrCat("\n| `", std::string(name), "` | ");
    const std::string end = absl::StrCat(" | ", WithDefaults(OwnParameters(name)), " |");
    INFO("a row" << start << "..." << end);
    const size_t row = page.find(start);
    REQUIRE(row != std::string::npos);
    CHECK_THAT(page.substr(row + 1, page.find('\n', row + 1) - row - 1), Catch::EndsWith(end));
  }
}

TEST_CASE("Users can choose every strategy and policy") {
  std::vector<std::string_view> strategies;
  for (const StrategyKind& kind : StrategyKinds()) strategies.push_back(kind.name);
  CHECK(std::ranges::equal(strategies, StrategyNames()));
  CHECK(StrategyNames().front() == kDefaultStrategy);
  CHECK(PolicyNames().front() == kDefaultPolicy);
  for (const std::string_view name : PolicyNames()) CHECK(MakePolicy(name, {}).ok());
}

}  // namespace
}  // namespace kernelcast::orchestrator
