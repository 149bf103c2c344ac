#include "services/forecaster/embedded/prior.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "services/forecaster/core/feature_schema.h"
#include "services/forecaster/core/simulation_features.h"

namespace kernelcast::forecaster {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSchema = "kernelcast-prior/1";
constexpr size_t kMaxNodes = 1'000'000;
constexpr size_t kHashCharacters = 12;

size_t ColumnsOf(const std::string& features) {
  if (features == kEmbeddedSimulationSchemaId) return SimulationRowNames().size();
  for (const std::string_view facts : {kCpuAssemblySchemaId, kCudaPtxSchemaId}) {
    const FeatureSchema* schema = FeatureSchema::ForFacts(facts);
    if (schema != nullptr && schema->id() == features) return schema->names().size();
  }
  return 0;
}

// Nine digits tell one float from another.
double Short(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
  return std::strtod(text, nullptr);
}

absl::Status Damaged(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("not a prior: ", std::string(what)));
}

}  // namespace

// Reads and writes what forests and shared models keep to themselves.
class PriorCodec {
 public:
  static Json ToJson(const SharedModel& model, const std::string& features) {
    Json forests = Json::array();
    for (const Forest& forest : model.core_.members) forests.push_back(ToJson(forest));
    return {{"features", features},
            {"slope", model.core_.slope},
            {"centre", model.core_.centre},
            {"correction_share", model.core_.correction_share},
            {"trust", model.trust_},
            {"error_scale", model.error_scale_},
            {"slope_error", model.slope_error_},
            {"problems", model.problems_},
            {"forests", std::move(forests)}};
  }

  static absl::StatusOr<SharedModel> FromJson(const Json& json) {
    SharedModel model;
    const auto features = json.at("features").get<std::string>();
    const size_t columns = ColumnsOf(features);
    if (columns == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the prior is for features '", features, "', which this program has not"));
    }
    model.uses_simulations_ = features == kEmbeddedSimulationSchemaId;
    model.core_.slope = json.at("slope").get<double>();
    model.core_.centre = json.at("centre").get<double>();
    model.core_.correction_share = json.at("correction_share").get<double>();
    model.trust_ = json.at("trust").get<double>();
    model.error_scale_ = json.at("error_scale").get<double>();
    model.slope_error_ = json.at("slope_error").get<double>();
    model.problems_ = json.at("problems").get<size_t>();
    for (const double value : {model.core_.slope, model.core_.centre, model.core_.correction_share,
                               model.trust_, model.error_scale_, model.slope_error_}) {
      if (!std::isfinite(value)) return Damaged("a figure is not finite");
    }
    if (!(model.error_scale_ > 0)) return Damaged("error_scale must be positive");
    for (const Json& forest : json.at("forests")) {
      KC_ASSIGN_OR_RETURN(Forest member, FromJson(forest, columns));
      model.core_.members.push_back(std::move(member));
    }
    if (model.core_.members.empty()) return Damaged("a model has no forests");
    return model;
  }

 private:
  static Json ToJson(const Forest& forest) {
    Json values = Json::array();
    Json lefts = Json::array();
    Json rights = Json::array();
    Json features = Json::array();
    for (const Forest::Node& node : forest.nodes_) {
      values.push_back(Short(node.value));
      lefts.push_back(node.left);
      rights.push_back(node.right);
      features.push_back(2 * node.feature + node.missing_left);
    }
    return {{"values", std::move(values)},
            {"lefts", std::move(lefts)},
            {"rights", std::move(rights)},
            {"features", std::move(features)},
            {"roots", forest.roots_}};
  }

  static absl::StatusOr<Forest> FromJson(const Json& json, size_t columns) {
    Forest forest;
    const Json& values = json.at("values");
    const Json& lefts = json.at("lefts");
    const Json& rights = json.at("rights");
    const Json& features = json.at("features");
    const size_t nodes = values.size();
    if (nodes > kMaxNodes || lefts.size() != nodes || rights.size() != nodes ||
        features.size() != nodes) {
      return Damaged("the lists of a forest differ in length");
    }
    // A child comes after its parent, so that walking down a tree ends.
    const auto is_child = [&](int64_t child, size_t parent) {
      return child > static_cast<int64_t>(parent) && child < static_cast<int64_t>(nodes);
    };
    for (size_t i = 0; i < nodes; ++i) {
      Forest::Node& node = forest.nodes_.emplace_back();
      const auto left = lefts[i].get<int64_t>();
      const auto right = rights[i].get<int64_t>();
      const auto feature = features[i].get<uint64_t>();
      node.value = static_cast<float>(values[i].get<double>());
      if (!std::isfinite(node.value)) return Damaged("a node's value is not finite");
      if (left < 0) continue;
      if (!is_child(left, i) || !is_child(right, i) || feature / 2 >= columns) {
        return Damaged("a node has a child or a feature out of range");
      }
      node.left = static_cast<int32_t>(left);
      node.right = static_cast<int32_t>(right);
      node.feature = static_cast<uint32_t>(feature / 2);
      node.missing_left = feature % 2;
    }
    for (const Json& root : json.at("roots")) {
      const auto index = root.get<uint64_t>();
      if (index >= nodes) return Damaged("a root is out of range");
      forest.roots_.push_back(static_cast<uint32_t>(index));
    }
    return forest;
  }
};

std::string SerializePrior(const std::map<std::string, SharedModel>& targets) {
  Json models = Json::object();
  for (const auto& [target, model] : targets) {
    const std::string features(model.uses_simulations() ? kEmbeddedSimulationSchemaId
                               : target == "cpu"        ? kEmbeddedCpuSchemaId
                                                        : kEmbeddedCudaSchemaId);
    models[target] = PriorCodec::ToJson(model, features);
  }
  return Json{{"schema", kSchema}, {"targets", std::move(models)}}.dump() + "\n";
}

absl::StatusOr<Prior> ParsePrior(std::string_view content) {
  const Json json = Json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return Damaged("it is not a JSON object");
  Prior prior;
  try {
    if (json.at("schema").get<std::string>() != kSchema) {
      return Damaged(absl::StrCat("its schema is not ", std::string(kSchema)));
    }
    for (const auto& [target, model] : json.at("targets").items()) {
      KC_ASSIGN_OR_RETURN(SharedModel shared, PriorCodec::FromJson(model));
      prior.targets[target] = std::make_shared<const SharedModel>(std::move(shared));
    }
  } catch (const Json::exception& error) {
    return Damaged(error.what());
  }
  ContentHasher hasher;
  hasher.Add(content);
  prior.id = "prior/" + hasher.Hex128().substr(0, kHashCharacters);
  return prior;
}

absl::StatusOr<Prior> ReadPrior(const std::string& path) {
  KC_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  return ParsePrior(content);
}

}  // namespace kernelcast::forecaster
