#include "services/forecaster/embedded/booster.h"

#include <xgboost/c_api.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "services/forecaster/embedded/yield.h"

namespace kernelcast::forecaster {
namespace {

absl::Status Check(int code, const char* what) {
  if (code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("XGBoost: ", what, ": ", XGBGetLastError()));
}

std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

class DMatrix {
 public:
  DMatrix() = default;
  ~DMatrix() {
    if (handle_ != nullptr) XGDMatrixFree(handle_);
  }
  DMatrix(const DMatrix&) = delete;
  DMatrix& operator=(const DMatrix&) = delete;

  absl::Status Fill(const Matrix& rows) {
    return Check(XGDMatrixCreateFromMat(rows.values.data(), rows.rows, rows.columns,
                                        std::numeric_limits<float>::quiet_NaN(), &handle_),
                 "making a matrix");
  }
  absl::Status Set(const char* field, std::span<const float> values) {
    return Check(XGDMatrixSetFloatInfo(handle_, field, values.data(), values.size()), field);
  }
  DMatrixHandle get() const { return handle_; }

 private:
  DMatrixHandle handle_ = nullptr;
};

class Booster {
 public:
  Booster() = default;
  ~Booster() {
    if (handle_ != nullptr) XGBoosterFree(handle_);
  }
  Booster(const Booster&) = delete;
  Booster& operator=(const Booster&) = delete;

  absl::Status Create(const DMatrix& data) {
    const DMatrixHandle matrices[] = {data.get()};
    return Check(XGBoosterCreate(matrices, 1, &handle_), "making a booster");
  }
  absl::Status Set(const char* name, const std::string& value) {
    return Check(XGBoosterSetParam(handle_, name, value.c_str()), name);
  }
  BoosterHandle get() const { return handle_; }

 private:
  BoosterHandle handle_ = nullptr;
};

}  // namespace

void Matrix::Append(std::span<const float> row_values) {
  if (rows == 0) columns = row_values.size();
  values.insert(values.end(), row_values.begin(), row_values.end());
  ++rows;
}

float Forest::Predict(std::span<const float> row) const {
  float sum = 0;
  for (const uint32_t root : roots_) {
    const Node* node = &nodes_[root];
    while (node->left >= 0) {
      const float value = row[node->feature];
      const bool left = std::isnan(value) ? node->missing_left != 0 : value < node->value;
      node = &nodes_[left ? node->left : node->right];
    }
    sum += node->value;
  }
  return sum;
}

// Extracts the trees of a trained booster.
class BoosterTrainer {
 public:
  static absl::StatusOr<Forest> Extract(const Booster& booster) {
    bst_ulong length = 0;
    const char* bytes = nullptr;
    KC_RETURN_IF_ERROR(
        Check(XGBoosterSaveModelToBuffer(booster.get(), R"({"format": "ubj"})", &length, &bytes),
              "saving a model"));
    const nlohmann::json model = nlohmann::json::from_ubjson(bytes, bytes + length, /*strict=*/true,
                                                             /*allow_exceptions=*/false);
    if (model.is_discarded()) return absl::InternalError("XGBoost: the saved model is unreadable");
    try {
      return Convert(model.at("learner").at("gradient_booster").at("model").at("trees"));
    } catch (const nlohmann::json::exception& error) {
      return absl::InternalError(absl::StrCat("XGBoost: the saved model: ", error.what()));
    }
  }

 private:
  static absl::StatusOr<Forest> Convert(const nlohmann::json& trees) {
    Forest forest;
    for (const nlohmann::json& tree : trees) {
      const auto& left = tree.at("left_children");
      const auto& right = tree.at("right_children");
      const auto& feature = tree.at("split_indices");
      const auto& condition = tree.at("split_conditions");
      const auto& default_left = tree.at("default_left");
      const size_t size = left.size();
      const int32_t base = static_cast<int32_t>(forest.nodes_.size());
      forest.roots_.push_back(static_cast<uint32_t>(base));
      for (size_t i = 0; i < size; ++i) {
        Forest::Node& node = forest.nodes_.emplace_back();
        node.value = condition.at(i).get<float>();
        const int32_t left_child = left.at(i).get<int32_t>();
        if (left_child < 0) continue;
        const int32_t right_child = right.at(i).get<int32_t>();
        if (left_child >= static_cast<int32_t>(size) || right_child < 0 ||
            right_child >= static_cast<int32_t>(size)) {
          return absl::InternalError("XGBoost: the saved model has a child out of range");
        }
        node.left = base + left_child;
        node.right = base + right_child;
        node.feature = feature.at(i).get<uint32_t>() & 0x7fffffffu;
        node.missing_left = default_left.at(i).get<int>() != 0 ? 1 : 0;
      }
    }
    return forest;
  }
};

absl::StatusOr<Forest> TrainForest(const Matrix& rows, std::span<const float> labels,
                                   std::span<const float> weights, const BoosterOptions& options) {
  return TrainForest(rows, labels, weights, options, nullptr);
}

absl::StatusOr<Forest> TrainForest(const Matrix& rows, std::span<const float> labels,
                                   std::span<const float> weights, const BoosterOptions& options,
                                   std::vector<float>* own_predictions) {
  if (labels.size() != rows.rows || weights.size() != rows.rows) {
    return absl::InvalidArgumentError("rows, labels and weights differ in number");
  }
  Matrix used;
  std::vector<float> used_labels;
  std::vector<float> used_weights;
  for (size_t i = 0; i < rows.rows; ++i) {
    if (!(weights[i] > 0)) continue;
    used.Append(rows.row(i));
    used_labels.push_back(labels[i]);
    used_weights.push_back(weights[i]);
  }
  if (used.rows == 0 || used.columns == 0) {
    return absl::InvalidArgumentError("no row, or no column, to train on");
  }

  DMatrix data;
  KC_RETURN_IF_ERROR(data.Fill(used));
  KC_RETURN_IF_ERROR(data.Set("label", used_labels));
  KC_RETURN_IF_ERROR(data.Set("weight", used_weights));
  Booster booster;
  KC_RETURN_IF_ERROR(booster.Create(data));
  const std::pair<const char*, std::string> parameters[] = {
      {"nthread", "1"},
      {"verbosity", "0"},
      // With few rows, the exact method is the fastest and needs no sketch.
      {"tree_method", "exact"},
      {"objective", options.logistic ? "binary:logistic" : "reg:squarederror"},
      // A margin of zero.
      {"base_score", options.logistic ? "0.5" : "0"},
      {"max_depth", absl::StrCat(options.max_depth)},
      {"eta", NumberText(options.eta)},
      {"lambda", NumberText(options.lambda)},
      {"min_child_weight", NumberText(options.min_child_weight)},
      {"colsample_bytree", NumberText(options.column_share)},
      {"seed", absl::StrCat(options.seed & 0x7fffffffu)},
  };
  for (const auto& [name, value] : parameters) KC_RETURN_IF_ERROR(booster.Set(name, value));
  for (int round = 0; round < options.rounds; ++round) {
    Yield();
    KC_RETURN_IF_ERROR(Check(XGBoosterUpdateOneIter(booster.get(), round, data.get()), "boosting"));
  }
  if (own_predictions != nullptr) {
    DMatrix all;
    KC_RETURN_IF_ERROR(all.Fill(rows));
    bst_ulong size = 0;
    const float* values = nullptr;
    constexpr int kMargin = 1;
    KC_RETURN_IF_ERROR(Check(
        XGBoosterPredict(booster.get(), all.get(), kMargin, 0, /*training=*/0, &size, &values),
        "predicting"));
    own_predictions->assign(values, values + size);
  }
  return BoosterTrainer::Extract(booster);
}

}  // namespace kernelcast::forecaster
