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
#include "services/forecaster/core/backend.h"
#include "services/forecaster/replay/replay_backend.h"
#include "services/forecaster/rpc/work_queue.h"

namespace kernelcast::forecaster {

// Reads a file with the JSON form of one ForecastRecord on each line, as ForecastRecorder writes
// it, or of one ExportRecord, as `kernelcast export` does. Of the latter the forecasts that were
// decided on are taken; what was forecast in between is not in them. NOT_FOUND: no such file.
// INVALID_ARGUMENT: "FILE:LINE: what is wrong".
[[nodiscard]] absl::StatusOr<std::vector<RecordedForecast>> ReadForecastRecords(
    const std::string& path);

// Stands before a backend and appends what it answers to a file, a line each, for ReplayBackend.
// Latency is left out, so that the same answers make the same lines. A thread of its own writes; an
// answer does not wait for it. An answer that was the same with fewer labels, but for tokens spent,
// is not written again.
class ForecastRecorder final : public Backend {
 public:
  // Appends. PERMISSION_DENIED: the file cannot be opened. `backend` outlives the recorder.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ForecastRecorder>> Open(
      const std::string& path, Backend* backend);
  // Writes what was answered.
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

  // Of the last line of a question.
  struct Last {
    std::string hash;  // without its time
    uint64_t time = 0;
  };

  Backend& backend_;
  const std::string path_;

  // Of the writing thread.
  std::ofstream file_;
  bool broken_ = false;
  std::map<std::string, Last> last_;

  std::mutex mutex_;
  std::map<std::string, uint64_t> asked_;  // guarded by mutex_

  WorkQueue writer_;  // last: ends before what it uses
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_FORECAST_RECORDS_H_
