#ifndef KERNELCAST_SERVICES_WORKER_RPC_RECORD_READER_H_
#define KERNELCAST_SERVICES_WORKER_RPC_RECORD_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/replay/replay_target.h"

namespace kernelcast::worker {

// Reads a file with one ExportRecord in JSON per line, as `kernelcast export` writes it. Records
// that were neither measured nor rejected by the compiler contribute only facts. The file may be
// compressed with gzip. Errors as ForEachGzipRecord; INVALID_ARGUMENT: a line is invalid, or has a
// number that is not finite.
[[nodiscard]] absl::StatusOr<std::vector<ReplayRecord>> ReadRecords(const std::string& path);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_RPC_RECORD_READER_H_
