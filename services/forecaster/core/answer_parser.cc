#include "services/forecaster/core/answer_parser.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace kernelcast::forecaster {
namespace {

using nlohmann::json;

ParsedAnswer Unparsable(std::string error) {
  ParsedAnswer answer;
  answer.error = std::move(error);
  return answer;
}

}  // namespace

ParsedAnswer ParseAnswer(const BinScheme& scheme, std::string_view answer) {
  if (answer.size() > kMaxAnswerBytes) {
    return Unparsable(absl::StrCat("longer than ", kMaxAnswerBytes, " bytes"));
  }
  // The library keeps the last of two equal keys; here that is an error.
  std::set<std::string> keys;
  std::string repeated;
  const auto watch_keys = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1) {
      const std::string& key = value.get_ref<const std::string&>();
      if (!keys.insert(key).second) repeated = key;
    }
    return true;
  };
  const json object = json::parse(answer.begin(), answer.end(), watch_keys,
                                  /*allow_exceptions=*/false);
  if (object.is_discarded()) return Unparsable("not JSON");
  if (!object.is_object()) return Unparsable("not an object");
  if (!repeated.empty()) return Unparsable(absl::StrCat("'", repeated, "' is given twice"));

  if (object.size() == 1 && object.contains("reason")) {
    if (!object["reason"].is_string()) return Unparsable("'reason' is not a string");
    ParsedAnswer deferred;
    deferred.status = ParseStatus::kDeferred;
    deferred.forecast.rationale = object["reason"].get<std::string>();
    return deferred;
  }

  ParsedAnswer result;
  Forecast& forecast = result.forecast;
  forecast.bin_scheme_id = scheme.id();
  double sum = 0;
  size_t expected_keys = 0;
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    const std::string key = "p_" + scheme.name(bin);
    const auto found = object.find(key);
    if (found == object.end()) return Unparsable(absl::StrCat("'", key, "' is missing"));
    if (!found->is_number()) return Unparsable(absl::StrCat("'", key, "' is not a number"));
    const double p = found->get<double>();
    if (!(p >= 0 && p <= 1)) return Unparsable(absl::StrCat("'", key, "' is not in [0, 1]"));
    forecast.bin_probabilities.push_back(p);
    sum += p;
    ++expected_keys;
  }
  const auto named_bin = object.find("predicted_bin");
  if (named_bin == object.end()) return Unparsable("'predicted_bin' is missing");
  if (!named_bin->is_number_integer()) return Unparsable("'predicted_bin' is not an integer");
  const int64_t named = named_bin->get<int64_t>();
  if (named < 1 || named > scheme.size()) {
    return Unparsable(absl::StrCat("'predicted_bin' is not in [1, ", scheme.size(), "]"));
  }
  ++expected_keys;
  if (const auto reasoning = object.find("reasoning"); reasoning != object.end()) {
    if (!reasoning->is_string()) return Unparsable("'reasoning' is not a string");
    forecast.rationale = reasoning->get<std::string>();
    ++expected_keys;
  }
  if (object.size() != expected_keys) {
    for (const auto& [key, value] : object.items()) {
      const bool known =
          key == "predicted_bin" || key == "reasoning" || (key.rfind("p_", 0) == 0 && [&] {
            for (int bin = 1; bin <= scheme.size(); ++bin) {
              if (key == "p_" + scheme.name(bin)) return true;
            }
            return false;
          }());
      if (!known) return Unparsable(absl::StrCat("'", key, "' is not a known key"));
    }
  }
  if (!(sum >= kLowestSum && sum <= kHighestSum)) {
    return Unparsable(absl::StrCat("the probabilities sum to ", sum));
  }

  for (double& p : forecast.bin_probabilities) p /= sum;
  forecast.raw_probability_sum = sum;
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.argmax_mismatch = forecast.predicted_bin != static_cast<int>(named);
  double mean = 0;
  double square = 0;
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    const double p = forecast.bin_probabilities[bin - 1];
    const double middle = scheme.Log2Midpoint(bin);
    mean += p * middle;
    square += p * middle * middle;
  }
  forecast.expected_log2_speedup = mean;
  forecast.stddev_log2_speedup = std::sqrt(std::max(0.0, square - mean * mean));
  result.status =
      std::abs(sum - 1) <= kExactSumTolerance ? ParseStatus::kOk : ParseStatus::kRenormalized;
  return result;
}

}  // namespace kernelcast::forecaster
