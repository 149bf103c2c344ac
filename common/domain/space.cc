#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/domain/problem.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr std::string_view kFlagsDimension = "FLAGS";

bool AdmitsValues(const SpaceTemplate& space_template, const std::vector<int>& values) {
  if (space_template.constraints.empty()) return true;
  Variables variables;
  for (size_t d = 0; d < space_template.dimensions.size(); ++d) {
    const SpaceTemplate::Dimension& dimension = space_template.dimensions[d];
    const std::string& value = dimension.values[values[d]];
    if (IsDecimalInteger(value)) variables[dimension.name] = static_cast<double>(std::stoll(value));
  }
  for (const Expression& constraint : space_template.constraints) {
    const absl::StatusOr<double> holds = constraint.Evaluate(variables);
    if (!holds.ok() || *holds == 0) return false;
  }
  return true;
}

// The launches of a Triton template with the values of a point.
std::vector<Launch> TritonLaunches(const SpaceTemplate& space_template, const SpacePoint& point) {
  const auto value = [&](const std::string& name, int32_t& into) {
    for (size_t d = 0; d < space_template.dimensions.size(); ++d) {
      const SpaceTemplate::Dimension& dimension = space_template.dimensions[d];
      if (dimension.name == name) into = std::stoi(dimension.values[point.values[d]]);
    }
  };
  std::vector<Launch> launches = space_template.launches;
  for (size_t i = 0; i < launches.size(); ++i) {
    value(space_template.triton_tunables[i].num_warps, launches[i].num_warps);
    value(space_template.triton_tunables[i].num_stages, launches[i].num_stages);
  }
  return launches;
}

}  // namespace

bool NextPoint(const SpaceTemplate& space_template, SpacePoint& point) {
  for (size_t d = point.values.size(); d-- > 0;) {
    const int size = static_cast<int>(space_template.dimensions[d].values.size());
    if (++point.values[d] < size) return true;
    point.values[d] = 0;
  }
  return false;
}

bool Admits(const Space& space, const SpacePoint& point) {
  if (point.template_index < 0 ||
      point.template_index >= static_cast<int>(space.templates.size())) {
    return false;
  }
  const SpaceTemplate& space_template = space.templates[point.template_index];
  if (point.values.size() != space_template.dimensions.size()) return false;
  for (size_t d = 0; d < point.values.size(); ++d) {
    const int size = static_cast<int>(space_template.dimensions[d].values.size());
    if (point.values[d] < 0 || point.values[d] >= size) return false;
  }
  return AdmitsValues(space_template, point.values);
}

std::vector<SpacePoint> EnumeratePoints(const Space& space, size_t limit) {
  std::vector<SpacePoint> points;
  for (size_t t = 0; t < space.templates.size(); ++t) {
    const SpaceTemplate& space_template = space.templates[t];
    SpacePoint point{.template_index = static_cast<int>(t),
                     .values = std::vector<int>(space_template.dimensions.size(), 0)};
    do {
      if (points.size() >= limit) return points;
      if (AdmitsValues(space_template, point.values)) points.push_back(point);
    } while (NextPoint(space_template, point));
  }
  return points;
}

Candidate CandidateFromPoint(const Space& space, const SpacePoint& point,
                             const std::string& problem_id) {
  const SpaceTemplate& space_template = space.templates[point.template_index];
  Candidate candidate;
  candidate.problem_id = problem_id;
  candidate.target = space.target;
  candidate.kind = space_template.kind;
  candidate.origin = "template:" + space_template.name;
  candidate.tunables.push_back({.name = "TEMPLATE", .value = space_template.name});
  const KindInfo& info = KindInfoOf(space_template.kind);
  size_t flag_set = 0;
  for (size_t d = 0; d < space_template.dimensions.size(); ++d) {
    const SpaceTemplate::Dimension& dimension = space_template.dimensions[d];
    const std::string& value = dimension.values[point.values[d]];
    if (dimension.name == kFlagsDimension) {
      flag_set = static_cast<size_t>(point.values[d]);
    } else if (!info.is_python) {
      absl::StrAppend(&candidate.source, "#define ", dimension.name, " ", value, "\n");
    }
    candidate.tunables.push_back({.name = dimension.name, .value = value});
  }
  if (flag_set < space_template.flag_sets.size()) {
    candidate.flags = space_template.flag_sets[flag_set];
  }
  candidate.workspace_bytes = space_template.workspace_bytes;
  candidate.launches = info.launch_form == LaunchForm::kTriton
                           ? TritonLaunches(space_template, point)
                           : space_template.launches;
  // Makes compiler messages refer to the author's file and lines.
  if (!info.is_python) {
    absl::StrAppend(&candidate.source, "#line 1 \"", space_template.file, "\"\n");
  }
  candidate.source += space_template.source;
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

}  // namespace kernelcast
