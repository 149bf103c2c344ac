#include "services/gateway/dialects/dialects.h"

namespace kernelcast::gateway {

std::vector<std::unique_ptr<Dialect>> MakeDialects(const DialectContext& context) {
  std::vector<std::unique_ptr<Dialect>> dialects;
  dialects.push_back(MakeFlashinfer(context));
  dialects.push_back(MakePopcorn(context));
  dialects.push_back(MakeKernelgym(context));
  dialects.push_back(MakeSlime(context));
  dialects.push_back(MakeGepa(context));
  return dialects;
}

}  // namespace kernelcast::gateway
