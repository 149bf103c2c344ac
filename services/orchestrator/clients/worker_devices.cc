#include "services/orchestrator/clients/worker_devices.h"

#include <algorithm>

#include "common/convert/convert.h"
#include "common/domain/problem.h"
#include "common/metrics/gpu_model_label.h"

namespace kernelcast::orchestrator {

std::vector<v1::TargetDevice> MeasuringDevices(const v1::TargetDescription& described) {
  std::vector<v1::TargetDevice> devices;
  if (!described.can_measure()) return devices;
  for (const v1::TargetDevice& device : described.devices()) {
    if (device.can_measure()) devices.push_back(device);
  }
  if (described.devices().empty()) {
    v1::TargetDevice& only = devices.emplace_back();
    *only.mutable_device() = described.device();
    only.set_architecture(described.architecture());
    only.set_can_measure(true);
  }
  return devices;
}

uint32_t CountDevices(const v1::TargetDescription& described, const std::string& model) {
  if (!described.can_measure()) return 0;
  const auto matches = [&](const v1::DeviceInfo& device) {
    return model.empty() || model == (device.model().empty() ? described.target() : device.model());
  };
  if (described.devices().empty()) return matches(described.device()) ? 1 : 0;
  return static_cast<uint32_t>(
      std::ranges::count_if(described.devices(), [&](const v1::TargetDevice& device) {
        return device.can_measure() && matches(device.device());
      }));
}

std::string DeviceModelOf(const std::string& target, const v1::DeviceInfo& device) {
  return device.model().empty() ? target : device.model();
}

void DeviceRegistry::Add(const v1::TargetDescription& described) {
  for (const v1::TargetDevice& device : MeasuringDevices(described)) {
    const std::string model = DeviceModelOf(described.target(), device.device());
    Known& known = known_[{described.target(), model}];
    known.info = FromProto(device.device());
    known.architecture =
        device.architecture().empty() ? described.architecture() : device.architecture();
  }
}

std::string DeviceRegistry::Choose(const std::string& target, const std::string& wanted,
                                   const Slots& slots) {
  if (wanted.empty()) {
    const auto chosen = chosen_.find(target);
    if (chosen != chosen_.end() && slots(target, chosen->second) > 0) return chosen->second;
    if (target == kCudaTargetName && !preferred_gpu_.empty()) {
      std::string preferred = Choose(target, preferred_gpu_, slots);
      if (!preferred.empty()) return preferred;
    }
  }
  const std::string* best = nullptr;
  uint32_t best_slots = 0;
  for (const auto& [key, known] : known_) {
    const auto& [of_target, model] = key;
    if (of_target != target) continue;
    if (model == wanted) return model;
    if (!wanted.empty() && GpuModelLabel(target, model) != wanted) continue;
    const uint32_t free = slots(target, model);
    if (best == nullptr || free > best_slots) {
      best = &model;
      best_slots = free;
    }
  }
  if (best == nullptr) return "";
  if (!wanted.empty()) return *best;
  std::string& chosen = chosen_[target];
  // Its workers may come back, but a model with workers is preferred.
  if (chosen.empty() || best_slots > 0) chosen = *best;
  return chosen;
}

std::vector<Workers::Device> DeviceRegistry::List(const Slots& slots) const {
  std::vector<Workers::Device> devices;
  for (const auto& [key, known] : known_) {
    devices.push_back({key.first, key.second, slots(key.first, key.second)});
  }
  return devices;
}

DeviceInfo DeviceRegistry::Info(const std::string& target, const std::string& model) const {
  const auto known = known_.find({target, model});
  if (known != known_.end()) return known->second.info;
  DeviceInfo info;
  info.model = model;
  return info;
}

std::string DeviceRegistry::Architecture(const std::string& target,
                                         const std::string& model) const {
  const auto known = known_.find({target, model});
  return known == known_.end() ? "" : known->second.architecture;
}

}  // namespace kernelcast::orchestrator
