#include "common/domain/held_out_problem.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/domain/task_problem.h"
#include "common/domain/yaml_tree.h"

namespace kernelcast {
namespace {

constexpr const char* kBenchShapes = "bench_shapes";
constexpr const char* kHeldOutBenchShapes = "held_out_bench_shapes";
constexpr int kDraws = 16;

using Json = nlohmann::ordered_json;

// JSON is YAML. Scalars become strings, which the parser reads like plain ones.
Json ToJson(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: return nullptr;
    case YamlNode::Kind::kScalar: return node.scalar;
    case YamlNode::Kind::kSequence: {
      Json list = Json::array();
      for (const YamlNode& item : node.items) list.push_back(ToJson(item));
      return list;
    }
    case YamlNode::Kind::kMapping: {
      Json mapping = Json::object();
      for (const YamlEntry& entry : node.entries) mapping[entry.key] = ToJson(entry.value);
      return mapping;
    }
  }
  return nullptr;
}

int64_t DrawSize(const Axis& axis, int64_t bench, const std::string& key) {
  if (bench < axis.held_out_low || bench > axis.held_out_high) return bench;
  const int64_t step = axis.multiple_of;
  const int64_t low = (std::max(axis.held_out_low, bench / 2) + step - 1) / step;
  const int64_t high = std::min(axis.held_out_high, 2 * bench) / step;
  return step * DrawBetween(low, high, key, axis.name);
}

Json DrawShapes(const Problem& problem, const ProblemTarget& target, std::string_view seed) {
  std::vector<AxisValues> taken = target.bench_shapes;
  Json drawn = Json::array();
  for (int i = 0; i < kDraws && std::ssize(drawn) < kDrawnHeldOutShapes; ++i) {
    const std::string key = absl::StrCat("held-out shape ", i, " of ", std::string(seed));
    const size_t bench = static_cast<size_t>(i) % target.bench_shapes.size();
    AxisValues shape = target.bench_shapes[bench];
    for (const Axis& axis : problem.axes) shape[axis.name] = DrawSize(axis, shape[axis.name], key);
    if (std::ranges::find(taken, shape) != taken.end()) continue;
    Json one = Json::object();
    for (const auto& [axis, size] : shape) one[axis] = absl::StrCat(size);
    // A shape that is drawn near a bench shape has its weight.
    if (!target.bench_weights.empty()) one["weight"] = absl::StrCat(target.bench_weights[bench]);
    drawn.push_back(std::move(one));
    taken.push_back(std::move(shape));
  }
  return drawn;
}

std::optional<Problem> HeldOutTask(const Problem& problem, std::string_view seed) {
  if (seed.empty()) return std::nullopt;
  std::optional<std::vector<ProblemFile>> files = DrawWorkloads(problem, seed, kDrawnHeldOutShapes);
  if (!files) return std::nullopt;
  absl::StatusOr<Problem> derived = ParseProblem(*std::move(files));
  if (!derived.ok()) return std::nullopt;
  return *std::move(derived);
}

}  // namespace

std::optional<Problem> HeldOutProblem(const Problem& problem, std::string_view target,
                                      std::string_view seed) {
  const auto known = problem.targets.find(target);
  if (known == problem.targets.end()) return std::nullopt;
  if (problem.task.has_value()) return HeldOutTask(problem, seed);
  std::vector<ProblemFile> files = problem.files;
  const auto file = std::ranges::find(files, "problem.yaml", &ProblemFile::path);
  if (file == files.end()) return std::nullopt;
  const absl::StatusOr<YamlNode> root = ParseYaml(file->path, file->content);
  if (!root.ok()) return std::nullopt;

  Json top = ToJson(*root);
  Json& own = top["targets"][known->first];
  Json shapes;
  for (const Json* const declared : {&own, &top}) {
    if (shapes.is_null() && declared->contains(kHeldOutBenchShapes)) {
      shapes = declared->at(kHeldOutBenchShapes);
    }
  }
  if (shapes.is_null() && !seed.empty()) shapes = DrawShapes(problem, known->second, seed);
  if (shapes.empty()) return std::nullopt;
  own[kBenchShapes] = std::move(shapes);
  // Each target's are checked against its bench shapes.
  for (auto& [name, one] : top["targets"].items()) one.erase(kHeldOutBenchShapes);
  top.erase(kHeldOutBenchShapes);
  file->content = top.dump(1);
  absl::StatusOr<Problem> derived = ParseProblem(std::move(files));
  if (!derived.ok()) return std::nullopt;
  return *std::move(derived);
}

}  // namespace kernelcast
