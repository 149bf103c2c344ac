#ifndef KERNELCAST_TESTS_SUPPORT_METRICS_PAGE_H_
#define KERNELCAST_TESTS_SUPPORT_METRICS_PAGE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace kernelcast::testing {

// The Prometheus page of a service.
class MetricsPage {
 public:
  // Reads HOST:PORT/metrics; the host is an IP address. UNAVAILABLE: nothing answers.
  [[nodiscard]] static absl::StatusOr<MetricsPage> Fetch(int port,
                                                         const std::string& host = "127.0.0.1");
  explicit MetricsPage(const std::string& text);

  // Value of a series written as `name{a="b"}`; NaN if it is missing.
  double Value(const std::string& series) const;
  // Sum of all series that start with `prefix`; 0 if there are none.
  double Sum(const std::string& prefix) const;
  const std::map<std::string, double>& series() const { return series_; }

 private:
  std::map<std::string, double> series_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_METRICS_PAGE_H_
