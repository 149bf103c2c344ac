#include "common/metrics/metrics.h"

#include <prometheus/exposer.h>
#include <prometheus/family.h>
#include <prometheus/text_serializer.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <sstream>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/base/version.h"

namespace kernelcast {
namespace {

constexpr std::string_view kPrefix = "kernelcast_";

[[noreturn]] void Die(const std::string& name, const char* why) {
  std::fprintf(stderr, "kernelcast: metric '%s': %s\n", name.c_str(), why);
  std::abort();
}

prometheus::Labels Utf8Labels(const Labels& labels) {
  prometheus::Labels result;
  for (const auto& [name, value] : labels) {
    result[name] = SanitizeUtf8(value);
  }
  return result;
}

}  // namespace

struct MetricsRegistry::Impl {
  // Shared because the exposer requires a weak_ptr.
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();

  std::mutex mutex;  // guards the members below
  std::unique_ptr<prometheus::Exposer> exposer;
  int port = 0;

  template <class Builder, class... Args>
  auto& Make(Builder builder, const std::string& name, const std::string& help,
             const Labels& labels, const Args&... args) {
    if (name.rfind(kPrefix, 0) != 0) {
      Die(name, "does not start with kernelcast_");
    }
    // The library throws for invalid names and for a name used with two kinds.
    try {
      return builder.Name(name).Help(help).Register(*registry).Add(Utf8Labels(labels), args...);
    } catch (const std::exception& error) {
      Die(name, error.what());
    }
  }
};

MetricsRegistry::MetricsRegistry() : impl_(std::make_unique<Impl>()) {
  Gauge("kernelcast_build_info", "Version of the running program; always 1.",
        {{"version", std::string(Version())}, {"revision", std::string(Revision())}})
      .Set(1);
}

MetricsRegistry::~MetricsRegistry() = default;

prometheus::Counter& MetricsRegistry::Counter(const std::string& name, const std::string& help,
                                              const Labels& labels) {
  return impl_->Make(prometheus::BuildCounter(), name, help, labels);
}

prometheus::Gauge& MetricsRegistry::Gauge(const std::string& name, const std::string& help,
                                          const Labels& labels) {
  return impl_->Make(prometheus::BuildGauge(), name, help, labels);
}

prometheus::Histogram& MetricsRegistry::Histogram(const std::string& name, const std::string& help,
                                                  const std::vector<double>& bounds,
                                                  const Labels& labels) {
  return impl_->Make(prometheus::BuildHistogram(), name, help, labels,
                     prometheus::Histogram::BucketBoundaries(bounds));
}

void MetricsRegistry::RemoveGauge(const std::string& name, prometheus::Gauge& gauge) {
  // Registering again returns the existing family.
  prometheus::BuildGauge().Name(name).Register(*impl_->registry).Remove(&gauge);
}

absl::Status MetricsRegistry::Serve(const std::string& address) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->exposer != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("metrics are served already, on port ", impl_->port));
  }
  try {
    // A client that sends or reads slowly occupies a thread for at most two seconds.
    auto exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", "16", "request_timeout_ms", "2000"});
    exposer->RegisterCollectable(impl_->registry);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (ports.empty()) {
      return absl::UnavailableError(absl::StrCat("cannot serve metrics on '", address, "'"));
    }
    impl_->port = ports[0];
    impl_->exposer = std::move(exposer);
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on '", address, "': ", error.what()));
  }
  return absl::OkStatus();
}

int MetricsRegistry::port() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->port;
}

std::string MetricsRegistry::Text() const {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, impl_->registry->Collect());
  return text.str();
}

std::vector<double> MetricsRegistry::DurationBounds() {
  return {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
          0.2,    0.5,    1,      2,     5,     10,    20,   50,   100};
}

MetricsRegistry& ProcessMetrics() {
  static auto& registry = *new MetricsRegistry;
  return registry;
}

}  // namespace kernelcast
