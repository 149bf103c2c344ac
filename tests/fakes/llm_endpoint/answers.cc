#include "tests/fakes/llm_endpoint/answers.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kernelcast::testing {

using Json = nlohmann::ordered_json;

const char* const kForecastTool = "submit_kernel_runtime_estimate";
const char* const kDeferTool = "defer_to_real_evaluator";

std::vector<std::string> ProbabilityNames() {
  return {"p_severe_slowdown", "p_significant_slowdown", "p_moderate_slowdown",
          "p_minor_slowdown",  "p_minor_speedup",        "p_significant_speedup",
          "p_high_speedup",    "p_extreme_speedup"};
}

namespace {

std::string LastMessage(const nlohmann::json& request) {
  const auto messages = request.find("messages");
  if (messages == request.end() || !messages->is_array() || messages->empty()) return "";
  const nlohmann::json& last = messages->back();
  return last.is_object() && last.contains("content") && last["content"].is_string()
             ? last["content"].get<std::string>()
             : "";
}

// A tool offered by the request: its name, and the schema of its parameters.
struct Tool {
  std::string name;
  nlohmann::json schema;
};

std::vector<Tool> OfferedTools(const nlohmann::json& request) {
  std::vector<Tool> tools;
  if (!request.contains("tools") || !request["tools"].is_array()) return tools;
  for (const nlohmann::json& tool : request["tools"]) {
    if (!tool.is_object() || !tool.contains("function")) continue;
    const nlohmann::json& function = tool["function"];
    tools.push_back(
        {function.value("name", ""), function.value("parameters", nlohmann::json::object())});
  }
  return tools;
}

bool IsDefer(const Tool& tool) { return tool.name.starts_with("defer"); }

std::vector<double> Probabilities(size_t count, const std::string& prompt, Fault fault,
                                  std::mt19937_64& random) {
  if (count == 0) return {};
  const size_t peak = std::hash<std::string>()(prompt) % count;
  std::vector<double> weights(count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double distance = std::abs(static_cast<double>(i) - static_cast<double>(peak));
    weights[i] = std::exp(-distance) * (0.8 + 0.05 * static_cast<double>(random() % 5));
    sum += weights[i];
  }
  const double total = fault == Fault::kSumLow ? 0.75 : fault == Fault::kSumHigh ? 1.10 : 1.0;
  double rest = total;
  for (double& weight : weights) {
    weight = std::round(weight / sum * total * 1000) / 1000;
    rest -= weight;
  }
  weights[peak] = std::round((weights[peak] + rest) * 1000) / 1000;
  return weights;
}

// An object that fits the schema's properties; strings get `text`.
std::string Fill(const nlohmann::json& schema, const std::string& prompt, const std::string& text,
                 Fault fault, std::mt19937_64& random) {
  std::vector<std::pair<std::string, nlohmann::json>> properties;
  if (schema.contains("properties") && schema["properties"].is_object()) {
    for (const auto& [name, property] : schema["properties"].items()) {
      properties.emplace_back(name, property);
    }
  } else {
    properties.emplace_back("predicted_bin", nlohmann::json::object());
    for (const std::string& name : ProbabilityNames()) properties.emplace_back(name, nullptr);
    properties.emplace_back("reasoning", nlohmann::json{{"type", "string"}});
  }
  // Published names need the published order, because nlohmann sorts.
  std::vector<std::string> bins = ProbabilityNames();
  std::vector<std::string> named;
  for (const auto& [name, unused] : properties) {
    if (name.starts_with("p_")) named.push_back(name);
  }
  const bool published = std::all_of(bins.begin(), bins.end(), [&](const std::string& bin) {
    return std::find(named.begin(), named.end(), bin) != named.end();
  });
  if (published) {
    for (const std::string& name : named) {
      if (std::find(bins.begin(), bins.end(), name) == bins.end()) bins.push_back(name);
    }
  } else {
    bins = named;
  }
  std::vector<double> p = Probabilities(bins.size(), prompt, fault, random);
  const size_t best = static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
  if (fault == Fault::kNegative && p.size() > 1) p[best == 0 ? 1 : 0] = -0.2;

  Json object = Json::object();
  for (const auto& [name, property] : properties) {
    const auto bin = std::find(bins.begin(), bins.end(), name);
    if (bin != bins.end()) {
      const auto index = static_cast<size_t>(bin - bins.begin());
      if (fault == Fault::kMissingBins && index % 2 == 1 && index != best) continue;
      if (fault == Fault::kStringNumbers) {
        object[name] = absl::StrCat(p[index]);
      } else {
        object[name] = p[index];
      }
    } else if (name == "predicted_bin") {
      const size_t stated = fault == Fault::kArgmaxMismatch ? (best + 3) % bins.size() : best;
      object[name] = stated + 1;
    } else if (property.is_object() && property.contains("enum") && !property["enum"].empty()) {
      object[name] = property["enum"][0];
    } else {
      const std::string type =
          property.is_object() && property.contains("type") && property["type"].is_string()
              ? property["type"].get<std::string>()
              : "string";
      if (type == "number" || type == "integer") {
        object[name] = 1;
      } else if (type == "boolean") {
        object[name] = false;
      } else if (type == "array") {
        object[name] = Json::array();
      } else if (type == "object") {
        object[name] = Json::object();
      } else {
        object[name] = text;
      }
    }
  }
  std::string filled = object.dump(-1, ' ', false, Json::error_handler_t::ignore);
  if (fault == Fault::kNan && !bins.empty()) {
    const std::string key = absl::StrCat("\"", bins[0], "\":");
    const size_t at = filled.find(key);
    if (at != std::string::npos) {
      const size_t begin = at + key.size();
      filled.replace(begin, filled.find_first_of(",}", begin) - begin, "NaN");
    }
  }
  if (fault == Fault::kTruncatedArguments) filled.resize(filled.size() / 2);
  return filled;
}

FakeAnswer Forecast(const nlohmann::json& request, Fault fault, std::mt19937_64& random) {
  FakeAnswer answer;
  const std::string prompt = LastMessage(request);
  std::string text = "vector loads are wider than in the reference";
  if (fault == Fault::kUnicodeJunk) text += " \u202E\u200B \uFFFE";
  answer.reasoning = "Compare memory traffic first.";
  if (fault == Fault::kNoTool) {
    answer.content = "I believe that this kernel is somewhat faster.";
    return answer;
  }
  const std::vector<Tool> tools = OfferedTools(request);
  if (!tools.empty()) {
    const auto forecast = std::find_if_not(tools.begin(), tools.end(), IsDefer);
    const auto defer = std::find_if(tools.begin(), tools.end(), IsDefer);
    const Tool& main = forecast != tools.end() ? *forecast : tools.front();
    std::string filled = Fill(main.schema, prompt, text, fault, random);
    if (fault == Fault::kContentForTool) {
      answer.content = std::move(filled);
    } else if (fault == Fault::kDefers && defer != tools.end()) {
      answer.tool_calls.push_back({defer->name, Fill(defer->schema, prompt, text, fault, random)});
    } else {
      const std::string name = fault == Fault::kWrongTool ? "estimate_runtime" : main.name;
      answer.tool_calls.push_back({name, std::move(filled)});
      if (fault == Fault::kBothTools && defer != tools.end()) {
        answer.tool_calls.push_back({defer->name, R"({"reason":"not sure"})"});
      }
    }
    return answer;
  }
  const nlohmann::json* schema = nullptr;
  const nlohmann::json none = nlohmann::json::object();
  if (request.contains("response_format") && request["response_format"].is_object()) {
    const nlohmann::json& format = request["response_format"];
    if (format.contains("json_schema") && format["json_schema"].is_object() &&
        format["json_schema"].contains("schema")) {
      schema = &format["json_schema"]["schema"];
    }
  }
  answer.content = Fill(schema != nullptr ? *schema : none, prompt, text, fault, random);
  if (schema == nullptr) {
    answer.content = absl::StrCat("Here is my estimate.\n```json\n", answer.content, "\n```\n");
  }
  return answer;
}

FakeAnswer Kernel(const nlohmann::json& request, Fault fault, std::mt19937_64& random) {
  const std::string prompt = LastMessage(request);
  std::string language = "cpp";
  std::string code =
      "extern \"C\" void kernel(const float* x, float* y, long n) {\n"
      "  for (long i = 0; i < n; ++i) y[i] = x[i];\n}\n";
  const size_t close = prompt.rfind("\n```");
  if (close != std::string::npos && close > 0) {
    const size_t open = prompt.rfind("```", close - 1);
    const size_t line = open == std::string::npos ? open : prompt.find('\n', open);
    if (line != std::string::npos && line < close) {
      language = prompt.substr(open + 3, line - open - 3);
      code = prompt.substr(line + 1, close - line);
    }
  }
  FakeAnswer answer;
  answer.reasoning = "Try another blocking.";
  const std::string block =
      absl::StrCat("```", language, "\n// variant ", random() % 1'000'000, "\n", code, "```\n");
  switch (fault) {
    case Fault::kNoTool: answer.content = "I would use shared memory here."; break;
    case Fault::kTruncatedArguments:
      answer.content = block.substr(0, block.size() / 2);
      answer.finish_reason = "length";
      break;
    case Fault::kBothTools: answer.content = absl::StrCat("First:\n", block, "Or:\n", block); break;
    default: answer.content = absl::StrCat("A new variant:\n", block); break;
  }
  return answer;
}

}  // namespace

AnswerSource ForecastAnswers() { return &Forecast; }
AnswerSource KernelAnswers() { return &Kernel; }

AnswerSource FixedAnswer(std::string content) {
  return [content = std::move(content)](const nlohmann::json&, Fault, std::mt19937_64&) {
    FakeAnswer answer;
    answer.content = content;
    return answer;
  };
}

}  // namespace kernelcast::testing
