#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_PARSER_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_PARSER_H_

#include <cstdint>
#include <string_view>

#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

struct ProgramLimits {
  int64_t text_bytes = 4 << 20;
  int64_t instructions = 200'000;  // in all kernels
  int64_t slots = 20'000;          // per kernel
  int64_t local_bytes = 16 << 10;  // per thread
  int call_depth = 12;
};

// Parses PTX. Never fails as a whole: a kernel that is not covered has a reason. Bounded by
// `limits` for any text.
Program ParseProgram(std::string_view text, const ProgramLimits& limits = {});

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_PARSER_H_
