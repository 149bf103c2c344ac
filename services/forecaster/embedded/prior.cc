#include "services/forecaster/embedded/prior.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "services/forecaster/core/failure_features.h"
#include "services/forecaster/core/feature_schema.h"
#include "services/forecaster/core/simulation_features.h"

namespace kernelcast::forecaster {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSchema = "kernelcast-prior/4";
constexpr size_t kMaxNodes = 1'000'000;
constexpr size_t kHashCharacters = 12;

size_t ColumnsOf(const std::string& features) {
  if (features == kEmbeddedSimulationSchemaId) return SimulationRowNames().size();
  if (features == kEmbeddedFailureSchemaId) return FailureRowNames().size();
  for (const std::string_view facts : {kCpuAssemblySchemaId, kCudaPtxSchemaId}) {
    const FeatureSchema* schema = FeatureSchema::ForFacts(facts);
    if (schema != nullptr && schema->id() == features) return schema->names().size();
  }
  return 0;
}

// Nine digits are enough to identify a float.
double Short(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
  return std::strtod(text, nullptr);
}

absl::Status Damaged(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("not a prior: ", std::string(what)));
}

}  // namespace

// Reads and writes the private state of forests and shared models.
class PriorCodec {
 public:
  static Json ToJson(const SharedModel& model, const std::string& features) {
    Json failures;
    if (model.failures_.has_value()) {
      const std::string failure_features(
          model.failures_->of_device_code() ? kEmbeddedFailureSchemaId : kEmbeddedCpuSchemaId);
      failures = {{"features", failure_features},
                  {"intercept", model.failures_->intercept_},
                  {"slope", model.failures_->slope_},
                  {"forests", ToJson(model.failures_->members_)}};
    }
    return {{"features", features},
            {"slope", model.core_.slope},
            {"centre", model.core_.centre},
            {"correction_share", model.core_.correction_share},
            {"trust", model.trust_},
            {"errors", ToJson(model.process_prior_)},
            {"problems", model.problems_},
            {"centres", ToJson(model.centres_)},
            {"failures", std::move(failures)},
            {"forests", ToJson(model.core_.members)}};
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
    KC_ASSIGN_OR_RETURN(model.process_prior_, ProcessPriorFromJson(json.at("errors")));
    model.problems_ = json.at("problems").get<size_t>();
    for (const double value :
         {model.core_.slope, model.core_.centre, model.core_.correction_share, model.trust_}) {
      if (!std::isfinite(value)) return Damaged("a figure is not finite");
    }
    KC_ASSIGN_OR_RETURN(model.core_.members, ForestsFromJson(json.at("forests"), columns));
    const size_t shares =
        model.uses_simulations_ ? ResourceShares(std::vector<float>(columns)).size() : 0;
    KC_ASSIGN_OR_RETURN(model.centres_, CentresFromJson(json.at("centres"), shares));
    if (const Json& failures = json.at("failures"); !failures.is_null()) {
      KC_ASSIGN_OR_RETURN(model.failures_, FailuresFromJson(failures));
    }
    return model;
  }

 private:
  static absl::StatusOr<FailurePrior> FailuresFromJson(const Json& json) {
    FailurePrior failures;
    const auto features = json.at("features").get<std::string>();
    failures.of_device_code_ = features == kEmbeddedFailureSchemaId;
    if (!failures.of_device_code_ && features != kEmbeddedCpuSchemaId) {
      return absl::InvalidArgumentError(absl::StrCat("the prior tells failures by features '",
                                                     features, "', which this program has not"));
    }
    failures.intercept_ = json.at("intercept").get<double>();
    failures.slope_ = json.at("slope").get<double>();
    if (!std::isfinite(failures.intercept_) || !std::isfinite(failures.slope_)) {
      return Damaged("a figure of the failures is not finite");
    }
    KC_ASSIGN_OR_RETURN(failures.members_,
                        ForestsFromJson(json.at("forests"), ColumnsOf(features)));
    return failures;
  }

  static Json ToJson(const std::vector<std::vector<float>>& centres) {
    Json json = Json::array();
    for (const std::vector<float>& centre : centres) {
      Json& values = json.emplace_back(Json::array());
      for (const float value : centre) values.push_back(Short(value));
    }
    return json;
  }

  static absl::StatusOr<std::vector<std::vector<float>>> CentresFromJson(const Json& json,
                                                                         size_t shares) {
    std::vector<std::vector<float>> centres;
    for (const Json& values : json) {
      std::vector<float>& centre = centres.emplace_back();
      for (const Json& value : values) {
        centre.push_back(static_cast<float>(value.get<double>()));
        if (!std::isfinite(centre.back())) return Damaged("a centre is not finite");
      }
      if (shares == 0 || centre.size() != shares) {
        return Damaged("a centre has another number of shares");
      }
    }
    return centres;
  }

  static Json ToJson(const std::vector<Forest>& forests) {
    Json json = Json::array();
    for (const Forest& forest : forests) json.push_back(ToJson(forest));
    return json;
  }

  static absl::StatusOr<std::vector<Forest>> ForestsFromJson(const Json& json, size_t columns) {
    std::vector<Forest> forests;
    for (const Json& forest : json) {
      KC_ASSIGN_OR_RETURN(Forest member, FromJson(forest, columns));
      forests.push_back(std::move(member));
    }
    if (forests.empty()) return Damaged("a model has no forests");
    return forests;
  }

  // Name of each value of a ProcessPrior, none negative.
  struct Figure {
    const char* name;
    double& (*of)(ProcessPrior&);
  };
  static constexpr Figure kFigures[] = {
      {"constant", [](ProcessPrior& p) -> double& { return p.weights.constant; }},
      {"slope", [](ProcessPrior& p) -> double& { return p.weights.slope; }},
      {"same_template", [](ProcessPrior& p) -> double& { return p.weights.same_template; }},
      {"main_effects", [](ProcessPrior& p) -> double& { return p.weights.main_effects; }},
      {"interactions", [](ProcessPrior& p) -> double& { return p.weights.interactions; }},
      {"shared_effects", [](ProcessPrior& p) -> double& { return p.weights.shared_effects; }},
      {"facts", [](ProcessPrior& p) -> double& { return p.weights.facts; }},
      {"noise", [](ProcessPrior& p) -> double& { return p.noise; }},
      {"tunables_length", [](ProcessPrior& p) -> double& { return p.lengths.tunables; }},
      {"facts_length", [](ProcessPrior& p) -> double& { return p.lengths.facts; }},
      {"scale", [](ProcessPrior& p) -> double& { return p.scale; }},
      {"shape", [](ProcessPrior& p) -> double& { return p.shape; }},
      {"novelty", [](ProcessPrior& p) -> double& { return p.novelty; }},
  };

  static Json ToJson(ProcessPrior prior) {
    Json json = Json::object();
    for (const Figure& figure : kFigures) json[figure.name] = figure.of(prior);
    return json;
  }

  static absl::StatusOr<ProcessPrior> ProcessPriorFromJson(const Json& json) {
    ProcessPrior prior;
    for (const Figure& figure : kFigures) {
      double& value = figure.of(prior);
      value = json.at(figure.name).get<double>();
      if (!(value >= 0) || !std::isfinite(value)) {
        return Damaged("a figure of the errors is negative or not finite");
      }
    }
    if (!(prior.noise > 0 && prior.lengths.tunables > 0 && prior.lengths.facts > 0 &&
          prior.scale > 0 && prior.shape > 0)) {
      return Damaged("a figure of the errors is zero");
    }
    return prior;
  }

  // The nodes of each tree in breadth-first order, so that the inner nodes determine where their
  // children are. `features`: twice the column, plus 1 if missing values go left; -1: a leaf.
  static Json ToJson(const Forest& forest) {
    Json values = Json::array();
    Json features = Json::array();
    for (const uint32_t root : forest.roots_) {
      std::vector<size_t> nodes = {root};
      for (size_t k = 0; k < nodes.size(); ++k) {
        const Forest::Node& node = forest.nodes_[nodes[k]];
        values.push_back(Short(node.value));
        if (node.left < 0) {
          features.push_back(-1);
          continue;
        }
        features.push_back(2 * node.feature + node.missing_left);
        nodes.push_back(static_cast<size_t>(node.left));
        nodes.push_back(static_cast<size_t>(node.right));
      }
    }
    return {{"values", std::move(values)}, {"features", std::move(features)}};
  }

  static absl::StatusOr<Forest> FromJson(const Json& json, size_t columns) {
    Forest forest;
    const Json& values = json.at("values");
    const Json& features = json.at("features");
    const size_t nodes = values.size();
    if (nodes > kMaxNodes || features.size() != nodes) {
      return Damaged("the lists of a forest differ in length");
    }
    size_t next = 0;  // the first node without a parent so far
    for (size_t i = 0; i < nodes; ++i) {
      if (next == i) {
        forest.roots_.push_back(static_cast<uint32_t>(i));
        ++next;
      }
      Forest::Node& node = forest.nodes_.emplace_back();
      const auto feature = features[i].get<int64_t>();
      node.value = static_cast<float>(values[i].get<double>());
      if (!std::isfinite(node.value)) return Damaged("a node's value is not finite");
      if (feature < 0) continue;
      if (next + 2 > nodes || feature / 2 >= static_cast<int64_t>(columns)) {
        return Damaged("a node has a child or a feature out of range");
      }
      node.left = static_cast<int32_t>(next);
      node.right = static_cast<int32_t>(next + 1);
      node.feature = static_cast<uint32_t>(feature / 2);
      node.missing_left = feature % 2;
      next += 2;
    }
    return forest;
  }
};

std::string SerializePrior(const std::map<PriorKey, SharedModel>& models_by_key) {
  Json models = Json::array();
  for (const auto& [key, model] : models_by_key) {
    const auto& [target, device_model] = key;
    const std::string features(model.uses_simulations() ? kEmbeddedSimulationSchemaId
                               : target == "cpu"        ? kEmbeddedCpuSchemaId
                                                        : kEmbeddedCudaSchemaId);
    Json& json = models.emplace_back(PriorCodec::ToJson(model, features));
    json["target"] = target;
    json["device_model"] = device_model;
  }
  return Json{{"schema", kSchema}, {"models", std::move(models)}}.dump() + "\n";
}

std::shared_ptr<const SharedModel> Prior::Find(const std::string& target,
                                               const std::string& device_model) const {
  if (const auto own = models.find({target, device_model}); own != models.end()) {
    return own->second;
  }
  const auto other = for_others.find(target);
  return other == for_others.end() ? nullptr : other->second;
}

absl::StatusOr<Prior> ParsePrior(std::string_view content) {
  const Json json = ParseBoundedJson<Json>(content);
  if (json.is_discarded() || !json.is_object()) return Damaged("it is not a JSON object");
  Prior prior;
  try {
    if (json.at("schema").get<std::string>() != kSchema) {
      return Damaged(absl::StrCat("its schema is not ", std::string(kSchema)));
    }
    for (const Json& model : json.at("models")) {
      KC_ASSIGN_OR_RETURN(SharedModel shared, PriorCodec::FromJson(model));
      const PriorKey key(model.at("target").get<std::string>(),
                         model.at("device_model").get<std::string>());
      prior.models[key] = std::make_shared<const SharedModel>(std::move(shared));
    }
    for (const auto& [key, model] : prior.models) {
      std::shared_ptr<const SharedModel>& other = prior.for_others[key.first];
      if (other == nullptr || model->problems() > other->problems()) {
        other = std::make_shared<const SharedModel>(model->ForOtherDevice());
      }
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
