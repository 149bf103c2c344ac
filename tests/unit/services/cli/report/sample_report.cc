#include "tests/unit/services/cli/report/sample_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "common/convert/convert.h"
#include "common/domain/bins.h"
#include "services/cli/report/analysis.h"

namespace kernelcast::cli {
namespace {

constexpr int64_t kStartNs = 1'800'000'000'000'000'000;

struct Template {
  const char* name;
  double log2_speed;
  double failure;
};
constexpr std::array kTemplates = {
    Template{"three_pass", 0.1, 0.0},   Template{"online", -0.7, 0.02},
    Template{"vector_poly", 1.5, 0.05}, Template{"blocked_rows", 1.1, 0.1},
    Template{"exp_table", 0.4, 0.5},    Template{"wide_sum", -1.2, 0.0}};

const char* const kBody = R"(// LANES-wide vectors, UNROLL of them in flight.
#include <kernelcast/candidate.h>
#include <math.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));

/* Rows are independent;
   each is read twice. */
extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    float max = -INFINITY;
#pragma GCC unroll UNROLL
    for (int64_t c = 0; c < cols; ++c) max = fmaxf(max, x[r * cols + c]);
    double sum = 0.0;
    for (int64_t c = 0; c < cols; ++c) sum += y[r * cols + c] = expf(x[r * cols + c] - max);
    const float scale = 1.0f / static_cast<float>(sum);
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] *= scale;
  }
  return 0;
}
)";

std::string Id(const char* prefix, int number) {
  std::array<char, 48> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%s%032x", prefix, number * 2654435761u);
  return buffer.data();
}

Measurement OkMeasurement(const std::string& id, double speedup, MeasureLevel level) {
  Measurement measurement;
  measurement.candidate_id = id;
  measurement.target = "cpu";
  measurement.level = level;
  measurement.worker_id = "worker-1";
  measurement.device = {"AMD EPYC 9654 96-Core Processor", "", "", "", 2, uint64_t{24} << 30};
  measurement.device_time_ns = 620'000'000;
  measurement.toolchain = "g++ 12.2.0 -std=c++20 -O3 -march=native";
  measurement.architecture = "x86-64/znver4";
  measurement.protocol_version = "abba/1";
  MeasuredOk ok;
  ok.speedup = {speedup, speedup * 0.992, speedup * 1.008, 0.95};
  ok.comparison = speedup > 1.01   ? Comparison::kFaster
                  : speedup < 0.99 ? Comparison::kSlower
                                   : Comparison::kSame;
  ok.runners = level == MeasureLevel::kFinal ? 5 : 1;
  ok.correctness_cases = 31;
  ok.environment.clock_start_hz = 3.7e9;
  ok.environment.clock_min_hz = 3.65e9;
  ShapeTiming timing;
  timing.shape = {{"rows", 128}, {"cols", 1024}};
  timing.reference = {412'000, 401'000, 408'000, 417'000, 440'000, 300};
  const double candidate_ns = 412'000 / speedup;
  timing.candidate = {candidate_ns,        candidate_ns * 0.97, candidate_ns * 0.99,
                      candidate_ns * 1.02, candidate_ns * 1.2,  300};
  timing.speedup = ok.speedup;
  timing.blocks = 24;
  timing.discarded_blocks = 1;
  timing.stop_reason = "precision";
  timing.bytes = 8.0 * 128 * 1024;
  timing.flops = 5.0 * 128 * 1024;
  ok.shapes.push_back(timing);
  measurement.outcome = ok;
  return measurement;
}

Forecast MakeForecast(const std::string& id, double expected, double scale, double failure,
                      uint64_t labels) {
  Forecast forecast;
  forecast.candidate_id = id;
  forecast.bin_probabilities = BinsFromStudentT(BinScheme::Default(), expected, scale, 6);
  forecast.failure_probability = failure;
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.expected_log2_speedup = expected;
  forecast.stddev_log2_speedup = scale;
  forecast.backend = "embedded";
  forecast.backend_version = "xgboost/1";
  forecast.calibrator_version = "vector/1";
  forecast.labels_seen = labels;
  return forecast;
}

}  // namespace

ReportCandidate MeasuredCandidate(const std::string& id, double speedup, DecisionReason reason) {
  ReportCandidate candidate;
  candidate.candidate.candidate_id = id;
  candidate.candidate.origin = "template:three_pass";
  candidate.decision =
      Decision{DecisionKind::kMeasure, reason, "threshold", "1", 1, 0.4, 0.1, 0, {}};
  candidate.forecast = MakeForecast(id, std::log2(speedup), 0.3, 0.01, 10);
  candidate.measurement = OkMeasurement(id, speedup, MeasureLevel::kScreen);
  candidate.accepted_ns = kStartNs;
  candidate.settled_ns = kStartNs + 1'000'000'000;
  return candidate;
}

ReportCandidate PrunedCandidate(const std::string& id) {
  ReportCandidate candidate = MeasuredCandidate(id, 0.5);
  candidate.measurement.reset();
  candidate.decision->kind = DecisionKind::kPrune;
  candidate.decision->reason = DecisionReason::kUnpromising;
  return candidate;
}

ReportInput SampleReport(int candidates) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  ReportInput input;
  input.problem_name = "row_softmax";
  input.problem_title = "Row-wise softmax";
  input.problem_description =
      "Softmax over the last axis of a matrix, each row on its own, in the numerically stable "
      "form.";
  input.reference_source = kBody;
  input.space_points = 1244;
  input.target = "cpu";
  input.generated_ns = kStartNs + 90'000'000'000;
  input.generator_version = "kernelcast 0.1.0";
  v1::Search search;
  search.set_search_id("s_4c1d90aa27b3");
  search.set_status(v1::SEARCH_STATUS_DONE);
  search.set_end_reason("budget: max_measurements");
  search.mutable_spec()->set_policy("threshold");
  search.mutable_spec()->set_seed(1);
  search.mutable_spec()->mutable_budget()->set_max_measurements(80);
  *search.mutable_started_at() = TimestampToProto(kStartNs);
  *search.mutable_ended_at() = TimestampToProto(kStartNs + 84'000'000'000);

  double best = 0;
  std::string best_id;
  Candidate best_candidate;
  uint64_t labels = 0;
  int64_t now_ns = kStartNs;
  for (int i = 0; i < candidates; ++i) {
    const Template& from = kTemplates[static_cast<size_t>(uniform(random) * kTemplates.size())];
    ReportCandidate row;
    row.sequence = static_cast<uint64_t>(10 + 6 * i);
    row.request_id = Id("r_", i);
    Candidate& candidate = row.candidate;
    candidate.candidate_id = Id("k_", i + 1);
    candidate.target = "cpu";
    candidate.origin = std::string("template:") + from.name;
    const int lanes = 1 << (2 + static_cast<int>(uniform(random) * 3));
    const int unroll = 1 << static_cast<int>(uniform(random) * 4);
    candidate.tunables = {{"TEMPLATE", from.name},
                          {"LANES", std::to_string(lanes)},
                          {"UNROLL", std::to_string(unroll)},
                          {"FLAGS", "1"}};
    if (uniform(random) < 0.5) candidate.flags = {"-ffast-math"};
    candidate.source = "#define LANES " + std::to_string(lanes) + "\n#define UNROLL " +
                       std::to_string(unroll) + "\n" + kBody;
    if (const auto schema = FindFactSchema(kCpuAssemblySchemaId); schema.ok()) {
      row.facts.schema = row.reference_facts.schema = std::string(kCpuAssemblySchemaId);
      for (size_t f = 0; f < (*schema)->names.size(); ++f) {
        row.reference_facts.values.push_back(static_cast<double>(f % 13) * 3);
        row.facts.values.push_back(
            std::floor(static_cast<double>(f % 13) * (1 + 4 * uniform(random) * uniform(random))));
      }
    }
    const double truth = from.log2_speed + 0.25 * std::log2(lanes / 4.0) -
                         0.12 * std::fabs(std::log2(unroll) - 1.5) + 0.25 * normal(random);
    const double certainty = 0.28 + 0.9 / (1 + static_cast<double>(labels) / 8);
    const double expected = truth + certainty * 0.8 * normal(random);
    now_ns += 60'000'000;
    row.accepted_ns = now_ns;
    row.decision = Decision{DecisionKind::kMeasure,
                            DecisionReason::kBootstrap,
                            "threshold",
                            "1",
                            1,
                            0.2,
                            0.12,
                            best,
                            {}};
    if (uniform(random) < 0.04) {
      row.compile_error = CompileError{
          CompileStage::kCompiler, "kernel.cc:7:3: error: 'foo' was not declared in this scope\n"};
      row.decision->kind = DecisionKind::kReject;
      row.decision->reason = DecisionReason::kCompileError;
      row.settled_ns = now_ns;
      input.candidates.push_back(std::move(row));
      continue;
    }
    row.forecast = MakeForecast(candidate.candidate_id, expected, certainty,
                                std::min(0.9, from.failure + 0.02), labels);
    const double win =
        best > 0 ? 0.5 * std::erfc((std::log2(best) - expected) / certainty / 1.414) : 0.5;
    row.decision->win_probability = win;
    row.decision->audit_propensity = 1;
    if (labels < 8) {
      row.decision->reason = DecisionReason::kBootstrap;
    } else if (win > 0.25) {
      row.decision->reason = DecisionReason::kPromising;
    } else if (win > 0.12) {
      row.decision->reason = DecisionReason::kLowConfidence;
    } else if (uniform(random) < 0.06) {
      row.decision->reason = DecisionReason::kAudit;
      row.decision->audit_propensity = 0.06;
    } else {
      row.decision->kind = DecisionKind::kPrune;
      row.decision->reason = DecisionReason::kUnpromising;
      row.decision->audit_propensity = 0.06;
      row.settled_ns = now_ns;
      input.candidates.push_back(std::move(row));
      continue;
    }
    now_ns += 620'000'000;
    row.settled_ns = now_ns;
    ++labels;
    if (uniform(random) < from.failure) {
      Measurement failed = OkMeasurement(candidate.candidate_id, 1, MeasureLevel::kScreen);
      const double kind = uniform(random);
      if (kind < 0.6) {
        WrongResult wrong;
        wrong.shape = {{"rows", 7}, {"cols", 129}};
        wrong.distribution = "large";
        wrong.output = "y";
        wrong.mismatches = 12;
        wrong.elements = 903;
        wrong.got = 0.25;
        wrong.expected = 0.125;
        failed.outcome = wrong;
      } else if (kind < 0.8) {
        Crash crash;
        crash.signal = 11;
        failed.outcome = crash;
      } else if (kind < 0.9) {
        failed.outcome = Timeout{2'000'000'000, "check"};
      } else {
        failed.outcome =
            Exploit{Exploit::Kind::kMutatedInput, "input x changed during a timed call"};
      }
      row.feedback = MeasurementFeedback(failed);
      row.measurement = std::move(failed);
    } else {
      const double speedup = std::exp2(truth);
      row.measurement = OkMeasurement(candidate.candidate_id, speedup, MeasureLevel::kScreen);
      if (speedup > best) {
        best = speedup;
        best_id = candidate.candidate_id;
        best_candidate = candidate;
      }
    }
    input.candidates.push_back(std::move(row));
  }
  if (best > 0) {
    input.confirmed = ReportBest{
        best_candidate, OkMeasurement(best_id, best * 0.995, MeasureLevel::kFinal), "r_final"};
  }
  v1::SearchArchive& archive = *search.mutable_archive();
  archive.set_strategy("map_elites");
  archive.set_total(23);
  for (int i = 0; i < 23; ++i) {
    v1::ArchiveEntry& entry = *archive.add_entries();
    entry.set_place(i % 2 == 0 ? "memory, 32 B vectors, 64 to 127 instructions in the inner loop"
                               : "arithmetic");
    entry.set_candidate_id(Id("k_", i + 1));
    entry.set_origin("template:vector_poly");
    entry.set_speedup(3.0 / (i + 1));
    entry.set_kernels(static_cast<uint64_t>(1 + i));
    entry.set_children(2);
    entry.set_expansions(3);
    entry.set_value(2);
  }
  for (int i = 0; i < 12; ++i) search.mutable_spec()->add_lessons();
  input.prices.device_hour = 2.5;
  input.search = std::move(search);
  return input;
}

std::vector<ForecastOutcome> ForecastOutcomes(const std::vector<ReportCandidate>& candidates,
                                              uint64_t* skipped) {
  const std::map<std::string, double> speedups = SpeedupsById(candidates);
  std::vector<ForecastOutcome> outcomes;
  uint64_t unknown_baseline = 0;
  for (const ReportCandidate& candidate : candidates) {
    std::optional<ForecastOutcome> outcome =
        ForecastOutcomeOf(candidate, speedups, &unknown_baseline);
    if (outcome.has_value()) outcomes.push_back(*std::move(outcome));
  }
  if (skipped != nullptr) *skipped = unknown_baseline;
  return outcomes;
}

}  // namespace kernelcast::cli
