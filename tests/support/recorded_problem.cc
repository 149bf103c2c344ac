#include "tests/support/recorded_problem.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "common/domain/facts.h"
#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast::testing {
namespace {

double TunableValue(const Candidate& candidate, std::string_view name) {
  for (const Tunable& tunable : candidate.tunables) {
    if (tunable.name == name) return std::atof(tunable.value.c_str());
  }
  return 0;
}

std::string Range(int count) {
  std::vector<int> values;
  for (int i = 1; i <= count; ++i) values.push_back(i);
  return absl::StrJoin(values, ", ");
}

CompileFacts Facts(double block, double unroll) {
  const FactSchema& schema = *FindFactSchema(kCpuAssemblySchemaId).value();
  CompileFacts facts{std::string(schema.id), std::vector<double>(schema.names.size(), 1.0)};
  facts.values[0] = 10 + block;
  facts.values[1] = 5 + unroll;
  return facts;
}

std::string Source(int least_bytes) {
  std::string source = "// smooth\n";
  while (static_cast<int>(source.size()) < least_bytes) {
    absl::StrAppend(&source, "y[", source.size(), "] = x[", source.size(), "];\n");
  }
  return source;
}

}  // namespace

double RecordedSpeedup(const Candidate& candidate) {
  const double block = TunableValue(candidate, "BLOCK");
  const double unroll = TunableValue(candidate, "UNROLL");
  const double log2_speedup =
      2.0 - 0.02 * (block - 14) * (block - 14) - 0.03 * (unroll - 9) * (unroll - 9);
  return std::exp2(std::max(log2_speedup, -2.5));
}

RecordedProblem MakeRecordedProblem(int blocks, int unrolls, const std::string& target,
                                    int source_bytes) {
  RecordedProblem recorded;
  const std::string space_file = absl::StrCat("space/", target, ".yaml");
  recorded.files = {
      {"problem.yaml",
       absl::StrCat(R"(schema: 1
name: recorded
title: Recorded
family: recorded
description: Made-up measurements of a smooth space.
axes:
  n: {held_out: [1, 64]}
inputs:
  - {name: x, dtype: float32, shape: [n], init: {distribution: normal, mean: 0, stddev: 1}}
outputs:
  - {name: y, dtype: float32, shape: [n], tolerance: {atol: 1.0e-6, rtol: 1.0e-5, normwise: 1.0e-6}}
oracle: oracle.cc
targets:
  )",
                    target, R"(: {reference: reference.cc, space: )", space_file, R"(}
check_shapes:
  - {n: 7}
bench_shapes:
  - {n: 1024}
)")},
      {"oracle.cc", "// oracle\n"},
      {"reference.cc", "// reference\n"},
      {space_file, absl::StrCat("schema: 1\ntarget: ", target,
                                "\ntemplates:\n  - name: smooth\n    file: smooth.cc\n"
                                "    description: Smooth.\n    tunables:\n      BLOCK: [",
                                Range(blocks), "]\n      UNROLL: [", Range(unrolls), "]\n")},
      {"space/smooth.cc", Source(source_bytes)},
  };
  recorded.problem = ParseProblem(recorded.files).value();
  const Space& space = *recorded.problem.targets.at(target).space;
  for (const SpacePoint& point : EnumeratePoints(space)) {
    recorded.candidates.push_back(CandidateFromPoint(space, point, recorded.problem.problem_id));
    recorded.best_speedup =
        std::max(recorded.best_speedup, RecordedSpeedup(recorded.candidates.back()));
  }
  return recorded;
}

void WriteRecords(const RecordedProblem& recorded, const std::string& path,
                  const RecordOptions& options) {
  std::ofstream out(path);
  uint64_t sequence = 0;
  for (const Candidate& candidate : recorded.candidates) {
    v1::ExportRecord record;
    record.set_sequence(++sequence);
    record.set_problem_name(recorded.problem.name);
    *record.mutable_candidate() = ToProto(candidate);
    *record.mutable_facts() = ToProto(
        options.facts ? options.facts(&candidate)
                      : Facts(TunableValue(candidate, "BLOCK"), TunableValue(candidate, "UNROLL")));
    *record.mutable_reference_facts() =
        ToProto(options.facts ? options.facts(nullptr) : Facts(1, 1));
    Measurement measurement;
    measurement.candidate_id = candidate.candidate_id;
    measurement.problem_id = candidate.problem_id;
    measurement.target = candidate.target;
    measurement.device_time_ns = 500'000'000;
    measurement.protocol_version = "made-up";
    measurement.device.model = options.device_model;
    MeasuredOk ok;
    const double speedup = options.speedup(candidate);
    ok.speedup = Ratio{speedup, speedup * 0.99, speedup * 1.01, 0.95};
    ok.comparison = speedup > 1.02 ? Comparison::kFaster : Comparison::kSlower;
    measurement.outcome = ok;
    auto* evaluation = record.mutable_evaluation();
    evaluation->set_candidate_id(candidate.candidate_id);
    *evaluation->mutable_measured() = ToProto(measurement);
    const std::string line = ProtoToJson(record);
    out << line << "\n";
  }
}

}  // namespace kernelcast::testing
