#include "services/cli/report/html.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"
#include "services/cli/core/text.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/archive_table.h"
#include "services/cli/report/assets.h"
#include "services/cli/report/candidates_html.h"
#include "services/cli/report/charts.h"
#include "services/cli/report/data_json.h"
#include "services/cli/report/gate_text.h"
#include "services/cli/report/html_parts.h"
#include "services/cli/report/learning.h"
#include "services/cli/report/search_cost.h"
#include "services/cli/report/search_json.h"
#include "services/cli/report/tree_html.h"

namespace kernelcast::cli {
namespace {

// One bar that shows how all considered candidates were settled.
std::string SettledBar(const ReportCounts& counts) {
  if (counts.considered == 0) return "";
  struct Part {
    Route route;
    uint64_t count;
  };
  const std::array parts = {
      Part{Route::kSelected, counts.selected},     Part{Route::kPromoted, counts.promoted},
      Part{Route::kDeferred, counts.deferred},     Part{Route::kAudited, counts.audited},
      Part{Route::kBootstrap, counts.bootstrap},   Part{Route::kRequested, counts.requested},
      Part{Route::kUnforecast, counts.unforecast}, Part{Route::kPruned, counts.pruned},
      Part{Route::kRejected, counts.rejected}};
  std::string html = absl::StrCat("<p class=settled><b>", FormatCount(counts.considered),
                                  "</b> candidates considered, <b>", FormatCount(counts.measured),
                                  "</b> of them measured</p><div class=settledbar>");
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    absl::StrAppend(&html, "<i class=", Html(Name(part.route)), " style=\"flex-grow:", part.count,
                    "\" title=\"", FormatCount(part.count), " ", Html(Name(part.route)), "\"></i>");
  }
  html += "</div><ul class=legend>";
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    absl::StrAppend(&html, "<li class=", Html(Name(part.route)), ">", FormatCount(part.count), " ",
                    Html(Name(part.route)), "</li>");
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
    const Ratio& speedup = analysis.best_speedup;
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
    if (analysis.best_screening.has_value()) {
      absl::StrAppend(&html, "<br><small>screening: ", Times(analysis.best_screening->value), " ",
                      Html(FormatInterval(*analysis.best_screening)), "</small>");
    }
    html += "</p>";
  } else if (input.candidates.empty()) {
    const bool ended = input.search.has_value() && input.search->has_ended_at();
    html += ended ? "<h1 class=flat>The search ended without a candidate</h1>"
                  : "<h1 class=flat>Nothing has been settled yet</h1>";
  } else if (analysis.counts.measured == 0) {
    html +=
        "<h1 class=flat>No candidate was measured</h1><p class=interval>A forecast is not a "
        "result: nothing can be called best without a measurement.</p>";
  } else if (input.search.has_value() && NothingCarriesOver(*input.search)) {
    html += "<h1 class=flat>No finalist carries over to the held-out bench shapes</h1>";
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
                     absl::StrCat("<b>", Html(NameOf(best)), "</b> ", TunableChips(best)));
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
    const v1::Search& search = *input.search;
    html += KeyValue("search", absl::StrCat("<code>", Html(search.search_id()), "</code> ",
                                            Html(StatusName(search.status()))));
    html += KeyValue("ended by", Html(search.end_reason()));
    html += KeyValue("held-out bench shapes", Html(Join(GateLines(search), "; ")));
    html += KeyValue("waits for", Html(search.waiting().reason()));
    if (const int64_t started_ns = ToNanoseconds(search.started_at()); started_ns > 0) {
      std::string when = FormatUtc(started_ns);
      if (const int64_t took_ns = ToNanoseconds(search.ended_at()) - started_ns; took_ns > 0) {
        absl::StrAppend(&when, ", ", FormatSeconds(static_cast<double>(took_ns) * 1e-9));
      }
      html += KeyValue("started", Html(when));
    }
  }
  return html + "</dl></section>";
}

std::string Cards(const ReportInput& input, const ReportAnalysis& analysis) {
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
  // Forecasts could not have avoided preparing and confirming.
  const double searching = counts.device_seconds_spent - counts.device_seconds_preparing -
                           counts.device_seconds_confirming;
  const double avoided_share =
      searching + counts.device_seconds_avoided > 0
          ? counts.device_seconds_avoided / (searching + counts.device_seconds_avoided)
          : 0;
  std::string html = "<section class=cards>";
  html += card("", "considered", FormatCount(counts.considered),
               absl::StrCat(FormatCount(counts.rejected), " rejected by a fact"));
  html += card("k-measured", "measured", FormatCount(counts.measured), of_all(counts.measured));
  html += card("k-pruned", "pruned", FormatCount(counts.pruned), of_all(counts.pruned));
  html += card("k-selected", "selected", FormatCount(counts.selected), "by the search");
  html +=
      card("k-deferred", "deferred", FormatCount(counts.deferred),
           absl::StrCat("defer rate ", counts.decided() == 0 ? std::string("-")
                                                             : FormatShare(counts.DeferRate())));
  html += card("k-promoted", "promoted", FormatCount(counts.promoted), "likely to win");
  html += card("k-audited", "audited", FormatCount(counts.audited), "drawn at random");
  html += card("", "device spent", FormatSeconds(counts.device_seconds_spent),
               absl::StrCat(FormatSeconds(counts.device_seconds_preparing), " preparing, ",
                            FormatSeconds(counts.device_seconds_confirming), " confirming"));
  html += card("", "device avoided", FormatSeconds(counts.device_seconds_avoided),
               counts.device_seconds_avoided > 0
                   ? absl::StrCat(FormatShare(avoided_share), " of measuring")
                   : std::string());
  if (const auto cost = CostOf(input.prices, UsageOf(input, analysis))) {
    html += card("", "cost", FormatMoney(cost->total()), CostDetails(*cost));
  }
  return html + "</section>";
}

// The routes by which candidates were measured, if any.
std::string MeasuredLegend(const ReportCounts& counts) {
  const auto item = [](Route route, uint64_t count, const char* meaning) {
    if (count == 0) return std::string();
    return absl::StrCat("<li class=", Html(Name(route)), ">", Html(Name(route)), ": ", meaning,
                        "</li>");
  };
  return absl::StrCat(item(Route::kSelected, counts.selected, "chosen by the search"),
                      item(Route::kPromoted, counts.promoted, "likely to win"),
                      item(Route::kDeferred, counts.deferred, "the forecast was unsure"),
                      item(Route::kAudited, counts.audited, "drawn at random"),
                      item(Route::kBootstrap, counts.bootstrap, "before forecasts can be trusted"),
                      item(Route::kRequested, counts.requested, "asked for"),
                      item(Route::kUnforecast, counts.unforecast, "without a forecast"));
}

std::string MarkLegend(const ReportCounts& counts, bool with_failures) {
  return absl::StrCat("<ul class=legend>", MeasuredLegend(counts),
                      with_failures ? "<li class=failmark>failed</li>" : "", "</ul>");
}

std::string BestSoFar(const ReportInput& input, const ReportAnalysis& analysis) {
  const std::string considered = BestSoFarChart(input, analysis, ProgressAxis::kConsidered);
  if (considered.empty()) {
    return Section("progress", "Best so far", "", Empty("No candidate has a measured speedup."));
  }
  std::string body =
      "<div class=tabs><input type=radio name=axis id=ax1 checked><label for=ax1>candidates</label>"
      "<input type=radio name=axis id=ax2><label for=ax2>measurements</label>"
      "<input type=radio name=axis id=ax3><label for=ax3>time</label>"
      "<input type=radio name=axis id=ax4><label for=ax4>device time</label>";
  const std::string tokens = BestSoFarChart(input, analysis, ProgressAxis::kTokens);
  if (!tokens.empty()) {
    body += "<input type=radio name=axis id=ax5><label for=ax5>tokens</label>";
  }
  absl::StrAppend(
      &body, "<div class=\"tab t1\">", considered, "</div><div class=\"tab t2\">",
      BestSoFarChart(input, analysis, ProgressAxis::kMeasured), "</div><div class=\"tab t3\">",
      BestSoFarChart(input, analysis, ProgressAxis::kTime), "</div><div class=\"tab t4\">",
      BestSoFarChart(input, analysis, ProgressAxis::kDeviceTime), "</div>");
  if (!tokens.empty()) absl::StrAppend(&body, "<div class=\"tab t5\">", tokens, "</div>");
  absl::StrAppend(&body, "</div>", MarkLegend(analysis.counts, true));
  return Section(
      "progress", "Best so far",
      "Speedup over the reference. Every dot is a screening measurement, diamonds are final "
      "measurements. Forecasts do not appear here.",
      body);
}

constexpr uint64_t kFewestForError = 10;

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
                              : scatter + MarkLegend(analysis.counts, false));
  std::string note;
  if (!reliability.empty()) {
    note = absl::StrCat("Forecasts with a confidence of 70% should be correct 70% of the time. ",
                        FormatCount(analysis.scored_forecasts),
                        " scored, each weighted by 1 / propensity; ");
    const Interval& error = analysis.reliability_error;
    // Resamples of a few forecasts are much alike, so their interval would be too narrow.
    if (analysis.scored_forecasts < kFewestForError) {
      note += "too few for a calibration error.";
    } else {
      absl::StrAppend(&note, "calibration error (ECE) <b>", FormatFixed(error.value, 2), "</b> [",
                      FormatFixed(error.low, 2), ", ", FormatFixed(error.high, 2),
                      "], the interval from resampling the forecasts.");
    }
  }
  html +=
      Section("reliability", "Can the forecasts be trusted?", note,
              reliability.empty() ? Empty("No forecast has a measurement yet.")
                                  : reliability +
                                        "<ul class=legend><li class=count>scored forecasts</li><li "
                                        "class=audited>of which audits</li></ul>");
  return html + "</div>";
}

std::string Decisions(const ReportInput& input, const ReportAnalysis& analysis) {
  const std::string strip = DecisionStrip(input, analysis);
  if (strip.empty()) return "";
  return Section("decisions", "Decisions over time",
                 "How each candidate was settled, from the first to the last.",
                 "<div class=widechart>" + strip + "</div><ul class=legend>" +
                     MeasuredLegend(analysis.counts) +
                     "<li class=pruned>pruned on the forecast</li><li class=rejected>rejected by a "
                     "fact</li></ul>");
}

std::string Risk(const ReportInput& input) {
  if (!input.search.has_value() || input.search->selective_risk().candidates() == 0) return "";
  return Section(
      "risk", "What may pruning have lost?", "",
      absl::StrCat("<p class=note>", Html(RiskText(input.search->selective_risk())), "</p>"));
}

std::string Models(const ReportInput& input) {
  if (!input.search.has_value()) return "";
  std::string body;
  for (const std::string& text : ModelTexts(*input.search)) {
    absl::StrAppend(&body, "<p class=note>", Html(text), "</p>");
  }
  return body.empty() ? "" : Section("models", "What models did", "", body);
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
  return Section("failures", "Failures",
                 "Wrong, crashing and slow kernels are results. Red ones were found by running, "
                 "the others by compiling alone.",
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
    absl::StrAppend(&rows, "<tr><td>", Html(FormatShape(ok, timing)), "</td><td class=n><b>",
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

std::string BestKernel(const ReportInput& input, const ReportAnalysis& analysis) {
  if (!analysis.shown_best.has_value()) return "";
  const ReportBest& best = *analysis.shown_best;
  const MeasuredOk* ok = OkOf(best.measurement);
  std::string body = absl::StrCat("<p class=kernel><b>", Html(NameOf(best.candidate)), "</b> ",
                                  TunableChips(best.candidate), " <code>",
                                  Html(best.candidate.candidate_id), "</code></p>");
  if (ok != nullptr) {
    body += ShapeTable(*ok);
    absl::StrAppend(
        &body, "<p class=note>Verified on ", ok->correctness_cases, " cases and timed in ",
        ok->runners, ok->runners == 1 ? " fresh process" : " fresh processes",
        ", in blocks that alternate with the reference. Speedups are medians of block "
        "ratios.",
        ok->determinism == Determinism::kUnknown
            ? ""
            : absl::StrCat(" The ", std::string(DeterminismPhrase(ok->determinism)), "."),
        "</p>");
    for (const MeasurementNote note : ok->notes) {
      absl::StrAppend(&body, "<p class=note><b>Note:</b> ", Html(NoteText(note)), ".</p>");
    }
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
    const v1::SearchSpec& spec = input.search->spec();
    const v1::Budget& budget = spec.budget();
    const auto limit = [&list](const char* name, uint64_t most, const std::string& text) {
      if (most > 0) list += KeyValue(absl::StrCat("limit: ", name), text);
    };
    const auto time = [&limit](const char* name, const google::protobuf::Duration& most) {
      const int64_t ns = ToNanoseconds(most);
      limit(name, static_cast<uint64_t>(ns), FormatSeconds(static_cast<double>(ns) * 1e-9));
    };
    limit("measurements", budget.max_measurements(), FormatCount(budget.max_measurements()));
    limit("candidates", budget.max_candidates(), FormatCount(budget.max_candidates()));
    time("wall time", budget.max_wall_time());
    time("device time", budget.max_device_time());
    list += KeyValue("seed", std::to_string(spec.seed()));
    if (spec.measure_everything()) list += KeyValue("forecasts", "none: everything is measured");
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
           "settled by a measurement, a forecast or a fact; a candidate counts once, even if it "
           "was pruned at first and measured later");
  list += Term(
      "forecast",
      "a distribution over bins of speedup and a probability of failure, made without running");
  list += Term("measured", "compiled, verified against the oracle and timed against the reference");
  list += Term("bootstrap", "measured first, before forecasts can be trusted");
  list += Term("selected", "measured because the search chose it as its next measurement");
  list += Term("deferred",
               "measured because the forecast was unsure or declined; defer rate = deferred / "
               "decided");
  list += Term("promoted", "measured because the forecast says it may win");
  list += Term("audited",
               "measured although it would have been pruned, by a draw with a logged probability "
               "(its propensity)");
  list += Term("pruned", "settled on the forecast, without running; it never counts as a result");
  list += Term("rejected",
               "settled by a fact: it does not compile, is a duplicate or is over the budget");
  list += Term("screening", "the first measurement, precise enough to rank candidates");
  list += Term("final, confirmed", "measured again at the final level, in several new processes");
  list += Term("device time",
               "time that a device worked for the search; avoided = what measuring the pruned "
               "candidates would have taken, without preparation and confirmation");
  list += Term("interval",
               "with 95% probability it holds the value of a later, independent measurement");
  return Section("words", "Words used here", "", list + "</dl>");
}

}  // namespace

std::string RenderReport(const ReportInput& input) {
  const ReportAnalysis analysis = Analyze(input);
  std::string page = PageStart(
      absl::StrCat(input.problem_name.empty() ? "Kernels" : input.problem_name,
                   " · Kernelcast report"),
      "search report",
      absl::StrCat(analysis.shown_best.has_value() ? "<a href=#best>best kernel</a>" : "",
                   "<a href=#candidates>candidates</a><a href=#environment>environment</a><a "
                   "href=#words>words</a>"),
      ReportScript());
  page += Headline(input, analysis);
  page += Cards(input, analysis);
  page += BestSoFar(input, analysis);
  page += TreeHtml(input, analysis);
  page += ArchiveHtml(input);
  page += ForecastQuality(input, analysis);
  page += LearningHtml(input);
  page += Decisions(input, analysis);
  page += Risk(input);
  page += Models(input);
  page += Origins(analysis);
  page += Failures(analysis);
  page += BestKernel(input, analysis);
  page += CandidatesHtml(input, analysis);
  page += "<div class=pair>" + Environment(input, analysis) + Words() + "</div>";
  absl::StrAppend(&page, "</main><footer>Made by ", Html(input.generator_version),
                  ". This page is complete in itself and loads nothing.</footer>",
                  "<script type=application/json id=data>", ReportDataJson(input, analysis),
                  "</script><script>", std::string(ReportScript()), "</script></body></html>\n");
  return page;
}

}  // namespace kernelcast::cli
