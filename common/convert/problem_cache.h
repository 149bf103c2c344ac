#ifndef KERNELCAST_COMMON_CONVERT_PROBLEM_CACHE_H_
#define KERNELCAST_COMMON_CONVERT_PROBLEM_CACHE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/lru_cache.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/domain/problem.h"

namespace kernelcast {

// The problems that a process has received, each parsed once. Bounded; thread-safe.
class ProblemCache {
 public:
  explicit ProblemCache(size_t max_problems = 256, size_t max_bytes = 256 << 20)
      : problems_(max_problems, max_bytes) {}

  // Parses the files, unless a problem with the same files is here. Errors as ProblemFromProto.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const Problem>> Put(const v1::Problem& message) {
    KC_ASSIGN_OR_RETURN(ProblemContent content, ContentFromProto(message));
    if (auto known = Find(content.problem_id)) return known;
    KC_ASSIGN_OR_RETURN(Problem parsed, ParseProblem(std::move(content.files)));
    auto problem = std::make_shared<const Problem>(std::move(parsed));
    problems_.Put(problem->problem_id, problem, message.ByteSizeLong());
    return problem;
  }
  // Null: it is not here.
  std::shared_ptr<const Problem> Find(const std::string& problem_id) {
    return problems_.Find(problem_id);
  }

 private:
  LruCache<Problem> problems_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_PROBLEM_CACHE_H_
