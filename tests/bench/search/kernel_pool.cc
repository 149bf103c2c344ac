#include "tests/bench/search/kernel_pool.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "services/orchestrator/generator/answer_reader.h"

namespace kernelcast::testing {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPreparationAbove = 2.5;

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The expression with the values of tunables instead of their names.
std::string WithValues(const std::string& expression, const std::vector<Tunable>& tunables) {
  std::string result;
  for (size_t at = 0; at < expression.size();) {
    size_t end = at;
    while (end < expression.size() && IsWordCharacter(expression[end])) ++end;
    if (end == at) {
      result += expression[at++];
      continue;
    }
    std::string word = expression.substr(at, end - at);
    const auto tunable = std::ranges::find(tunables, word, &Tunable::name);
    result += tunable == tunables.end() ? word : tunable->value;
    at = end;
  }
  return result;
}

std::string AnswerOf(const Candidate& candidate) {
  const auto values = [&](const std::vector<std::string>& expressions) {
    Json list = Json::array();
    for (const std::string& one : expressions) list.push_back(WithValues(one, candidate.tunables));
    return list;
  };
  Json description = Json::object();
  if (!candidate.flags.empty()) description["flags"] = candidate.flags;
  if (!candidate.workspace_bytes.empty()) {
    description["workspace_bytes"] = WithValues(candidate.workspace_bytes, candidate.tunables);
  }
  for (const Launch& launch : candidate.launches) {
    Json& one = description["launches"].emplace_back(Json{{"kernel", launch.kernel}});
    one["grid"] = values(launch.grid);
    one["block"] = values(launch.block);
    if (!launch.shared_memory_bytes.empty()) {
      one["shared_memory_bytes"] = WithValues(launch.shared_memory_bytes, candidate.tunables);
    }
    one["arguments"] = values(launch.arguments);
    if (!launch.cluster.empty()) one["cluster"] = values(launch.cluster);
  }
  return absl::StrCat("````cpp\n", candidate.source, "\n````\n````json\n", description.dump(),
                      "\n````\n");
}

}  // namespace

absl::Status KernelPool::WriteRecords(const std::string& path) const {
  std::vector<int64_t> times;
  for (const PoolKernel& kernel : kernels) {
    if (!kernel.record.evaluation().has_measured()) continue;
    times.push_back(ToNanoseconds(kernel.record.evaluation().measured().device_time()));
  }
  if (times.empty()) return absl::NotFoundError(absl::StrCat(problem.name, ": nothing measured"));
  std::sort(times.begin(), times.end());
  const int64_t median = times[times.size() / 2];
  std::ofstream out(path);
  for (const PoolKernel& kernel : kernels) {
    v1::ExportRecord record = kernel.record;
    if (record.evaluation().has_measured()) {
      google::protobuf::Duration& time =
          *record.mutable_evaluation()->mutable_measured()->mutable_device_time();
      if (static_cast<double>(ToNanoseconds(time)) >
          kPreparationAbove * static_cast<double>(median)) {
        time = DurationToProto(median);
      }
      record.mutable_evaluation()->mutable_measured()->clear_preparation_time();
    }
    out << ProtoToJson(record) << "\n";
  }
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
}

absl::StatusOr<KernelPool> ReadKernelPool(const std::string& problems, const std::string& records,
                                          const std::string& name, const std::string& target) {
  KernelPool pool;
  KC_ASSIGN_OR_RETURN(auto files, ReadProblemFolder(absl::StrCat(problems, "/", name)));
  KC_ASSIGN_OR_RETURN(pool.problem, ParseProblem(std::move(files)));
  const std::string path = absl::StrCat(records, "/", name, ".jsonl.gz");
  KC_RETURN_IF_ERROR(
      ForEachGzipLine(path, [&](int64_t number, const std::string& line) -> absl::Status {
        PoolKernel kernel;
        if (!ProtoFromJson(line, &kernel.record).ok()) {
          return absl::DataLossError(absl::StrCat(path, ":", number, ": cannot be read"));
        }
        KC_ASSIGN_OR_RETURN(const Candidate recorded, FromProto(kernel.record.candidate()));
        if (std::ranges::any_of(recorded.launches,
                                [](const Launch& one) { return !one.when.empty(); })) {
          ++pool.left_out;
          return absl::OkStatus();
        }
        kernel.answer = AnswerOf(recorded);
        Candidate parent;
        parent.kind = recorded.kind;
        orchestrator::ReadKernel read =
            orchestrator::ReadAnswer(kernel.answer, /*cut_off=*/false, parent);
        if (read.fault != orchestrator::ReadFault::kNone) {
          return absl::InternalError(absl::StrCat(path, ":", number, ": ", read.reason));
        }
        Candidate& written = read.candidate;
        written.problem_id = pool.problem.problem_id;
        written.target = target;
        kernel.candidate_id = written.candidate_id = CandidateId(written);
        v1::Evaluation& evaluation = *kernel.record.mutable_evaluation();
        evaluation.set_candidate_id(kernel.candidate_id);
        if (evaluation.has_measured()) {
          evaluation.mutable_measured()->set_candidate_id(kernel.candidate_id);
          evaluation.mutable_measured()->set_problem_id(written.problem_id);
        }
        *kernel.record.mutable_candidate() = ToProto(written);
        pool.kernels.push_back(std::move(kernel));
        return absl::OkStatus();
      }));
  if (pool.kernels.empty()) return absl::NotFoundError(absl::StrCat(path, ": has no kernels"));
  return pool;
}

}  // namespace kernelcast::testing
