#include "tests/bench/worker/estimate_ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/bounded_json.h"
#include "common/domain/scoring.h"
#include "nlohmann/json.hpp"

namespace kernelcast::testing {
namespace {

using Json = nlohmann::json;

// Two candidates have one of two orders.
constexpr size_t kLeastRanked = 3;

// Over the first shapes.
double MeanLog2(std::span<const double> values, size_t shapes) {
  double sum = 0;
  for (const double value : values.first(shapes)) sum += std::log2(value);
  return sum / static_cast<double>(shapes);
}

bool ArePositive(std::span<const double> values) {
  return std::ranges::all_of(values, [](double v) { return v > 0 && std::isfinite(v); });
}

MeasuredExample FromJson(const Json& json) {
  MeasuredExample measured;
  json.at("kind").get_to(measured.kind);
  json.at("task").get_to(measured.task);
  json.at("candidate").get_to(measured.name);
  json.at("outcome").get_to(measured.outcome);
  json.at("device").get_to(measured.device);
  json.at("candidate_ns").get_to(measured.candidate_ns);
  json.at("reference_ns").get_to(measured.reference_ns);
  json.at("eager_ns").get_to(measured.eager_ns);
  return measured;
}

}  // namespace

std::string ToJsonLine(const MeasuredExample& measured) {
  return Json{{"kind", measured.kind},
              {"task", measured.task},
              {"candidate", measured.name},
              {"outcome", measured.outcome},
              {"device", measured.device},
              {"candidate_ns", measured.candidate_ns},
              {"reference_ns", measured.reference_ns},
              {"eager_ns", measured.eager_ns}}
      .dump();
}

absl::StatusOr<std::vector<MeasuredExample>> ParseMeasuredExamples(std::string_view lines) {
  std::vector<MeasuredExample> examples;
  int number = 0;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(lines.data(), lines.size()), '\n')) {
    ++number;
    if (line.empty()) continue;
    const auto error = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", what));
    };
    const Json json = ParseBoundedJson(std::string_view(line.data(), line.size()));
    if (!json.is_object()) return error("is not a JSON object");
    try {
      examples.push_back(FromJson(json));
    } catch (const Json::exception& exception) {
      return error(exception.what());
    }
    const MeasuredExample& read = examples.back();
    if (read.candidate_ns.size() != read.reference_ns.size() || !ArePositive(read.candidate_ns) ||
        !ArePositive(read.reference_ns)) {
      return error("needs as many positive times of the candidate as of the reference");
    }
  }
  return examples;
}

double TaskRanks::Spearman() const {
  if (measured_log2_ns.size() < kLeastRanked) return std::numeric_limits<double>::quiet_NaN();
  return kernelcast::Spearman(estimated_log2_ns, measured_log2_ns);
}

std::vector<TaskRanks> RankTasks(std::span<const ComparedExample> compared) {
  std::map<std::string, TaskRanks> tasks;
  for (const auto& [measured, estimated] : compared) {
    const size_t shapes = std::min(measured.candidate_ns.size(), estimated.candidate_ns.size());
    if (shapes == 0) continue;
    TaskRanks& ranks = tasks[measured.task];
    ranks.task = measured.task;
    ranks.measured_log2_ns.push_back(MeanLog2(measured.candidate_ns, shapes));
    ranks.estimated_log2_ns.push_back(MeanLog2(estimated.candidate_ns, shapes));
    if (estimated.reference_ns.size() < shapes) continue;
    const double speedup =
        MeanLog2(estimated.reference_ns, shapes) - ranks.estimated_log2_ns.back();
    ranks.log2_speedups.push_back(speedup);
    ranks.log2_errors.push_back(speedup - MeanLog2(measured.reference_ns, shapes) +
                                ranks.measured_log2_ns.back());
  }
  std::vector<TaskRanks> all;
  for (auto& [task, ranks] : tasks) all.push_back(std::move(ranks));
  return all;
}

}  // namespace kernelcast::testing
