#include "services/cli/report/row_export.h"

#include <algorithm>
#include <limits>
#include <random>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cli/core/text.h"
#include "services/cli/report/analysis.h"

namespace kernelcast::cli {
namespace {

constexpr const char* kExperiment = "kernelcast";

RowOrigin OriginOfRow(const RecordToExport& record) {
  return {record.candidate.candidate.candidate_id, record.search_id, kExperiment};
}

// Returns "" if the source is not available.
std::string SourceOf(const Candidate& candidate, const SourceBook& book) {
  if (!candidate.source.empty()) return candidate.source;
  const auto found = book.candidates.find(candidate.candidate_id);
  return found == book.candidates.end() ? std::string() : found->second;
}

std::string ReferenceOf(const Candidate& candidate, const SourceBook& book) {
  const auto found = book.references.find(ReferenceKey(candidate.problem_id, candidate.target));
  return found == book.references.end() ? std::string() : found->second;
}

std::map<std::string, std::string> SourcesById(const std::vector<RecordToExport>& records,
                                               const SourceBook& book) {
  std::map<std::string, std::string> sources = book.candidates;
  for (const RecordToExport& record : records) {
    const Candidate& candidate = record.candidate.candidate;
    if (!candidate.source.empty()) sources[candidate.candidate_id] = candidate.source;
  }
  return sources;
}

std::string HardwareOf(const RecordToExport& record) {
  return record.candidate.measurement->device.model;
}

// Ratio of two speedups, with the widest interval that both allow.
Ratio Divide(const Ratio& by, const Ratio& over) {
  return {by.value / over.value, by.low / over.high, by.high / over.low,
          std::min(by.confidence, over.confidence)};
}

// Ratios in old records may lack an interval.
Ratio WithInterval(Ratio ratio) {
  if (!(ratio.low > 0)) ratio.low = ratio.value;
  if (!(ratio.high > 0)) ratio.high = ratio.value;
  return ratio;
}

// The measurement that counts for each candidate on each device.
using CandidateOnDevice = std::tuple<std::string, std::string, std::string, std::string>;
std::map<CandidateOnDevice, const RecordToExport*> BestMeasurements(
    const std::vector<RecordToExport>& records) {
  std::map<CandidateOnDevice, const RecordToExport*> best;
  const auto rank = [](const RecordToExport& record) {
    const Ratio& speedup = *SpeedupOf(record.candidate);
    return std::make_tuple(record.candidate.measurement->level == MeasureLevel::kFinal ? 0 : 1,
                           (speedup.high - speedup.low) / speedup.value, record.candidate.sequence);
  };
  for (const RecordToExport& record : records) {
    const Ratio* speedup = SpeedupOf(record.candidate);
    if (speedup == nullptr || !(speedup->value > 0)) continue;
    const Candidate& candidate = record.candidate.candidate;
    const RecordToExport*& slot =
        best[{candidate.problem_id, candidate.target, HardwareOf(record), candidate.candidate_id}];
    if (slot == nullptr || rank(record) < rank(*slot)) slot = &record;
  }
  return best;
}

RowJson ProvenanceOf(const RecordToExport& record) {
  const ReportCandidate& candidate = record.candidate;
  const Measurement& measurement = *candidate.measurement;
  RowJson notes = RowJson::array();
  for (const MeasurementNote note : std::get<MeasuredOk>(measurement.outcome).notes) {
    notes.push_back(std::string(Name(note)));
  }
  return {{"candidate_id", candidate.candidate.candidate_id},
          {"request_id", candidate.request_id},
          {"search_id", record.search_id},
          {"sequence", candidate.sequence},
          {"level", measurement.level == MeasureLevel::kFinal ? "final" : "screen"},
          {"device", measurement.device.model},
          {"driver", measurement.device.driver_version},
          {"toolchain", measurement.toolchain},
          {"architecture", measurement.architecture},
          {"protocol", measurement.protocol_version},
          {"worker_id", measurement.worker_id},
          {"measured_at", FormatUtc(measurement.measured_at_ns)},
          {"notes", std::move(notes)}};
}

// Makes rows and skips those whose sources are missing.
class TrainingRowMaker {
 public:
  TrainingRowMaker(const TrainingOptions& options, TrainingRows& rows)
      : options_(options), rows_(rows) {}

  // `anchor` null: the reference.
  void Add(PairType type, const RecordToExport& record, const RecordToExport* anchor,
           const std::string& source, const std::string& anchor_source) {
    if (source.empty() || anchor_source.empty()) {
      ++rows_.without_source;
      return;
    }
    Ratio speedup = WithInterval(*SpeedupOf(record.candidate));
    if (anchor != nullptr) speedup = Divide(speedup, WithInterval(*SpeedupOf(anchor->candidate)));
    const auto bin = options_.scheme->Label(speedup.value);
    const auto low_bin = options_.scheme->Label(speedup.low);
    const auto high_bin = options_.scheme->Label(speedup.high);
    if (!bin.ok() || !low_bin.ok() || !high_bin.ok()) return;
    TrainingRow& row = rows_.rows.emplace_back();
    row.pair_type = type;
    row.row_id = absl::StrCat(record.candidate.request_id, "/", std::string(Name(type)));
    if (anchor != nullptr) absl::StrAppend(&row.row_id, "/", anchor->candidate.request_id);
    row.pack = record.problem_name;
    row.anchor_code = anchor_source;
    row.candidate_code = source;
    row.aggregated_speedup = speedup.value;
    row.relative_bin = *bin;
    row.hardware = HardwareOf(record);
    row.origin = OriginOfRow(record);
    rows_.origins[row.row_id] = {&record, anchor};
    if (!options_.details) return;
    TrainingDetails& details = row.details.emplace();
    details.bin_scheme_id = options_.scheme->id();
    details.prompt_version = options_.prompt_version;
    details.prompt_hash = options_.prompt_hash;
    details.answer_schema_hash = options_.answer_schema_hash;
    details.speedup_low = speedup.low;
    details.speedup_high = speedup.high;
    details.confidence = speedup.confidence;
    details.low_bin = *low_bin;
    details.high_bin = *high_bin;
    details.provenance = {{"candidate", ProvenanceOf(record)}};
    details.provenance["anchor"] = anchor == nullptr ? RowJson("reference") : ProvenanceOf(*anchor);
  }

 private:
  const TrainingOptions& options_;
  TrainingRows& rows_;
};

// A uniform draw below `bound`, the same on every platform.
size_t Below(std::mt19937_64& random, size_t bound) {
  const uint64_t limit =
      std::numeric_limits<uint64_t>::max() - std::numeric_limits<uint64_t>::max() % bound;
  uint64_t value = random();
  while (value >= limit) value = random();
  return static_cast<size_t>(value % bound);
}

template <typename T>
void Shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(random, i)]);
}

}  // namespace

std::string ReferenceKey(const std::string& problem_id, const std::string& target) {
  return absl::StrCat(problem_id, "/", target);
}

RowExport ExportEvaluationRows(const std::vector<RecordToExport>& records, const SourceBook& book,
                               const BinScheme& scheme) {
  RowExport result;
  const std::map<std::string, std::string> sources = SourcesById(records, book);
  std::map<std::string, double> speedups;
  for (const RecordToExport& record : records) {
    if (const Ratio* speedup = SpeedupOf(record.candidate); speedup != nullptr) {
      speedups.emplace(record.candidate.candidate.candidate_id, speedup->value);
    }
  }
  for (const RecordToExport& record : records) {
    const ReportCandidate& candidate = record.candidate;
    const Ratio* measured = SpeedupOf(candidate);
    if (measured == nullptr || candidate.reused) continue;
    std::optional<double> speedup = measured->value;
    std::string anchor = ReferenceOf(candidate.candidate, book);
    if (candidate.forecast.has_value() && !candidate.forecast->baseline_candidate_id.empty()) {
      speedup = SpeedupOverBaseline(*candidate.forecast, measured->value, speedups);
      const auto source = sources.find(candidate.forecast->baseline_candidate_id);
      anchor = source == sources.end() ? "" : source->second;
    }
    if (!speedup.has_value()) continue;
    const auto bin = scheme.Label(*speedup);
    if (!bin.ok()) continue;
    EvaluationRow row;
    row.candidate_code = SourceOf(candidate.candidate, book);
    if (row.candidate_code.empty() || anchor.empty()) {
      ++result.without_source;
      continue;
    }
    row.comparison_id = candidate.request_id;
    row.pack = record.problem_name;
    row.anchor_code = anchor;
    row.hardware = HardwareOf(record);
    row.aggregated_speedup = *speedup;
    row.true_bin = *bin;
    row.origin = OriginOfRow(record);
    row.bin_scheme_id = scheme.id();
    if (const double weight = WeightOf(candidate); weight != 1) row.propensity = 1 / weight;
    result.rows.push_back(ToJson(row));
  }
  return result;
}

PredictionRow PredictionRowOf(const Forecast& forecast) {
  PredictionRow row;
  row.surrogate_label = absl::StrCat(forecast.backend, " ", forecast.backend_version);
  row.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  row.bin_probabilities = forecast.bin_probabilities;
  row.reasoning = forecast.rationale;
  row.raw_probability_sum = forecast.raw_probability_sum;
  row.input_tokens = static_cast<int64_t>(forecast.token_usage.input_tokens);
  row.output_tokens = static_cast<int64_t>(forecast.token_usage.output_tokens);
  row.elapsed_s = static_cast<double>(std::max<int64_t>(0, forecast.latency_ns)) * 1e-9;
  row.bin_scheme_id = forecast.bin_scheme_id;
  row.failure_probability = forecast.failure_probability;
  row.expected_log2_speedup = forecast.expected_log2_speedup;
  return row;
}

RowExport ExportPredictionRows(const std::vector<RecordToExport>& records) {
  RowExport result;
  for (const RecordToExport& record : records) {
    const ReportCandidate& candidate = record.candidate;
    if (!candidate.forecast.has_value() || candidate.reused) continue;
    PredictionRow row = PredictionRowOf(*candidate.forecast);
    row.comparison_id = candidate.request_id;
    row.pack = record.problem_name;
    result.rows.push_back(ToJson(row));
  }
  return result;
}

RowExport ExportDiscoveryPairs(const std::vector<RecordToExport>& records, const SourceBook& book,
                               const BinScheme& scheme) {
  RowExport result;
  const auto best = BestMeasurements(records);
  for (const auto& [key, child] : best) {
    const auto& [problem, target, hardware, id] = key;
    const auto parent =
        best.find({problem, target, hardware, child->candidate.candidate.parent_candidate_id});
    if (parent == best.end()) continue;
    DiscoveryPair row;
    row.g_speedup =
        SpeedupOf(child->candidate)->value / SpeedupOf(parent->second->candidate)->value;
    const auto bin = scheme.Label(row.g_speedup);
    if (!bin.ok()) continue;
    row.parent_code = SourceOf(parent->second->candidate.candidate, book);
    row.child_code = SourceOf(child->candidate.candidate, book);
    if (row.parent_code.empty() || row.child_code.empty()) {
      ++result.without_source;
      continue;
    }
    row.parent_node_id = parent->second->candidate.candidate.candidate_id;
    row.child_node_id = id;
    row.pair_id =
        absl::StrCat(parent->second->candidate.request_id, "/", child->candidate.request_id);
    row.problem_id = child->problem_name;
    row.benchmark_family = kExperiment;
    row.true_bin = *bin;
    row.hardware = hardware;
    row.origin = OriginOfRow(*child);
    row.bin_scheme_id = scheme.id();
    result.rows.push_back(ToJson(row));
  }
  return result;
}

TrainingRows MakeTrainingRows(const std::vector<RecordToExport>& records, const SourceBook& book,
                              const TrainingOptions& options) {
  TrainingRows rows;
  TrainingRowMaker maker(options, rows);
  const auto best = BestMeasurements(records);
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<const RecordToExport*>>
      pools;
  for (const auto& [key, record] : best) {
    const auto& [problem, target, hardware, id] = key;
    const Candidate& candidate = record->candidate.candidate;
    const std::string source = SourceOf(candidate, book);
    maker.Add(PairType::kSeed, *record, nullptr, source, ReferenceOf(candidate, book));
    if (!candidate.parent_candidate_id.empty()) {
      const auto parent = best.find({problem, target, hardware, candidate.parent_candidate_id});
      if (parent != best.end()) {
        maker.Add(PairType::kParentEdit, *record, parent->second, source,
                  SourceOf(parent->second->candidate.candidate, book));
      }
    }
    pools[{problem, target, hardware}].push_back(record);
  }
  std::mt19937_64 random(options.seed);
  for (const auto& [key, pool] : pools) {
    // Ordered pairs of different candidates, each at most once.
    const uint64_t possible = static_cast<uint64_t>(pool.size()) * (pool.size() - 1);
    std::map<std::pair<size_t, size_t>, bool> drawn;
    while (drawn.size() < std::min(options.pairs, possible)) {
      const size_t a = Below(random, pool.size());
      const size_t b = Below(random, pool.size());
      if (a == b || !drawn.emplace(std::make_pair(a, b), true).second) continue;
      maker.Add(PairType::kPair, *pool[a], pool[b], SourceOf(pool[a]->candidate.candidate, book),
                SourceOf(pool[b]->candidate.candidate, book));
    }
  }
  return rows;
}

std::vector<TrainingRow> BalanceRows(std::vector<TrainingRow> rows, uint64_t per_bin,
                                     uint64_t seed) {
  std::ranges::sort(rows, {}, &TrainingRow::row_id);
  std::map<int, std::map<std::string, std::vector<TrainingRow>>> bins;  // then by pack
  std::map<int, uint64_t> counts;
  for (TrainingRow& row : rows) {
    ++counts[row.relative_bin];
    bins[row.relative_bin][row.pack].push_back(std::move(row));
  }
  if (per_bin == 0) {
    per_bin = std::numeric_limits<uint64_t>::max();
    for (const auto& [bin, count] : counts) per_bin = std::min(per_bin, count);
  }
  std::mt19937_64 random(seed);
  std::vector<TrainingRow> chosen;
  for (auto& [bin, packs] : bins) {
    std::vector<std::vector<TrainingRow>*> turns;
    for (auto& [pack, of_pack] : packs) {
      Shuffle(of_pack, random);
      turns.push_back(&of_pack);
    }
    // The order of packs is random too, which matters if there are fewer rows than packs.
    Shuffle(turns, random);
    uint64_t taken = 0;
    for (bool any = true; any && taken < per_bin;) {
      any = false;
      for (std::vector<TrainingRow>* of_pack : turns) {
        if (of_pack->empty() || taken == per_bin) continue;
        chosen.push_back(std::move(of_pack->back()));
        of_pack->pop_back();
        ++taken;
        any = true;
      }
    }
  }
  Shuffle(chosen, random);
  return chosen;
}

}  // namespace kernelcast::cli
