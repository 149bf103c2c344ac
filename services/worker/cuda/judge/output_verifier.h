#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_OUTPUT_VERIFIER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_OUTPUT_VERIFIER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/worker/core/output_rules.h"
#include "services/worker/cuda/judge/judgement.h"

namespace kernelcast::worker {

// Compares outputs on the device with the expected ones. A wrong output of the candidate ends the
// judgement with an outcome, one of the reference with UNAVAILABLE. Not thread-safe.
class OutputVerifier {
 public:
  // `judgement` must outlive the verifier.
  explicit OutputVerifier(Judgement& judgement) : judgement_(judgement) {}

  // Allocates what verifying needs: a candidate may leave no memory on the device.
  bool Reserve();

  // One output of a case, and what it must be.
  struct Look {
    size_t index;  // of the case
    size_t output;
    const CudaExpected* expected;
  };
  // Which calls the outputs are of.
  struct Calls {
    Side side;
    uint32_t poison;  // what the outputs held before the calls
    bool timed;
    // Whether a task's own checker is asked, where there is one. Of timed calls it is asked about
    // those that differ from the reference, and one more.
    bool ask_checker = true;
  };
  bool Verify(const std::vector<Look>& looks, const Calls& calls);

  // The last calls of a shape's slots.
  struct SlotCalls {
    const CudaPreparedProblem::BenchShape& shape;
    Side side;
    size_t slots;  // only the first ones
    CudaPreparedProblem::Bank bank;
    uint32_t poison;
    // Bank of the values before; a candidate whose outputs are right for these has cached them.
    std::optional<CudaPreparedProblem::Bank> stale = std::nullopt;
  };
  bool VerifySlots(const SlotCalls& calls);

  const OutputRules& rules() const { return rules_; }

 private:
  // Why the task's own checker refuses the candidate's outputs, by case; it is asked about those of
  // `looks`.
  using Refusals = std::map<size_t, std::string>;
  bool Compare(const std::vector<Look>& looks, const Calls& calls, bool by_own_error,
               std::vector<TensorComparison>& found);
  // Accepts refused outputs that agree by Tolerance::own_error.
  bool AllowOwnErrors(const std::vector<Look>& looks, const Calls& calls,
                      std::vector<TensorVerdict>& verdicts);
  bool AskChecker(const std::vector<Look>& looks, const std::vector<TensorVerdict>& verdicts,
                  const Calls& calls, Refusals& refusals);
  OutputRules::Output OutputOf(const Look& look) const;
  // Adds the values of the first mismatch.
  bool Wrong(const Look& look, const TensorComparison& comparison, bool timed, WrongResult wrong);

  Judgement& judgement_;
  DeviceBuffer comparisons_;
  OutputRules rules_{judgement_.prepared().problem()};
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_OUTPUT_VERIFIER_H_
