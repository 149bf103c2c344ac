#include "services/forecaster/llm/answer_schema.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/domain/text.h"
#include "services/forecaster/core/answer_parser.h"

namespace kernelcast::forecaster {
namespace {

OrderedJson Field(const char* type, const std::string& description) {
  return {{"type", type}, {"description", description}};
}

std::string ProbabilityKey(const BinScheme& scheme, int bin) { return "p_" + scheme.name(bin); }

OrderedJson PredictedBin(const BinScheme& scheme) {
  OrderedJson field = Field(
      "integer", absl::StrCat("Number of the most likely bin, from 1 (", scheme.name(1), ") to ",
                              scheme.size(), " (", scheme.name(scheme.size()), ")."));
  for (int bin = 1; bin <= scheme.size(); ++bin) field["enum"].push_back(bin);
  return field;
}

OrderedJson Tool(std::string_view name, const std::string& description, OrderedJson parameters) {
  return {{"type", "function"},
          {"function",
           {{"name", name}, {"description", description}, {"parameters", std::move(parameters)}}}};
}

OrderedJson Object(OrderedJson properties) {
  OrderedJson required = OrderedJson::array();
  for (const auto& [key, value] : properties.items()) required.push_back(key);
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

// Multiples of 0.01 with sum 1 and the peak in the bin above a speedup of 1.
std::vector<double> ExampleProbabilities(const BinScheme& scheme) {
  const int peak = scheme.Label(1.2).value_or(1);
  std::vector<int> hundredths(scheme.size(), 0);
  int sum = 0;
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    const int distance = std::abs(bin - peak);
    hundredths[bin - 1] = distance > 3 ? 1 : 40 >> distance;
    sum += hundredths[bin - 1];
  }
  hundredths[peak - 1] += 100 - sum;
  std::vector<double> probabilities;
  probabilities.reserve(hundredths.size());
  for (const int value : hundredths) probabilities.push_back(value / 100.0);
  return probabilities;
}

}  // namespace

absl::StatusOr<AnswerForm> ParseAnswerForm(std::string_view name) {
  if (name == "paper") return AnswerForm::kPaper;
  if (name == "extended") return AnswerForm::kExtended;
  return absl::NotFoundError(
      absl::StrCat("answer form ", Quoted(name), " is not one of extended, paper"));
}

OrderedJson AnswerSchema(const BinScheme& scheme, AnswerForm form, bool may_defer) {
  const OrderedJson reasoning = Field("string", "Why, in one to three sentences.");
  OrderedJson properties = OrderedJson::object();
  if (form == AnswerForm::kPaper) {
    properties["predicted_bin"] = PredictedBin(scheme);
  } else {
    properties["reasoning"] = reasoning;
    if (may_defer) {
      properties["defer"] = Field(
          "boolean", "true to decline because the kernel must be run to tell; false otherwise.");
    }
    properties["p_failure"] = Field(
        "number", "Probability that the candidate computes a wrong result, crashes or hangs.");
  }
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    properties[ProbabilityKey(scheme, bin)] =
        Field("number", absl::StrCat("Probability that S is in ", scheme.IntervalText(bin), "."));
  }
  if (form == AnswerForm::kPaper) {
    properties["reasoning"] = reasoning;
  } else {
    properties["predicted_bin"] = PredictedBin(scheme);
  }
  return Object(std::move(properties));
}

OrderedJson SubmitTool(const BinScheme& scheme, AnswerForm form, bool may_defer) {
  return Tool(kSubmitToolName,
              "Hands in the forecast of the candidate's speedup. Called once, at the end.",
              AnswerSchema(scheme, form, may_defer));
}

OrderedJson DeferTool() {
  return Tool(kDeferToolName,
              absl::StrCat("Declines to forecast, so that the candidate is run instead. Called in "
                           "place of ",
                           std::string(kSubmitToolName), ", never together with it."),
              Object({{"reason", Field("string", "What cannot be told without running it.")}}));
}

std::string AnswerExample(const BinScheme& scheme, AnswerForm form, bool may_defer) {
  const std::vector<double> probabilities = ExampleProbabilities(scheme);
  const OrderedJson schema = AnswerSchema(scheme, form, may_defer);
  OrderedJson example = OrderedJson::object();
  for (const auto& [key, field] : schema["properties"].items()) {
    if (key == "reasoning") {
      example[key] = "Loads are wider, and nothing spills; the barriers stay.";
    } else if (key == "defer") {
      example[key] = false;
    } else if (key == "p_failure") {
      example[key] = 0.05;
    } else if (key == "predicted_bin") {
      int best = 1;
      for (int bin = 2; bin <= scheme.size(); ++bin) {
        if (probabilities[bin - 1] > probabilities[best - 1]) best = bin;
      }
      example[key] = best;
    }
    for (int bin = 1; bin <= scheme.size(); ++bin) {
      if (key == ProbabilityKey(scheme, bin)) example[key] = probabilities[bin - 1];
    }
  }
  return example.dump();
}

}  // namespace kernelcast::forecaster
