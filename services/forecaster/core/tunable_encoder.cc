#include "services/forecaster/core/tunable_encoder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace kernelcast::forecaster {
namespace {

constexpr float kAbsentTunable = std::numeric_limits<float>::quiet_NaN();
constexpr std::string_view kTemplateTunable = "TEMPLATE";
// Numbered separately by each template; the actual flags are read from the candidate.
constexpr std::string_view kFlagsTunable = "FLAGS";

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

float SignedLog2(int64_t value) {
  const double magnitude = std::log2(1.0 + std::abs(static_cast<double>(value)));
  return static_cast<float>(value < 0 ? -magnitude : magnitude);
}

}  // namespace

TunableEncoder::TunableEncoder(const Space& space) {
  const auto add_column = [this](std::string name, float range, Kind kind) {
    names_.push_back(std::move(name));
    kinds_.push_back(kind);
    ranges_.push_back(range > 0 ? range : 1.0f);
    return names_.size() - 1;
  };
  for (const SpaceTemplate& entry : space.templates) {
    templates_.emplace(entry.name, static_cast<int>(templates_.size()));
    add_column("template=" + entry.name, 1, Kind::kTemplate);
  }

  // The values of a tunable over all templates that have it, in the order of the files.
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> values;
  for (const SpaceTemplate& entry : space.templates) {
    for (const SpaceTemplate::Dimension& dimension : entry.dimensions) {
      if (dimension.name == kFlagsTunable) continue;
      auto& known = values[dimension.name];
      if (known.empty()) order.push_back(dimension.name);
      for (const std::string& value : dimension.values) {
        if (std::find(known.begin(), known.end(), value) == known.end()) known.push_back(value);
      }
    }
  }
  for (const std::string& name : order) {
    Tunable& tunable = tunables_[name];
    float low = std::numeric_limits<float>::infinity();
    float high = -low;
    tunable.numeric = true;
    for (const std::string& value : values[name]) {
      const std::optional<int64_t> number = ParseInteger(value);
      if (!number.has_value()) {
        tunable.numeric = false;
        break;
      }
      low = std::min(low, SignedLog2(*number));
      high = std::max(high, SignedLog2(*number));
    }
    if (tunable.numeric) {
      tunable.column = add_column(name, high - low, Kind::kNumber);
      continue;
    }
    for (const std::string& value : values[name]) {
      tunable.value_columns.emplace(value, add_column(name + "=" + value, 1, Kind::kValue));
    }
  }
  for (const SpaceTemplate& entry : space.templates) {
    for (const SpaceTemplate::Dimension& dimension : entry.dimensions) {
      const auto tunable = tunables_.find(dimension.name);
      if (tunable == tunables_.end() || !tunable->second.numeric) continue;
      std::vector<float>& encoded = values_[{templates_.at(entry.name), tunable->second.column}];
      for (const std::string& value : dimension.values) {
        encoded.push_back(SignedLog2(*ParseInteger(value)));
      }
      std::sort(encoded.begin(), encoded.end());
      encoded.erase(std::unique(encoded.begin(), encoded.end()), encoded.end());
    }
  }
  for (const SpaceTemplate& entry : space.templates) {
    for (const std::vector<std::string>& set : entry.flag_sets) {
      for (const std::string& flag : set) {
        if (flag_columns_.count(flag) == 0) {
          flag_columns_.emplace(flag, add_column("flag:" + flag, 1, Kind::kFlag));
        }
      }
    }
  }
}

std::vector<float> TunableEncoder::Encode(const Candidate& candidate) const {
  std::vector<float> row(columns(), kAbsentTunable);
  const int chosen = TemplateIndex(candidate);
  for (size_t i = 0; i < templates_.size(); ++i) {
    row[i] = static_cast<int>(i) == chosen ? 1.0f : 0.0f;
  }
  for (const kernelcast::Tunable& given : candidate.tunables) {
    const auto found = tunables_.find(given.name);
    if (found == tunables_.end()) continue;
    const Tunable& tunable = found->second;
    if (tunable.numeric) {
      if (const std::optional<int64_t> number = ParseInteger(given.value)) {
        row[tunable.column] = SignedLog2(*number);
      }
      continue;
    }
    const auto column = tunable.value_columns.find(given.value);
    if (column == tunable.value_columns.end()) continue;
    for (const auto& [value, index] : tunable.value_columns) row[index] = 0.0f;
    row[column->second] = 1.0f;
  }
  for (const auto& [flag, column] : flag_columns_) {
    const auto& flags = candidate.flags;
    row[column] = std::find(flags.begin(), flags.end(), flag) != flags.end() ? 1.0f : 0.0f;
  }
  return row;
}

float TunableEncoder::Rank(int template_index, size_t column, float value) const {
  if (std::isnan(value)) return value;
  const auto found = values_.find({template_index, column});
  if (found == values_.end() || found->second.size() < 2) return value / ranges_[column];
  const std::vector<float>& known = found->second;
  const float steps = static_cast<float>(known.size() - 1);
  const auto above = std::lower_bound(known.begin(), known.end(), value);
  if (above == known.end()) return 1;
  const float rank = static_cast<float>(above - known.begin());
  if (*above == value || above == known.begin()) return rank / steps;
  const float below = *(above - 1);
  return (rank - 1 + (value - below) / (*above - below)) / steps;
}

int TunableEncoder::TemplateIndex(const Candidate& candidate) const {
  for (const kernelcast::Tunable& tunable : candidate.tunables) {
    if (tunable.name != kTemplateTunable) continue;
    const auto found = templates_.find(tunable.value);
    return found == templates_.end() ? -1 : found->second;
  }
  return -1;
}

}  // namespace kernelcast::forecaster
