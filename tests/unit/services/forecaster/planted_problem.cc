#include "tests/unit/services/forecaster/planted_problem.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

constexpr char kProblemYaml[] = R"(
schema: 1
name: NAME
title: A planted problem
family: planted
description: Speedups are a known function of the tunables.
axes:
  rows: {held_out: [1, 40]}
  cols: {held_out: [1, 300]}
inputs:
  - name: x
    dtype: float32
    shape: [rows, cols]
    init: {distribution: normal, mean: 0, stddev: 1}
outputs:
  - name: y
    dtype: float32
    shape: [rows]
    tolerance: {atol: 1.0e-6, rtol: 1.0e-5, normwise: 1.0e-6}
oracle: oracle.cc
targets:
  cpu:
    reference: reference.cc
    space: space/cpu.yaml
check_shapes:
  - {rows: 1, cols: 1}
bench_shapes:
  - {rows: 16, cols: 64}
  - {rows: 256, cols: 1024}
flops: "2*rows*cols"
bytes: "4*rows*cols"
)";

constexpr char kSpaceYaml[] = R"(
schema: 1
target: cpu
templates:
  - name: plain
    file: plain.cc
    description: plain loops
    tunables:
      UNROLL: [1, 2, 4, 8, 16]
      MODE: [direct, table, split]
    flags:
      - []
      - [-ffast-math]
  - name: vector
    file: vector.cc
    description: explicit vectors
    tunables:
      LANES: [2, 4, 8, 16]
      UNROLL: [1, 2, 4, 8, 16]
      MODE: [direct, table, split]
  - name: blocked
    file: blocked.cc
    description: blocks
    tunables:
      LANES: [2, 4, 8, 16]
      BLOCK: [8, 16, 32, 64, 128]
      MODE: [direct, table, split]
)";

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

double Log2Of(const std::string& number) { return std::log2(std::atof(number.c_str())); }

std::map<std::string, std::string> TunablesOf(const Candidate& candidate) {
  std::map<std::string, std::string> tunables;
  for (const Tunable& tunable : candidate.tunables) tunables[tunable.name] = tunable.value;
  return tunables;
}

}  // namespace

CompileFacts RecordedFacts(const std::vector<double>& times_ns) {
  const FactSchema& simulation = **FindSimulationSchema(kCudaSimulationSchemaId);
  ShapeSimulation shape{std::string(kCudaSimulationSchemaId), "NVIDIA H200", {}};
  for (const double ns : times_ns) {
    LaunchSimulation& launch = shape.launches.emplace_back();
    launch.values.assign(simulation.names.size(), 0.0);
    launch.values.back() = ns;  // estimated_ns
  }
  return {std::string(kPythonSourceSchemaId), std::vector<double>(5, 1.0), {shape}};
}

double NormalDraw(uint64_t seed) {
  Random random(seed);
  const double u = 1 - random.Uniform();
  const double v = random.Uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

std::vector<ProblemFile> PlantedFiles(const std::string& name) {
  return {{"oracle.cc", "// oracle\n"},       {"problem.yaml", Replace(kProblemYaml, "NAME", name)},
          {"reference.cc", "// reference\n"}, {"space/blocked.cc", "// blocked\n"},
          {"space/cpu.yaml", kSpaceYaml},     {"space/plain.cc", "// plain\n"},
          {"space/vector.cc", "// vector\n"}};
}

PlantedProblem::PlantedProblem(const std::string& name, double shift) : shift_(shift) {
  absl::StatusOr<Problem> problem = ParseProblem(PlantedFiles(name));
  if (!problem.ok()) throw std::runtime_error(std::string(problem.status().message()));
  context_ = std::make_shared<const ProblemContext>(*std::move(problem));
  const Space& space = *context_->problem.targets.at("cpu").space;
  for (const SpacePoint& point : EnumeratePoints(space)) {
    candidates_.push_back(CandidateFromPoint(space, point, context_->problem.problem_id));
  }
}

double PlantedProblem::Log2Speedup(size_t candidate) const {
  const auto tunables = TunablesOf(candidates_[candidate]);
  const std::string& mode = tunables.at("MODE");
  double value = shift_ + (mode == "table" ? 0.4 : mode == "split" ? -0.5 : 0.0);
  const std::string& name = tunables.at("TEMPLATE");
  if (name == "plain") {
    value += -0.8 + 0.1 * Log2Of(tunables.at("UNROLL"));
    if (!candidates_[candidate].flags.empty()) value += 0.9;
  } else if (name == "vector") {
    const double unroll = Log2Of(tunables.at("UNROLL")) - 2;
    value += 0.2 + 0.5 * Log2Of(tunables.at("LANES")) - 0.15 * unroll * unroll;
  } else {
    const double block = Log2Of(tunables.at("BLOCK")) - 5;
    value += 0.35 * Log2Of(tunables.at("LANES")) - 0.2 * block * block;
  }
  return value;
}

CompileFacts PlantedProblem::Facts(size_t candidate) const {
  const auto tunables = TunablesOf(candidates_[candidate]);
  CompileFacts facts = ReferenceFacts();
  const auto lanes = tunables.find("LANES");
  const auto unroll = tunables.find("UNROLL");
  const double width = lanes == tunables.end() ? 1 : std::atof(lanes->second.c_str());
  const double copies = unroll == tunables.end() ? 2 : std::atof(unroll->second.c_str());
  facts.values[0] = 40 + 12 * copies + width;
  facts.values[1] = 4 * facts.values[0];
  facts.values[15] = copies * width / 2;
  facts.values[48] = 4 * width;
  return facts;
}

CompileFacts PlantedProblem::ReferenceFacts() const {
  CompileFacts facts;
  facts.schema = std::string(kCpuAssemblySchemaId);
  facts.values.assign((*FindFactSchema(facts.schema))->names.size(), 1.0);
  facts.values[0] = 50;
  facts.values[1] = 200;
  return facts;
}

Label PlantedProblem::MakeLabel(size_t candidate, double noise, uint64_t seed) const {
  Label label;
  label.label_id =
      context_->problem.name + "-" + std::to_string(candidate) + "-" + std::to_string(seed);
  label.candidate = candidates_[candidate];
  label.facts = Facts(candidate);
  label.reference_facts = ReferenceFacts();
  const double log2_speedup =
      Log2Speedup(candidate) + noise * NormalDraw(DeriveSeed(seed, "noise", candidate));
  const double value = std::exp2(log2_speedup);
  label.truth = Ratio{value, value * 0.99, value * 1.01, 0.95};
  return label;
}

Label PlantedProblem::MakeFailure(size_t candidate, FailureKind kind) const {
  Label label = MakeLabel(candidate);
  label.truth = kind;
  return label;
}

std::vector<size_t> PlantedProblem::Shuffled(uint64_t seed) const {
  std::vector<size_t> order(size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  Random random(DeriveSeed(seed, "order", 0));
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

}  // namespace kernelcast::forecaster
