#include "common/calibration/bin_calibrator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/domain/bins.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "kernelcast-calibrator/1";
constexpr size_t kMaxPoints = 100'000;

std::vector<double> Floored(std::span<const double> p) {
  std::vector<double> floored(p.begin(), p.end());
  for (double& value : floored) value = std::max(value, kProbabilityFloor);
  return floored;
}

void ScaleToOne(std::vector<double>& p) {
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
}

std::vector<double> Softmax(std::vector<double> logits) {
  const double largest = *std::ranges::max_element(logits);
  for (double& value : logits) value = std::exp(value - largest);
  ScaleToOne(logits);
  return logits;
}

std::vector<double> Applied(const IdentityMap&, std::span<const double> p) {
  return {p.begin(), p.end()};
}

std::vector<double> Applied(const TemperatureMap& map, std::span<const double> p) {
  std::vector<double> logits = Floored(p);
  for (double& value : logits) value = std::log(value) / map.temperature;
  return Softmax(std::move(logits));
}

std::vector<double> Applied(const VectorMap& map, std::span<const double> p) {
  std::vector<double> logits = Floored(p);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = map.scale[i] * std::log(logits[i]) + map.bias[i];
  }
  return Softmax(std::move(logits));
}

std::vector<double> Applied(const StepMap& map, std::span<const double> p) {
  std::vector<double> result = Floored(p);
  ScaleToOne(result);
  const auto largest = std::ranges::max_element(p) - p.begin();
  const size_t i = static_cast<size_t>(largest);
  const auto step = std::min<ptrdiff_t>(std::ranges::lower_bound(map.upto, p[i]) - map.upto.begin(),
                                        std::ssize(map.upto) - 1);
  // Clamped so that every bin keeps some probability.
  const double wanted = std::clamp(map.value[static_cast<size_t>(step)], kProbabilityFloor,
                                   1 - kProbabilityFloor * static_cast<double>(p.size()));
  const double rest = 1 - result[i];
  for (size_t j = 0; j < result.size(); ++j) {
    result[j] = j == i ? wanted : result[j] * (1 - wanted) / rest;
  }
  return result;
}

double LineAt(const PiecewiseMap::Line& line, double x) {
  const auto above = std::ranges::lower_bound(line.x, x);
  if (above == line.x.begin()) return line.y.front();
  if (above == line.x.end()) return line.y.back();
  const auto i = static_cast<size_t>(above - line.x.begin());
  const double width = line.x[i] - line.x[i - 1];
  const double share = width > 0 ? (x - line.x[i - 1]) / width : 1;
  return line.y[i - 1] + share * (line.y[i] - line.y[i - 1]);
}

std::vector<double> Applied(const PiecewiseMap& map, std::span<const double> p) {
  std::vector<double> result(p.size());
  for (size_t i = 0; i < p.size(); ++i) {
    result[i] = std::max(LineAt(map.bins[i], p[i]), kProbabilityFloor);
  }
  ScaleToOne(result);
  return result;
}

absl::Status FieldError(std::string_view field, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": ", std::string(what)));
}

absl::StatusOr<std::vector<double>> Numbers(const Json& json, const std::string& where,
                                            const char* field) {
  const std::string name = absl::StrCat(where, field);
  if (!json.is_object() || !json.contains(field) || !json[field].is_array() ||
      json[field].size() > kMaxPoints) {
    return FieldError(name, "must be a list of numbers");
  }
  std::vector<double> values;
  for (const Json& value : json[field]) {
    if (!value.is_number() || !std::isfinite(value.get<double>())) {
      return FieldError(name, absl::StrCat(Quoted(value.dump()), " is not a finite number"));
    }
    values.push_back(value.get<double>());
  }
  return values;
}

absl::StatusOr<CalibrationMap> MapFromJson(CalibrationMethod method, const Json& map, size_t bins) {
  const std::string where = "map.";
  switch (method) {
    case CalibrationMethod::kNone: return CalibrationMap(IdentityMap{});
    case CalibrationMethod::kTemperature: {
      if (!map.is_object() || !map.contains("temperature") || !map["temperature"].is_number() ||
          !(map["temperature"].get<double>() > 0)) {
        return FieldError("map.temperature", "must be a positive number");
      }
      return CalibrationMap(TemperatureMap{map["temperature"].get<double>()});
    }
    case CalibrationMethod::kVector: {
      VectorMap result;
      KC_ASSIGN_OR_RETURN(result.scale, Numbers(map, where, "scale"));
      KC_ASSIGN_OR_RETURN(result.bias, Numbers(map, where, "bias"));
      if (result.scale.size() != bins || result.bias.size() != bins) {
        return FieldError("map.scale and map.bias", absl::StrCat(bins, " numbers are wanted"));
      }
      return CalibrationMap(std::move(result));
    }
    case CalibrationMethod::kHistogram: {
      StepMap result;
      KC_ASSIGN_OR_RETURN(result.upto, Numbers(map, where, "upto"));
      KC_ASSIGN_OR_RETURN(result.value, Numbers(map, where, "value"));
      if (result.upto.empty() || result.upto.size() != result.value.size() ||
          !std::ranges::is_sorted(result.upto)) {
        return FieldError("map.upto and map.value", "as many, at least one, upto ascending");
      }
      return CalibrationMap(std::move(result));
    }
    case CalibrationMethod::kIsotonic: {
      PiecewiseMap result;
      if (!map.is_object() || !map.contains("bins") || !map["bins"].is_array() ||
          map["bins"].size() != bins) {
        return FieldError("map.bins", absl::StrCat("a list of ", bins, " lines is wanted"));
      }
      for (size_t i = 0; i < bins; ++i) {
        const std::string at = absl::StrCat("map.bins[", i, "].");
        PiecewiseMap::Line& line = result.bins.emplace_back();
        KC_ASSIGN_OR_RETURN(line.x, Numbers(map["bins"][i], at, "x"));
        KC_ASSIGN_OR_RETURN(line.y, Numbers(map["bins"][i], at, "y"));
        if (line.x.empty() || line.x.size() != line.y.size() || !std::ranges::is_sorted(line.x)) {
          return FieldError(at + "x and y", "as many, at least one, x ascending");
        }
      }
      return CalibrationMap(std::move(result));
    }
  }
  return FieldError("method", "unknown");
}

Json MapJson(const IdentityMap&) { return Json::object(); }
Json MapJson(const TemperatureMap& map) { return {{"temperature", map.temperature}}; }
Json MapJson(const VectorMap& map) { return {{"scale", map.scale}, {"bias", map.bias}}; }
Json MapJson(const StepMap& map) { return {{"upto", map.upto}, {"value", map.value}}; }
Json MapJson(const PiecewiseMap& map) {
  Json json = {{"bins", Json::array()}};
  for (const PiecewiseMap::Line& line : map.bins) {
    json["bins"].push_back({{"x", line.x}, {"y", line.y}});
  }
  return json;
}

}  // namespace

std::string_view Name(CalibrationMethod method) {
  switch (method) {
    case CalibrationMethod::kNone: return "none";
    case CalibrationMethod::kTemperature: return "temperature";
    case CalibrationMethod::kVector: return "vector";
    case CalibrationMethod::kHistogram: return "histogram";
    case CalibrationMethod::kIsotonic: return "isotonic";
  }
  return "";
}

absl::StatusOr<CalibrationMethod> ParseCalibrationMethod(std::string_view name) {
  std::vector<std::string> known;
  for (const CalibrationMethod method :
       {CalibrationMethod::kNone, CalibrationMethod::kTemperature, CalibrationMethod::kVector,
        CalibrationMethod::kHistogram, CalibrationMethod::kIsotonic}) {
    if (Name(method) == name) return method;
    known.emplace_back(Name(method));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("method ", Quoted(name), " is not one of ", CommaList(known)));
}

std::vector<double> BinCalibrator::Apply(std::span<const double> p) const {
  return std::visit([&](const auto& one) { return Applied(one, p); }, map);
}

std::string BinCalibrator::version() const {
  if (method == CalibrationMethod::kNone) return "none";
  char text[80];
  const std::string map_text = std::visit([](const auto& one) { return MapJson(one).dump(); }, map);
  std::snprintf(text, sizeof(text), "%s/1;records=%.0f;id=%s", std::string(Name(method)).c_str(),
                records,
                ContentHasher().Add(bin_scheme_id).Add(map_text).Hex128().substr(0, 8).c_str());
  return text;
}

nlohmann::ordered_json CalibratorToJson(const BinCalibrator& calibrator) {
  return {{"schema", std::string(kSchema)},
          {"version", calibrator.version()},
          {"method", std::string(Name(calibrator.method))},
          {"bin_scheme_id", calibrator.bin_scheme_id},
          {"records", calibrator.records},
          {"map", std::visit([](const auto& map) { return MapJson(map); }, calibrator.map)}};
}

absl::StatusOr<BinCalibrator> CalibratorFromJson(const nlohmann::ordered_json& json) {
  const auto text = [&](const char* field) {
    return json.is_object() && json.contains(field) && json[field].is_string()
               ? json[field].get<std::string>()
               : std::string();
  };
  if (text("schema") != kSchema) {
    return FieldError("schema", absl::StrCat(Quoted(text("schema")), " is not ", Quoted(kSchema)));
  }
  BinCalibrator calibrator;
  absl::StatusOr<CalibrationMethod> method = ParseCalibrationMethod(text("method"));
  if (!method.ok()) return method.status();
  calibrator.method = *method;
  calibrator.bin_scheme_id = text("bin_scheme_id");
  absl::StatusOr<const BinScheme*> scheme = BinScheme::Find(calibrator.bin_scheme_id);
  if (!scheme.ok()) return FieldError("bin_scheme_id", std::string(scheme.status().message()));
  if (!json.contains("records") || !json["records"].is_number() ||
      !(json["records"].get<double>() >= 0)) {
    return FieldError("records", "must be a number of 0 or more");
  }
  calibrator.records = json["records"].get<double>();
  KC_ASSIGN_OR_RETURN(calibrator.map,
                      MapFromJson(calibrator.method, json.value("map", Json::object()),
                                  static_cast<size_t>((*scheme)->size())));
  return calibrator;
}

}  // namespace kernelcast
