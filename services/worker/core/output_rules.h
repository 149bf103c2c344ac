#ifndef KERNELCAST_SERVICES_WORKER_CORE_OUTPUT_RULES_H_
#define KERNELCAST_SERVICES_WORKER_CORE_OUTPUT_RULES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/variation.h"
#include "services/worker/core/verification.h"

namespace kernelcast::worker {

// Decides whether the outputs of one candidate are right, from how they compare with the expected
// ones: by the problem's tolerances or the task's format, by the task's own checker, by the
// reference's own error, and by the rule against trivial answers. Not thread-safe.
class OutputRules {
 public:
  // `problem` must outlive this.
  explicit OutputRules(const Problem& problem) : problem_(problem) {}

  // The rule of passing of a task's format; empty for other problems.
  std::string FormatRule(const Tolerance& tolerance) const;

  struct Output {
    const AxisValues& axes;
    std::string distribution;
    size_t index;      // among the outputs of a call
    uint64_t draw;     // see VariationCheck::Draw
    std::string name;  // for messages
    DataType dtype;
    const Tolerance& tolerance;
    std::optional<double> noise;  // see Unexplained
    uint64_t elements;
  };
  // Facts besides the values on which the verdict on an output depends.
  struct Circumstances {
    // Whether the task's own checker decides. It may allow other results than the reference's.
    bool by_checker = false;
    std::optional<std::string> refusal =
        std::nullopt;  // why the checker refuses the call's outputs
    bool timed = false;
  };
  // Nothing if the output is right. Values and errors of the result are rounded for reports.
  std::optional<WrongResult> Judge(const Output& output, const TensorVerdict& verdict,
                                   const Circumstances& circumstances);
  // Whether the output agrees and is no trivial answer.
  bool Fits(const Output& output, const TensorVerdict& verdict) {
    return verdict.ok && !TrivialAnswer(output, verdict);
  }

  // For the rule of a result: which output agreed by the reference's own error only; empty if none.
  const std::string& decided_by() const { return decided_by_; }

 private:
  // Why an output that agrees is wrong all the same (variation.h); nothing if it is right.
  std::optional<std::string> TrivialAnswer(const Output& output, const TensorVerdict& verdict);

  const Problem& problem_;
  VariationCheck variation_;
  std::string decided_by_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_OUTPUT_RULES_H_
