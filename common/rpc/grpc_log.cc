#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <string_view>

#include "common/base/log.h"

namespace kernelcast {
namespace {

LogLevel Level(gpr_log_severity severity) {
  switch (severity) {
    case GPR_LOG_SEVERITY_DEBUG: return LogLevel::kDebug;
    case GPR_LOG_SEVERITY_INFO: return LogLevel::kInfo;
    case GPR_LOG_SEVERITY_ERROR: return LogLevel::kError;
  }
  return LogLevel::kError;
}

void Write(gpr_log_func_args* args) {
  const std::string_view file = args->file;
  Log(Level(args->severity), args->message,
      {{"source", "grpc"}, {"file", file.substr(file.rfind('/') + 1)}, {"line", args->line}});
}

}  // namespace

void CaptureGrpcLog() { gpr_set_log_function(&Write); }

}  // namespace kernelcast
