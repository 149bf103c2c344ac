#ifndef KERNELCAST_SERVICES_WORKER_RPC_RECORD_READER_H_
#define KERNELCAST_SERVICES_WORKER_RPC_RECORD_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/replay/replay_target.h"

namespace kernelcast::worker {

// Reads a file with the JSON form of one ExportRecord on each line, as `kernelcast export` writes
// it. Records that are neither measured nor refused by the compiler tell their facts only.
// NOT_FOUND: no such file. INVALID_ARGUMENT: "FILE:LINE: what is wrong".
[[nodiscard]] absl::StatusOr<std::vector<ReplayRecord>> ReadRecords(const std::string& path);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_RPC_RECORD_READER_H_
