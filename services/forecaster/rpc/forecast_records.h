#ifndef KERNELCAST_SERVICES_FORECASTER_RPC_FORECAST_RECORDS_H_
#define KERNELCAST_SERVICES_FORECASTER_RPC_FORECAST_RECORDS_H_

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/work_queue.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/replay/replay_backend.h"

namespace kernelcast::forecaster {

// Reads a file with one JSON object per line: a ForecastRecord, as written by ForecastRecorder, or
// an ExportRecord, as written by `kernelcast export`. From the latter it takes the forecasts that
// decisions were based on; other forecasts are not in them. The file may be compressed with gzip.
// Errors as ForEachGzipRecord; INVALID_ARGUMENT: a line is invalid.
[[nodiscard]] absl::StatusOr<std::vector<RecordedForecast>> ReadForecastRecords(
    const std::string& path);

// Wraps a backend and appends its answers to a file, one per line, for ReplayBackend. Latency is
// left out, so that equal answers give equal lines. A separate thread writes; answers do not wait
// for it. An answer that differs from an earlier one only in labels seen and token usage is not
// written again.
class ForecastRecorder final : public Backend {
 public:
  // Appends to the file. PERMISSION_DENIED: the file cannot be opened. `backend` must outlive the
  // recorder.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ForecastRecorder>> Open(
      const std::string& path, Backend* backend);
  // Writes the pending answers.
  ~ForecastRecorder() override;

  std::string_view name() const override { return backend_.name(); }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Prepare(const std::shared_ptr<const ProblemContext>& problem) override {
    backend_.Prepare(problem);
  }
  void Observe(std::vector<ObservedLabel> labels) override { backend_.Observe(std::move(labels)); }
  BackendDescription Describe() const override { return backend_.Describe(); }
  absl::StatusOr<RenderedPrompt> ShowPrompt(const ForecastInput& input) const override {
    return backend_.ShowPrompt(input);
  }

 private:
  ForecastRecorder(std::ofstream file, std::string path, Backend* backend);
  void Record(const RecordedForecast& record);

  // The last line written for a question.
  struct Last {
    std::string hash;  // without the time
    uint64_t time = 0;
  };

  Backend& backend_;
  const std::string path_;

  // Used by the writing thread.
  std::ofstream file_;
  bool broken_ = false;
  std::map<std::string, Last> last_;

  std::mutex mutex_;
  std::map<std::string, uint64_t> asked_;  // guarded by mutex_

  WorkQueue writer_;  // last: ends before the members it uses
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_FORECAST_RECORDS_H_
