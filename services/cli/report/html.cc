#include "services/cli/report/html.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/core/text.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/assets.h"
#include "services/cli/report/charts.h"
#include "services/cli/report/data_json.h"
#include "services/cli/report/highlight.h"

namespace kernelcast::cli {
namespace {

// How many candidates are printed on paper; the page holds all of them.
constexpr size_t kPrintedCandidates = 40;

std::string ScriptHash(std::string_view script) {
  std::array<unsigned char, 32> digest;
  unsigned length = 0;
  EVP_Digest(script.data(), script.size(), digest.data(), &length, EVP_sha256(), nullptr);
  std::array<unsigned char, 64> text;
  const int size = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(length));
  return std::string(reinterpret_cast<const char*>(text.data()), static_cast<size_t>(size));
}

std::string Times(double speedup) {
  std::string text = FormatSpeedup(speedup);
  if (!text.empty() && text.back() == 'x') text.replace(text.size() - 1, 1, "×");
  return text;
}

std::string Chip(std::string_view style, std::string_view text) {
  return absl::StrCat("<span class=\"chip ", std::string(style), "\">", Html(text), "</span>");
}

std::string Term(std::string_view term, const std::string& definition) {
  return absl::StrCat("<dt>", Html(term), "</dt><dd>", definition, "</dd>");
}

std::string KeyValue(std::string_view key, const std::string& html) {
  if (html.empty()) return "";
  return absl::StrCat("<div><dt>", Html(key), "</dt><dd>", html, "</dd></div>");
}

std::string Section(std::string_view id, std::string_view title, std::string_view note,
                    const std::string& body) {
  return absl::StrCat("<section id=", std::string(id), " class=panel><h2>", Html(title), "</h2>",
                      note.empty() ? "" : absl::StrCat("<p class=note>", std::string(note), "</p>"),
                      body, "</section>");
}

std::string Empty(std::string_view text) {
  return absl::StrCat("<p class=empty>", Html(text), "</p>");
}

std::string TunableChips(const Candidate& candidate) {
  std::string html;
  for (const Tunable& tunable : candidate.tunables) {
    if (tunable.name == "TEMPLATE" || tunable.name == "FLAGS") continue;
    absl::StrAppend(&html, "<span class=tun><b>", Html(tunable.name), "</b>", Html(tunable.value),
                    "</span>");
  }
  for (const std::string& flag : candidate.flags) {
    absl::StrAppend(&html, "<span class=tun>", Html(flag), "</span>");
  }
  return html;
}

const MeasuredOk* OkOf(const Measurement& measurement) {
  return std::get_if<MeasuredOk>(&measurement.outcome);
}

// How everything that was considered was settled, as one bar.
std::string SettledBar(const ReportCounts& counts) {
  if (counts.considered == 0) return "";
  struct Part {
    const char* style;
    std::string_view name;
    uint64_t count;
  };
  const std::array parts = {Part{"promo", "promoted", counts.measured_promoted},
                            Part{"defer", "deferred", counts.measured_deferred},
                            Part{"audit", "audited", counts.measured_audited},
                            Part{"boot", "otherwise measured", counts.measured_otherwise},
                            Part{"prune", "pruned", counts.pruned},
                            Part{"reject", "rejected", counts.rejected}};
  std::string html = absl::StrCat("<p class=settled><b>", FormatCount(counts.considered),
                                  "</b> candidates considered, <b>", FormatCount(counts.measured),
                                  "</b> of them measured</p><div class=settledbar>");
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    absl::StrAppend(&html, "<i class=", part.style, " style=\"flex-grow:", part.count,
                    "\" title=\"", FormatCount(part.count), " ", Html(part.name), "\"></i>");
  }
  html += "</div><ul class=legend>";
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    absl::StrAppend(&html, "<li class=", part.style, ">", FormatCount(part.count), " ",
                    Html(part.name), "</li>");
  }
  return html + "</ul>";
}

std::string Headline(const ReportInput& input, const ReportAnalysis& analysis) {
  std::string html = "<section class=hero><div class=lead><p class=eyebrow>";
  absl::StrAppend(&html, Html(input.problem_name.empty() ? "kernels" : input.problem_name));
  if (!input.target.empty()) absl::StrAppend(&html, " <span>on</span> ", Html(input.target));
  absl::StrAppend(&html, "</p>");
  const MeasuredOk* ok =
      analysis.shown_best.has_value() ? OkOf(analysis.shown_best->measurement) : nullptr;
  if (ok != nullptr) {
    const Ratio& speedup = ok->speedup;
    if (analysis.faster) {
      absl::StrAppend(&html, "<h1><strong>", Times(speedup.value),
                      "</strong> as fast as the reference</h1>");
    } else {
      absl::StrAppend(
          &html, "<h1 class=flat>No kernel faster than the reference; the best runs at <strong>",
          Times(speedup.value), "</strong></h1>");
    }
    absl::StrAppend(&html, "<p class=interval><b>", Times(speedup.low), " – ", Times(speedup.high),
                    "</b> ", FormatShare(speedup.confidence > 0 ? speedup.confidence : 0.95),
                    " interval ");
    if (analysis.confirmed) {
      html += Chip("good", "confirmed at the final level");
    } else {
      html += Chip("warn", "screening measurement, not confirmed");
    }
    html += "</p>";
  } else if (input.candidates.empty()) {
    html += "<h1 class=flat>Nothing has been settled yet</h1>";
  } else if (analysis.counts.measured == 0) {
    html +=
        "<h1 class=flat>No candidate was measured</h1><p class=interval>A forecast is not a "
        "result: nothing can be called best without a measurement.</p>";
  } else {
    html += "<h1 class=flat>No candidate gave a correct, timed result</h1>";
  }
  if (!input.problem_title.empty()) {
    absl::StrAppend(&html, "<p class=about><b>", Html(input.problem_title), ".</b> ",
                    Html(input.problem_description), "</p>");
  }
  html += SettledBar(analysis.counts);
  html += "</div><dl class=facts>";
  if (ok != nullptr) {
    const Candidate& best = analysis.shown_best->candidate;
    html += KeyValue("best kernel",
                     absl::StrCat("<b>", Html(OriginOf(best)), "</b> ", TunableChips(best)));
    if (!ok->shapes.empty()) {
      const ShapeTiming& timing = ok->shapes.front();
      html += KeyValue(
          "run time", absl::StrCat("<b>", FormatTimeNs(timing.candidate.median_ns), "</b> against ",
                                   FormatTimeNs(timing.reference.median_ns), ", ",
                                   Html(FormatAxes(timing.shape))));
    }
  }
  if (analysis.device.has_value()) {
    std::string device = Html(analysis.device->model);
    if (analysis.device->compute_units > 0) {
      absl::StrAppend(&device, ", ", analysis.device->compute_units,
                      input.target == "cpu" ? " cores" : " units");
    }
    html += KeyValue("device", device);
  }
  if (input.space_points > 0) {
    html += KeyValue("template space",
                     absl::StrCat(FormatCount(input.space_points), " points, ",
                                  FormatShare(static_cast<double>(analysis.counts.measured) /
                                              static_cast<double>(input.space_points)),
                                  " of them measured"));
  }
  if (input.search.has_value()) {
    const ReportSearch& search = *input.search;
    html += KeyValue(
        "search", absl::StrCat("<code>", Html(search.search_id), "</code> ", Html(search.status)));
    html += KeyValue("ended by", Html(search.end_reason));
    if (search.started_ns > 0) {
      std::string when = FormatUtc(search.started_ns);
      if (search.ended_ns > search.started_ns) {
        absl::StrAppend(
            &when, ", ",
            FormatSeconds(static_cast<double>(search.ended_ns - search.started_ns) * 1e-9));
      }
      html += KeyValue("started", Html(when));
    }
  }
  return html + "</dl></section>";
}

std::string Cards(const ReportAnalysis& analysis) {
  const ReportCounts& counts = analysis.counts;
  const auto share = [&](uint64_t part) {
    return counts.considered == 0
               ? std::string()
               : FormatShare(static_cast<double>(part) / static_cast<double>(counts.considered));
  };
  const auto card = [](std::string_view style, std::string_view name, const std::string& value,
                       const std::string& note) {
    return absl::StrCat("<div class=\"card ", std::string(style), "\"><span>", Html(name),
                        "</span><b>", Html(value), "</b><small>", Html(note), "</small></div>");
  };
  const auto of_all = [&](uint64_t part) {
    const std::string text = share(part);
    return text.empty() ? text : text + " of considered";
  };
  // Confirming is no part of what forecasts could have avoided.
  const double searching = counts.device_seconds_spent - counts.device_seconds_confirming;
  const double avoided_share =
      searching + counts.device_seconds_avoided > 0
          ? counts.device_seconds_avoided / (searching + counts.device_seconds_avoided)
          : 0;
  std::string html = "<section class=cards>";
  html += card("", "considered", FormatCount(counts.considered),
               absl::StrCat(FormatCount(counts.rejected), " rejected by a fact"));
  html += card("k-measured", "measured", FormatCount(counts.measured), of_all(counts.measured));
  html += card("k-prune", "pruned", FormatCount(counts.pruned), of_all(counts.pruned));
  html +=
      card("k-defer", "deferred", FormatCount(counts.deferred),
           absl::StrCat("defer rate ", counts.considered == 0 ? std::string("-")
                                                              : FormatShare(counts.defer_rate)));
  html += card("k-promo", "promoted", FormatCount(counts.promoted),
               absl::StrCat(FormatCount(counts.faster), " measured faster"));
  html += card("k-audit", "audited", FormatCount(counts.audited), "drawn though prunable");
  html += card("", "device spent", FormatSeconds(counts.device_seconds_spent),
               counts.device_seconds_confirming > 0
                   ? absl::StrCat(FormatSeconds(counts.device_seconds_confirming), " confirming")
                   : std::string());
  html += card("", "device avoided", FormatSeconds(counts.device_seconds_avoided),
               counts.device_seconds_avoided > 0
                   ? absl::StrCat(FormatShare(avoided_share), " of the search's")
                   : std::string());
  return html + "</section>";
}

std::string MarkLegend(bool with_failures) {
  std::string html =
      "<ul class=legend><li class=promo>promoted: likely to win</li><li class=defer>deferred: the "
      "forecast was unsure</li><li class=audit>audit: drawn at random</li><li class=boot>other "
      "measurements</li>";
  if (with_failures) html += "<li class=failmark>failed</li>";
  return html + "</ul>";
}

std::string BestSoFar(const ReportInput& input, const ReportAnalysis& analysis) {
  const std::string considered = BestSoFarChart(input, analysis, ProgressAxis::kConsidered);
  if (considered.empty()) {
    return Section("progress", "Best so far", "", Empty("No candidate has a measured speedup."));
  }
  std::string body =
      "<div class=tabs><input type=radio name=axis id=ax1 checked><label for=ax1>candidates</label>"
      "<input type=radio name=axis id=ax2><label for=ax2>measurements</label>"
      "<input type=radio name=axis id=ax3><label for=ax3>time</label>";
  absl::StrAppend(
      &body, "<div class=\"tab t1\">", considered, "</div><div class=\"tab t2\">",
      BestSoFarChart(input, analysis, ProgressAxis::kMeasured), "</div><div class=\"tab t3\">",
      BestSoFarChart(input, analysis, ProgressAxis::kTime), "</div></div>", MarkLegend(true));
  return Section(
      "progress", "Best so far",
      "Speedup over the reference. Every dot is a measurement; forecasts do not appear here.",
      body);
}

std::string ForecastQuality(const ReportInput& input, const ReportAnalysis& analysis) {
  const std::string scatter = ForecastScatter(input, analysis);
  const std::string reliability = ReliabilityChart(analysis);
  std::string html = "<div class=pair>";
  html +=
      Section("scatter", "Forecast and measurement",
              scatter.empty()
                  ? ""
                  : "What each forecast expected, with one standard deviation, against what was "
                    "measured, with its interval. On the diagonal they agree.",
              scatter.empty() ? Empty("No measured candidate had a forecast.")
                              : scatter + MarkLegend(false));
  std::string note;
  if (!reliability.empty()) {
    note =
        absl::StrCat("Forecasts made with a confidence of 70% should come true 70% of the time. ",
                     FormatCount(analysis.scored_forecasts),
                     " scored, each weighted by 1 / propensity; calibration error (ECE) <b>",
                     FormatFixed(analysis.reliability_error, 3), "</b>.");
  }
  html +=
      Section("reliability", "Can the forecasts be trusted?", note,
              reliability.empty() ? Empty("No forecast has met its measurement.")
                                  : reliability +
                                        "<ul class=legend><li class=count>scored forecasts</li><li "
                                        "class=audit>of which audits</li></ul>");
  return html + "</div>";
}

std::string Decisions(const ReportInput& input, const ReportAnalysis& analysis) {
  const std::string strip = DecisionStrip(input, analysis);
  if (strip.empty()) return "";
  return Section(
      "decisions", "Decisions over time",
      "How each candidate was settled, from the first to the last.",
      "<div class=widechart>" + strip +
          "</div><ul class=legend><li class=promo>promoted</li><li class=defer>deferred</li><li "
          "class=audit>audit</li><li class=boot>other measurements</li><li "
          "class=prune>pruned on the forecast</li><li class=reject>rejected by a "
          "fact</li></ul>");
}

std::string Risk(const ReportInput& input) {
  if (!input.search.has_value() || !input.search->risk.has_value()) return "";
  return Section("risk", "What may pruning have lost?", "",
                 absl::StrCat("<p class=note>", Html(RiskText(*input.search->risk)), "</p>"));
}

std::string Origins(const ReportAnalysis& analysis) {
  if (analysis.origins.empty()) return "";
  double low = 1;
  double high = 1;
  bool any_measured = false;
  for (const OriginSummary& origin : analysis.origins) {
    if (origin.speedups.empty()) continue;
    any_measured = true;
    low = std::min(low, origin.speedups.front());
    high = std::max(high, origin.speedups.back());
  }
  low = std::max(low, 1.0 / 32) / 1.05;
  high *= 1.05;
  constexpr size_t kShown = 24;
  std::string rows;
  for (size_t i = 0; i < analysis.origins.size() && i < kShown; ++i) {
    const OriginSummary& origin = analysis.origins[i];
    const std::vector<double>& speedups = origin.speedups;
    const double median = speedups.empty() ? std::nan("") : speedups[speedups.size() / 2];
    absl::StrAppend(&rows, "<tr><td>", Html(origin.origin), "</td><td class=n>",
                    FormatCount(origin.considered), "</td><td class=n>",
                    FormatCount(origin.measured), "</td><td class=n>", FormatCount(origin.pruned),
                    "</td><td class=n>", FormatCount(origin.failures), "</td><td class=n>",
                    speedups.empty() ? "–" : Times(median), "</td><td class=n><b>",
                    speedups.empty() ? "–" : Times(speedups.back()), "</b></td><td class=wide>",
                    any_measured ? SpeedupStrip(speedups, low, high) : "", "</td></tr>");
  }
  std::string body = absl::StrCat(
      "<div class=scroll><table class=plain><thead><tr><th>origin<th class=n>considered<th "
      "class=n>measured<th class=n>pruned<th class=n>failed<th class=n>median<th "
      "class=n>best<th>measured "
      "speedups</tr></thead><tbody>",
      rows, "</tbody></table></div>");
  if (analysis.origins.size() > kShown) {
    absl::StrAppend(&body, "<p class=note>The best ", kShown, " of ", analysis.origins.size(),
                    " origins.</p>");
  }
  std::string note = "Every candidate by the template or author that made it.";
  if (any_measured) {
    absl::StrAppend(&note, " Dots are measured speedups on an axis from ", Times(low), " to ",
                    Times(high), "; the bar is the reference.");
  }
  return Section("origins", "Where speed came from", note, body);
}

std::string Failures(const ReportAnalysis& analysis) {
  if (analysis.failures.empty()) {
    return Section("failures", "Failures", "", Empty("No candidate failed."));
  }
  const double most = static_cast<double>(analysis.failures.front().count);
  std::string body = "<ul class=bars>";
  for (const FailureSummary& failure : analysis.failures) {
    absl::StrAppend(
        &body, "<li class=", failure.measured ? "ran" : "free", "><span>", Html(failure.phrase),
        "</span><i style=\"--w:", FormatFixed(100 * static_cast<double>(failure.count) / most, 1),
        "%\"></i><b>", FormatCount(failure.count), "</b></li>");
  }
  return Section(
      "failures", "Failures",
      "Wrong, crashing and slow kernels are results: each was caught and named. Red ones were "
      "found by running, the others by compiling alone.",
      body + "</ul>");
}

std::string ShapeTable(const MeasuredOk& ok) {
  if (ok.shapes.empty()) return "";
  std::string rows;
  for (const ShapeTiming& timing : ok.shapes) {
    const double seconds = timing.candidate.median_ns * 1e-9;
    const auto rate = [&](double amount, double unit) {
      return amount > 0 && seconds > 0 ? FormatSignificant(amount / seconds / unit, 3)
                                       : std::string("–");
    };
    absl::StrAppend(&rows, "<tr><td>", Html(FormatAxes(timing.shape)), "</td><td class=n><b>",
                    FormatTimeNs(timing.candidate.median_ns), "</b></td><td class=n>",
                    FormatTimeNs(timing.candidate.quartile1_ns), " – ",
                    FormatTimeNs(timing.candidate.quartile3_ns), "</td><td class=n>",
                    FormatTimeNs(timing.reference.median_ns), "</td><td class=n><b>",
                    Times(timing.speedup.value), "</b> <small>",
                    Html(FormatInterval(timing.speedup)), "</small></td><td class=n>");
    absl::StrAppend(&rows, rate(timing.bytes, 1e9), "</td><td class=n>", rate(timing.flops, 1e9),
                    "</td><td class=n>", timing.blocks,
                    timing.discarded_blocks > 0
                        ? absl::StrCat(" <small>(", timing.discarded_blocks, " discarded)</small>")
                        : "",
                    "</td><td>", Html(timing.stop_reason), "</td></tr>");
  }
  return absl::StrCat(
      "<div class=scroll><table class=plain><thead><tr><th>shape<th class=n>median<th "
      "class=n>quartiles<th class=n>reference<th class=n>speedup<th class=n>GB/s<th "
      "class=n>GFLOP/s<th "
      "class=n>blocks<th>ended by</tr></thead><tbody>",
      rows, "</tbody></table></div>");
}

std::string SourceListing(std::string_view source) {
  std::string html = "<pre class=src><code>";
  for (const std::string& line : HighlightSource(source)) {
    absl::StrAppend(&html, "<span class=l>", line, "\n</span>");
  }
  return html + "</code></pre>";
}

std::string BestKernel(const ReportInput& input, const ReportAnalysis& analysis) {
  if (!analysis.shown_best.has_value()) return "";
  const ReportBest& best = *analysis.shown_best;
  const MeasuredOk* ok = OkOf(best.measurement);
  std::string body = absl::StrCat("<p class=kernel><b>", Html(OriginOf(best.candidate)), "</b> ",
                                  TunableChips(best.candidate), " <code>",
                                  Html(best.candidate.candidate_id), "</code></p>");
  if (ok != nullptr) {
    body += ShapeTable(*ok);
    absl::StrAppend(&body, "<p class=note>Verified on ", ok->correctness_cases,
                    " cases and timed in ", ok->runners,
                    ok->runners == 1 ? " fresh process" : " fresh processes",
                    ", in blocks that alternate with the reference. Speedups are medians of block "
                    "ratios with bootstrap intervals.</p>");
  }
  if (best.candidate.source.empty()) {
    body += Empty("The source is not part of these records; export them with --sources.");
  } else {
    absl::StrAppend(&body, "<details open class=listing><summary>Source</summary>",
                    "<button type=button class=copy data-copy=best hidden>copy</button>",
                    SourceListing(best.candidate.source), "</details>");
  }
  if (!input.reference_source.empty()) {
    absl::StrAppend(
        &body, "<details class=listing><summary>The reference that it is compared with</summary>",
        SourceListing(input.reference_source), "</details>");
  }
  return Section("best", analysis.faster ? "The best kernel" : "The best measured kernel", "",
                 body);
}

std::string ReasonStyle(const ReportCandidate& candidate) {
  if (!candidate.decision.has_value()) return "boot";
  switch (candidate.decision->reason) {
    case DecisionReason::kLowConfidence: return "defer";
    case DecisionReason::kPromising: return "promo";
    case DecisionReason::kAudit: return "audit";
    case DecisionReason::kUnpromising:
    case DecisionReason::kBudgetPace:
    case DecisionReason::kLikelyFailure:
    case DecisionReason::kForecastOnly: return "prune";
    case DecisionReason::kCompileError:
    case DecisionReason::kDuplicate:
    case DecisionReason::kBudget:
    case DecisionReason::kCancelled:
    case DecisionReason::kUnavailable: return "reject";
    default: return "boot";
  }
}

std::string ResultCell(const ReportCandidate& candidate) {
  switch (FateOf(candidate)) {
    case Fate::kOk: {
      const Ratio& speedup = *SpeedupOf(candidate);
      const char* style = speedup.low > 1 ? "up" : speedup.high < 1 ? "down" : "same";
      return absl::StrCat("<b class=", style, ">", Times(speedup.value), "</b> <small>",
                          Html(FormatInterval(speedup)), "</small>");
    }
    case Fate::kFailed:
      return absl::StrCat("<span class=bad>", Html(FailurePhrase(candidate)), "</span>");
    case Fate::kUnstable:
      return absl::StrCat("<span class=muted>", Html(FailurePhrase(candidate)), "</span>");
    case Fate::kPruned: return "<span class=muted>not measured</span>";
    case Fate::kRejected: {
      const std::string phrase = FailurePhrase(candidate);
      return absl::StrCat("<span class=muted>", Html(phrase.empty() ? candidate.rejection : phrase),
                          "</span>");
    }
  }
  return "";
}

std::string Candidates(const ReportInput& input, const ReportAnalysis& analysis) {
  if (input.candidates.empty()) {
    return Section("candidates", "Candidates", "", Empty("No evaluation has been settled."));
  }
  const ReportCounts& counts = analysis.counts;
  const auto filter = [](std::string_view key, std::string_view name, uint64_t count) {
    if (count == 0) return std::string();
    return absl::StrCat("<button type=button data-filter=", std::string(key), ">", Html(name),
                        " <b>", FormatCount(count), "</b></button>");
  };
  std::string body =
      "<div class=tools><input type=search id=find placeholder=\"Filter: template, "
      "tunable, id, failure…\" aria-label=\"Filter candidates\">";
  absl::StrAppend(
      &body, "<div class=filters>", filter("all", "all", input.candidates.size()),
      filter("measured", "measured", counts.measured), filter("faster", "faster", counts.faster),
      filter("deferred", "deferred", counts.deferred),
      filter("promoted", "promoted", counts.promoted), filter("audited", "audited", counts.audited),
      filter("pruned", "pruned", counts.pruned), filter("failed", "failed", counts.failures),
      filter("rejected", "rejected", counts.rejected), "</div></div>");
  body +=
      "<noscript><p class=note>Sorting, filtering and the details of a candidate need the page's "
      "own "
      "script.</p></noscript><div class=scroll><table id=list class=list><thead><tr><th "
      "class=n><button type=button data-sort=sequence>#</button><th><button type=button "
      "data-sort=origin>candidate</button><th><button type=button "
      "data-sort=forecast>forecast</button><th><button type=button "
      "data-sort=decision>decision</button><th><button type=button "
      "data-sort=result>result</button><th class=n><button type=button data-sort=device>device "
      "time</button></tr></thead><tbody>";
  const std::vector<size_t> order = DisplayOrder(input);
  size_t shown = 0;
  for (const size_t i : order) {
    const ReportCandidate& candidate = input.candidates[i];
    absl::StrAppend(&body, "<tr data-i=", i, shown++ >= kPrintedCandidates ? " class=np" : "",
                    "><td class=n>", i + 1,
                    "</td><td><button type=button class=open aria-expanded=false>",
                    Html(OriginOf(candidate.candidate)), "</button> <small>",
                    Html(TunablesOf(candidate.candidate)), "</small></td><td>");
    if (candidate.forecast.has_value()) {
      absl::StrAppend(&body, BinHistogram(*candidate.forecast), "<small>",
                      Times(std::exp2(candidate.forecast->expected_log2_speedup)), "</small>");
    }
    body += "</td><td>";
    if (analysis.superseded[i]) {
      body += Chip("prune", FateOf(candidate) == Fate::kPruned ? "at first pruned" : "asked again");
    } else if (analysis.is_confirmation[i]) {
      body += Chip("good", "confirmation");
    } else if (candidate.decision.has_value()) {
      body += Chip(ReasonStyle(candidate), ReasonWord(candidate.decision->reason));
      const Decision& decision = *candidate.decision;
      if (candidate.forecast.has_value() && decision.kind != DecisionKind::kReject) {
        absl::StrAppend(&body, " <small>win ", FormatShare(decision.win_probability), "</small>");
      }
    }
    absl::StrAppend(&body, "</td><td>", ResultCell(candidate), "</td><td class=n>");
    if (candidate.reused) {
      body += "<small>reused</small>";
    } else if (candidate.measurement.has_value()) {
      body += FormatTimeNs(static_cast<double>(candidate.measurement->device_time_ns));
    }
    body += "</td></tr>";
  }
  body += "</tbody></table></div><p class=note id=shown></p>";
  if (order.size() > kPrintedCandidates) {
    absl::StrAppend(&body, "<p class=\"note printonly\">The first ", kPrintedCandidates, " of ",
                    FormatCount(order.size()), " candidates; the page itself holds all.</p>");
  }
  return Section("candidates", "Every candidate's story",
                 "Best first. The bars are the forecast over the bins of speedup, slow to fast, "
                 "and P(failure) "
                 "in red. Open a row for its decision, facts, timings and source.",
                 body);
}

std::string Environment(const ReportInput& input, const ReportAnalysis& analysis) {
  std::string list = "<dl class=kv>";
  if (analysis.device.has_value()) {
    const DeviceInfo& device = *analysis.device;
    list += KeyValue("device", Html(device.model));
    if (device.memory_bytes > 0) {
      list += KeyValue("memory", FormatBytes(static_cast<double>(device.memory_bytes)));
    }
    list += KeyValue("driver", Html(device.driver_version));
    list += KeyValue("runtime", Html(device.runtime_version));
  }
  list += KeyValue("architecture", Html(analysis.architecture));
  list += KeyValue("toolchain", Html(analysis.toolchain));
  list += KeyValue("measuring protocol", Html(analysis.protocol_version));
  list += KeyValue("workers", Html(Join(analysis.workers, ", ")));
  list += KeyValue("forecaster", Html(Join(analysis.forecasters, "; ")));
  list += KeyValue("policy", Html(Join(analysis.policies, "; ")));
  if (input.search.has_value()) {
    const ReportSearch& search = *input.search;
    for (const auto& [name, value] : search.limits) {
      list += KeyValue(absl::StrCat("limit: ", name), Html(value));
    }
    list += KeyValue("seed", std::to_string(search.seed));
    if (search.measure_everything) list += KeyValue("forecasts", "none: everything is measured");
  }
  if (analysis.shown_best.has_value()) {
    if (const MeasuredOk* ok = OkOf(analysis.shown_best->measurement); ok != nullptr) {
      const struct Environment& environment = ok->environment;
      if (environment.clock_start_hz > 0) {
        list += KeyValue(
            "clock while timing",
            absl::StrCat(FormatSignificant(environment.clock_start_hz * 1e-9, 3), " GHz, at least ",
                         FormatSignificant(environment.clock_min_hz * 1e-9, 3), " GHz"));
      }
      list += KeyValue("throttling", Html(Join(environment.throttle_reasons, ", ")));
      if (environment.temperature_celsius > 0) {
        list += KeyValue("temperature", FormatFixed(environment.temperature_celsius, 0) + " °C");
      }
    }
  }
  list += KeyValue("report made by", Html(input.generator_version));
  list += KeyValue("report made at", Html(FormatUtc(input.generated_ns)));
  return Section("environment", "Environment and versions", "", list + "</dl>");
}

std::string Words() {
  std::string list = "<dl class=words>";
  list += Term("candidate",
               "one kernel source for one problem and target, named by the hash of its content");
  list += Term("reference", "the implementation that speedups are relative to");
  list += Term("speedup", "reference time / candidate time: above 1 is faster");
  list +=
      Term("considered",
           "settled by a measurement, a forecast or a fact; a candidate counts once, also where it "
           "was pruned at first and measured later");
  list += Term(
      "forecast",
      "a distribution over bins of speedup and a probability of failure, made without running");
  list += Term("measured", "compiled, verified against the oracle and timed against the reference");
  list += Term("deferred",
               "measured because the forecast was unsure; defer rate = deferred / decisions");
  list += Term("promoted", "measured because the forecast says it may win");
  list += Term("audit",
               "measured although it would have been pruned, by a draw with a logged probability "
               "(its propensity); this keeps the forecasts honest");
  list += Term("pruned", "settled on the forecast, without running; it never counts as a result");
  list += Term("rejected",
               "settled by a fact: it does not compile, is a duplicate or is over the budget");
  list += Term("confirmed", "measured again at the final level, in several fresh processes");
  list += Term("device time",
               "time that the device was held for a candidate; avoided = pruned times the "
               "mean of the measured");
  list += Term("interval", "a 95% bootstrap interval of the median ratio");
  return Section("words", "Words used here", "", list + "</dl>");
}

constexpr std::string_view kLogo =
    "<svg class=logo viewBox=\"0 0 24 24\" aria-hidden=true><path d=\"M3 20V4m0 16h18\"/><path "
    "class=a "
    "d=\"M3 15c4 0 5-9 9-9s4 6 9 4\"/><circle cx=12 cy=6 r=2 /></svg>";

}  // namespace

std::string RenderReport(const ReportInput& input) {
  const ReportAnalysis analysis = Analyze(input);
  const std::string title = absl::StrCat(
      input.problem_name.empty() ? "Kernels" : input.problem_name, " · Kernelcast report");
  std::string page =
      absl::StrCat("<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>", Html(title),
                   "</title><meta name=viewport "
                   "content=\"width=device-width,initial-scale=1\"><meta name=color-scheme "
                   "content=\"light dark\"><meta http-equiv=Content-Security-Policy "
                   "content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'; script-src 'sha256-",
                   ScriptHash(ReportScript()), "'\"><style>", std::string(ReportStyleSheet()),
                   "</style></head><body>");
  absl::StrAppend(&page, "<header class=top>", std::string(kLogo),
                  "<b>Kernelcast</b><span>search report</span>", "<nav>",
                  analysis.shown_best.has_value() ? "<a href=#best>best kernel</a>" : "",
                  "<a href=#candidates>candidates</a><a href=#environment>environment</a><a "
                  "href=#words>words</a></nav></header><main>");
  page += Headline(input, analysis);
  page += Cards(analysis);
  page += BestSoFar(input, analysis);
  page += ForecastQuality(input, analysis);
  page += Decisions(input, analysis);
  page += Risk(input);
  page += Origins(analysis);
  page += Failures(analysis);
  page += BestKernel(input, analysis);
  page += Candidates(input, analysis);
  page += "<div class=pair>" + Environment(input, analysis) + Words() + "</div>";
  absl::StrAppend(&page, "</main><footer>Made by ", Html(input.generator_version),
                  ". This page is complete in itself and loads nothing.</footer>",
                  "<script type=application/json id=data>", ReportDataJson(input, analysis),
                  "</script><script>", std::string(ReportScript()), "</script></body></html>\n");
  return page;
}

}  // namespace kernelcast::cli
