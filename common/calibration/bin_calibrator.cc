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
  }
  return FieldError("method", "unknown");
}

Json MapJson(const IdentityMap&) { return Json::object(); }
Json MapJson(const TemperatureMap& map) { return {{"temperature", map.temperature}}; }
Json MapJson(const VectorMap& map) { return {{"scale", map.scale}, {"bias", map.bias}}; }

}  // namespace

std::string_view Name(CalibrationMethod method) {
  switch (method) {
    case CalibrationMethod::kNone: return "none";
    case CalibrationMethod::kTemperature: return "temperature";
    case CalibrationMethod::kVector: return "vector";
  }
  return "";
}

absl::StatusOr<CalibrationMethod> ParseCalibrationMethod(std::string_view name) {
  std::vector<std::string> known;
  for (const CalibrationMethod method :
       {CalibrationMethod::kNone, CalibrationMethod::kTemperature, CalibrationMethod::kVector}) {
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
