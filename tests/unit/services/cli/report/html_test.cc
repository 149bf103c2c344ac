#include "services/cli/report/html.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "common/domain/route_palette.h"
#include "services/cli/core/text.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/assets.h"
#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli {
namespace {

// The first nesting error of the page's tags; "" if there is none.
std::string NestingMistake(const std::string& page) {
  static const std::set<std::string> kVoid = {"meta", "input", "line", "rect", "br"};
  // Their end tags are optional.
  static const std::set<std::string> kImplied = {"li", "dt", "dd", "th"};
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    if (page.compare(at, 2, "<!") == 0) continue;
    const size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag without an end";
    const bool closing = page[at + 1] == '/';
    size_t name_end = at + (closing ? 2 : 1);
    while (std::isalnum(static_cast<unsigned char>(page[name_end])) != 0) ++name_end;
    const std::string name = page.substr(at + (closing ? 2 : 1), name_end - at - (closing ? 2 : 1));
    if (name.empty()) return "a bare '<' near " + page.substr(at, 40);
    if (closing) {
      while (!open.empty() && open.back() != name && kImplied.count(open.back()) > 0)
        open.pop_back();
      if (open.empty() || open.back() != name) {
        return "</" + name + "> closes <" + (open.empty() ? "" : open.back()) + ">";
      }
      open.pop_back();
    } else if (page[end - 1] != '/' && kVoid.count(name) == 0) {
      open.push_back(name);
      if (name == "script" || name == "style") {
        at = page.find("</" + name, end) - 1;
        continue;
      }
    }
    at = end;
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

// The page without the parts that a browser does not parse as markup.
std::string Markup(const std::string& page) {
  std::string markup = page;
  for (const char* tag : {"script", "style"}) {
    for (size_t at = 0; (at = markup.find(std::string("<") + tag, at)) != std::string::npos;) {
      const size_t end = markup.find(std::string("</") + tag, at);
      markup.erase(at, end - at);
      ++at;
    }
  }
  return markup;
}

TEST_CASE("The page is self-contained and references no other file") {
  const std::string page = RenderReport(SampleReport(60));
  CHECK_FALSE(std::regex_search(
      Markup(page), std::regex("(src|srcset|action|data)\\s*=\\s*[\"']?(https?:|//|[a-z]+\\.)")));
  CHECK_THAT(page, !Catch::Contains("<link"));
  CHECK_THAT(page, !Catch::Contains("http://"));
  CHECK_THAT(page, !Catch::Contains("https://"));
  CHECK_THAT(std::string(ReportStyleSheet()), !Catch::Contains("url("));
  CHECK_THAT(std::string(ReportStyleSheet()), !Catch::Contains("@import"));
  CHECK_THAT(page, Catch::Contains("default-src 'none'"));
}

TEST_CASE("The page's tags are always properly nested") {
  for (const int count : {0, 1, 5, 60, 300}) {
    INFO(count);
    CHECK(NestingMistake(RenderReport(SampleReport(count))).empty());
  }
}

TEST_CASE("Hostile text reaches the page as text") {
  const std::string hostile =
      "</script></style></title>\"'><img src=x onerror=alert(1)><!--\xff\x01";
  ReportInput input = SampleReport(30);
  input.problem_name = input.problem_title = input.problem_description = hostile;
  input.target = input.generator_version = hostile;
  input.search->set_search_id(hostile);
  input.search->set_end_reason(hostile);
  input.search->mutable_spec()->set_policy(hostile);
  input.search->mutable_waiting()->set_reason(hostile);
  input.confirmed->candidate.origin = hostile;
  input.confirmed->candidate.source = hostile;
  input.confirmed->candidate.flags = {hostile};
  input.confirmed->candidate.tunables = {{hostile, hostile}};
  input.confirmed->measurement.device.model = hostile;
  for (ReportCandidate& candidate : input.candidates) {
    candidate.request_id = candidate.candidate.origin = candidate.candidate.source = hostile;
    candidate.candidate.flags = {hostile};
    candidate.candidate.tunables = {{hostile, hostile}};
    candidate.feedback = hostile;
    if (candidate.forecast.has_value()) candidate.forecast->backend = hostile;
    if (candidate.decision.has_value()) candidate.decision->policy = hostile;
    if (candidate.measurement.has_value()) {
      candidate.measurement->worker_id = candidate.measurement->toolchain = hostile;
      candidate.measurement->architecture = candidate.measurement->protocol_version = hostile;
      if (auto* ok = std::get_if<MeasuredOk>(&candidate.measurement->outcome)) {
        ok->shapes[0].stop_reason = hostile;
        ok->environment.throttle_reasons = {hostile};
      }
    } else if (!candidate.compile_error.has_value() && candidate.sequence % 2 == 0) {
      candidate.rejection = hostile;
    }
  }
  const std::string page = RenderReport(input);
  CHECK_THAT(page, !Catch::Contains("<img"));
  CHECK_THAT(page, !Catch::Contains("\xff"));
  CHECK_THAT(page, !Catch::Contains("\x01"));
  CHECK(NestingMistake(page).empty());
  size_t scripts = 0;
  for (size_t at = 0; (at = page.find("</script>", at)) != std::string::npos; ++at) ++scripts;
  CHECK(scripts == 2);
}

TEST_CASE("The headline states only what is known") {
  ReportInput input = SampleReport(60);
  CHECK_THAT(RenderReport(input), Catch::Contains("confirmed at the final level"));
  input.confirmed.reset();
  CHECK_THAT(RenderReport(input), Catch::Contains("screening measurement, not confirmed"));

  ReportInput slow;
  slow.candidates = {MeasuredCandidate("k_1", 0.9)};
  CHECK_THAT(RenderReport(slow), Catch::Contains("No kernel faster than the reference"));
  ReportInput pruned;
  pruned.candidates = {PrunedCandidate("k_1")};
  CHECK_THAT(RenderReport(pruned), Catch::Contains("No candidate was measured"));
  ReportInput failures;
  failures.candidates = {MeasuredCandidate("k_1", 1)};
  failures.candidates[0].measurement->outcome = Timeout{1'000'000'000, "check"};
  CHECK_THAT(RenderReport(failures), Catch::Contains("No candidate gave a correct, timed result"));
  CHECK_THAT(RenderReport(ReportInput()), Catch::Contains("Nothing has been settled yet"));
}

TEST_CASE("A page with a thousand candidates has an acceptable size") {
  CHECK(RenderReport(SampleReport(1000)).size() < 4'000'000);
}

TEST_CASE("The page's data can be read back") {
  const std::string page = RenderReport(SampleReport(40));
  const std::string open = "<script type=application/json id=data>";
  const size_t begin = page.find(open) + open.size();
  const auto json =
      nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  CHECK(json["counts"]["considered"] == 40);
}

TEST_CASE("The script never writes markup") {
  const std::string script(ReportScript());
  CHECK_THAT(script, !Catch::Contains("innerHTML"));
  CHECK_THAT(script, !Catch::Contains("insertAdjacentHTML"));
  CHECK_THAT(script, !Catch::Contains("eval("));
  CHECK_THAT(script, !Catch::Contains("</script"));
}

TEST_CASE("The page shows the possible loss from pruning when the search knows it") {
  ReportInput input = SampleReport(40);
  CHECK_THAT(RenderReport(input), !Catch::Contains("What may pruning have lost?"));
  v1::SelectiveRisk& risk = *input.search->mutable_selective_risk();
  risk.set_estimate(0.02);
  risk.set_low(0.004);
  risk.set_high(0.11);
  risk.set_candidates(180);
  risk.set_measured(12);
  const std::string page = RenderReport(input);
  CHECK_THAT(page, Catch::Contains("What may pruning have lost?"));
  CHECK_THAT(page, Catch::Contains("2% [0.4%, 11%] would have won"));
  CHECK_THAT(page, Catch::Contains("\"selective_risk\":{\"estimate\":0.02"));
}

TEST_CASE("Candidates keep their names in the page once their origin is set") {
  ReportInput input = SampleReport(5);
  input.candidates[0].candidate.name = "my_fast_kernel";
  input.candidates[0].candidate.origin = "by hand";
  CHECK_THAT(Markup(RenderReport(input)), Catch::Contains("my_fast_kernel"));
}

TEST_CASE("Slow, pruned and rejected candidates are folded, one row each") {
  const ReportInput input = SampleReport(300);
  const ReportAnalysis analysis = Analyze(input);
  const std::string markup = Markup(RenderReport(input));
  size_t rows = 0;
  size_t unfolded = 0;
  for (size_t at = 0; (at = markup.find("<tr data-i=", at)) != std::string::npos; ++at) {
    ++rows;
    if (markup.compare(markup.find('>', at) - 11, 11, " class=fold") != 0) ++unfolded;
  }
  CHECK(rows == analysis.rows.size());
  CHECK(unfolded > 0);
  CHECK(unfolded <= 40);
}

TEST_CASE("The calibration error has an interval, or is not shown for a few forecasts") {
  CHECK(std::regex_search(
      RenderReport(SampleReport(300)),
      std::regex(R"(calibration error \(ECE\) <b>0\.\d\d</b> \[0\.\d\d, 0\.\d\d\])")));
  ReportInput few;
  few.candidates = {MeasuredCandidate("k_1", 1.2), MeasuredCandidate("k_2", 1.3)};
  const std::string page = RenderReport(few);
  CHECK_THAT(page, Catch::Contains("2 scored") &&
                       Catch::Contains("too few for a calibration error") &&
                       !Catch::Contains("(ECE)"));
}

TEST_CASE("A report in which all candidates failed shows them") {
  ReportInput input;
  for (const char* id : {"k_1", "k_2"}) {
    ReportCandidate failed = MeasuredCandidate(id, 1);
    failed.measurement->outcome = Timeout{1'000'000'000, "check"};
    input.candidates.push_back(failed);
  }
  const std::string markup = Markup(RenderReport(input));
  CHECK_THAT(markup, Catch::Contains("<tr data-i=0>") && Catch::Contains("<tr data-i=1>"));
  CHECK_THAT(markup, !Catch::Contains("class=fold"));
  CHECK_THAT(markup, Catch::Contains("timeout"));
}

TEST_CASE("Route colours come only from the palette") {
  CHECK_THAT(RenderReport(SampleReport(5)), Catch::Contains("<style>" + RoutePaletteCss()));
  for (const Route route : kRoutes) {
    CHECK_THAT(std::string(ReportStyleSheet()),
               !Catch::Contains("--" + std::string(Name(route)) + ":"));
  }
}

TEST_CASE("Headline, table and chart show the same best figure") {
  ReportInput input = SampleReport(60);
  const ReportAnalysis analysis = Analyze(input);
  REQUIRE(analysis.confirmed);
  std::string times = FormatSpeedup(analysis.best_speedup.value);
  times.replace(times.size() - 1, 1, "×");
  const std::string markup = Markup(RenderReport(input));
  CHECK_THAT(markup, Catch::Contains("<h1><strong>" + times));
  CHECK_THAT(markup, Catch::Contains(times + " final</text>"));
  const size_t first_row = markup.find("<tr data-i=");
  CHECK_THAT(markup.substr(first_row, markup.find("</tr>", first_row) - first_row),
             Catch::Contains(times));
}

}  // namespace
}  // namespace kernelcast::cli
