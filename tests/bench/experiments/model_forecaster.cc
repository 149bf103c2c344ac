#include "tests/bench/experiments/model_forecaster.h"

#include <cstdio>
#include <future>
#include <utility>

#include "common/base/status.h"
#include "services/orchestrator/clients/forecaster_pool.h"
#include "tests/support/services.h"

namespace kernelcast::forecaster {
namespace {

class ModelForecaster final : public SearchForecaster {
 public:
  explicit ModelForecaster(std::shared_ptr<const Problem> problem) : problem_(std::move(problem)) {}

  absl::Status Start(const ModelEndpoint& endpoint) {
    std::vector<std::string> arguments = {"--state-dir", folder_.File("state"), "--backend", "llm",
                                          "--llm",       endpoint.url};
    if (!endpoint.model.empty()) {
      arguments.insert(arguments.end(), {"--llm-model", endpoint.model});
    }
    if (!endpoint.key_file.empty()) {
      arguments.insert(arguments.end(), {"--llm-key-file", endpoint.key_file});
    }
    service_ = std::make_unique<testing::Service>("kernelcast-forecaster", arguments, folder_);
    KC_RETURN_IF_ERROR(service_->Start());
    orchestrator::ForecasterPoolOptions options;
    options.discovery.addresses = {service_->address()};
    options.forecast_timeout = absl::Minutes(5);
    KC_ASSIGN_OR_RETURN(pool_, orchestrator::ForecasterPool::Create(std::move(options)));
    return absl::OkStatus();
  }

  orchestrator::ForecastResult Forecast(const orchestrator::ForecastQuery& query, size_t) override {
    std::promise<absl::StatusOr<orchestrator::ForecastResult>> answered;
    pool_->Forecast(problem_, query, [&](absl::StatusOr<orchestrator::ForecastResult> result) {
      answered.set_value(std::move(result));
    });
    absl::StatusOr<orchestrator::ForecastResult> result = answered.get_future().get();
    if (result.ok()) return *std::move(result);
    std::fprintf(stderr, "no forecast: %s\n", std::string(result.status().ToString()).c_str());
    return Abstention{Abstention::Cause::kEndpointUnavailable, "llm",
                      std::string(result.status().message())};
  }

  void Learn(size_t, const std::vector<Label>& labels) override {
    std::promise<absl::Status> observed;
    pool_->Observe(problem_, labels, [&](absl::Status status) { observed.set_value(status); });
    const absl::Status status = observed.get_future().get();
    if (!status.ok()) {
      std::fprintf(stderr, "labels lost: %s\n", std::string(status.ToString()).c_str());
    }
  }

 private:
  const testing::TemporaryFolder folder_{"model-forecaster"};
  const std::shared_ptr<const Problem> problem_;
  std::unique_ptr<testing::Service> service_;
  std::unique_ptr<orchestrator::ForecasterPool> pool_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SearchForecaster>> StartModelForecaster(
    const ModelEndpoint& endpoint, std::shared_ptr<const Problem> problem) {
  auto forecaster = std::make_unique<ModelForecaster>(std::move(problem));
  KC_RETURN_IF_ERROR(forecaster->Start(endpoint));
  return forecaster;
}

}  // namespace kernelcast::forecaster
