#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_DEVICES_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_DEVICES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/domain/measurement.h"
#include "kernelcast/v1/worker.pb.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

// The devices on which a worker measures the target. Releases without support for several devices
// describe one.
std::vector<v1::TargetDevice> MeasuringDevices(const v1::TargetDescription& described);

// The number of those devices of a model, or of any model if `model` is empty. Cheap.
uint32_t CountDevices(const v1::TargetDescription& described, const std::string& model);

// The orchestrator's name for a device model: the worker's name for it, or the target if the worker
// reports none.
std::string DeviceModelOf(const std::string& target, const v1::DeviceInfo& device);

// Device models that workers measure on, or have measured on since the process started. Not
// thread-safe.
class DeviceRegistry {
 public:
  // Number of measurements that the available workers can run at once on a device model.
  using Slots = std::function<uint32_t(const std::string& target, const std::string& model)>;

  // `preferred_gpu`: the model chosen for requests for the target cuda without a device model, as
  // workers name it or metrics label it. Empty: no preference.
  explicit DeviceRegistry(std::string preferred_gpu) : preferred_gpu_(std::move(preferred_gpu)) {}

  // An available worker describes a target.
  void Add(const v1::TargetDescription& described);
  // Same as Workers::DeviceModelFor. If any model is wanted, keeps the model chosen before while
  // workers have it, otherwise chooses the one with the most slots.
  std::string Choose(const std::string& target, const std::string& wanted, const Slots& slots);
  std::vector<Workers::Device> List(const Slots& slots) const;
  // The latest description of the device. Only its model if it was never seen.
  DeviceInfo Info(const std::string& target, const std::string& model) const;
  // The architecture that candidates for the model are compiled for. Empty: unknown.
  std::string Architecture(const std::string& target, const std::string& model) const;

 private:
  struct Known {
    DeviceInfo info;
    std::string architecture;
  };

  const std::string preferred_gpu_;
  std::map<std::pair<std::string, std::string>, Known> known_;  // by target and model
  std::map<std::string, std::string> chosen_;                   // by target
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_DEVICES_H_
