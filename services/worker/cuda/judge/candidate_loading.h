#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CANDIDATE_LOADING_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CANDIDATE_LOADING_H_

#include "services/worker/cuda/judge/judgement.h"

namespace kernelcast::worker {

// Steps of a judgement.

// Whether a candidate that was loaded ahead has survived it.
bool LoadedAhead(Judgement& judgement);

// Clears the memory that candidates share, loads the candidate and the reference into the current
// runners in random order, and hands them their programs.
bool LoadCandidate(Judgement& judgement);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CANDIDATE_LOADING_H_
