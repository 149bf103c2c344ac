#ifndef KERNELCAST_SERVICES_GATEWAY_DIALECTS_DIALECTS_H_
#define KERNELCAST_SERVICES_GATEWAY_DIALECTS_DIALECTS_H_

#include <memory>
#include <vector>

#include "services/gateway/core/dialect.h"

namespace kernelcast::gateway {

// The API of `flashinfer-bench serve`.
std::unique_ptr<Dialect> MakeFlashinfer(const DialectContext& context);
// The API of GPU MODE's kernelbot, as popcorn-cli uses it.
std::unique_ptr<Dialect> MakePopcorn(const DialectContext& context);
// The API of KernelGYM. Its clients send the reference, a KernelBench task, with each candidate.
std::unique_ptr<Dialect> MakeKernelgym(const DialectContext& context);
// The reward of slime's remote_rm: the speedup, or 0 for a candidate that fails.
std::unique_ptr<Dialect> MakeSlime(const DialectContext& context);
// The API of GEPA's EvalServer, under the name of a served problem.
std::unique_ptr<Dialect> MakeGepa(const DialectContext& context);

// All of them.
std::vector<std::unique_ptr<Dialect>> MakeDialects(const DialectContext& context);

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_DIALECTS_DIALECTS_H_
