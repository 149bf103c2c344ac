#ifndef KERNELCAST_TESTS_SUPPORT_METRICS_PAGE_H_
#define KERNELCAST_TESTS_SUPPORT_METRICS_PAGE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace kernelcast::testing {

// What a service says to Prometheus.
class MetricsPage {
 public:
  // From HOST:PORT/metrics, the host as a number. UNAVAILABLE: nobody answers.
  [[nodiscard]] static absl::StatusOr<MetricsPage> Fetch(int port,
                                                         const std::string& host = "127.0.0.1");
  explicit MetricsPage(const std::string& text);

  // A series by its name and labels as they are written, `name{a="b"}`; NaN where it is not there.
  double Value(const std::string& series) const;
  // The sum of all series whose text begins so; 0 where there are none.
  double Sum(const std::string& prefix) const;
  const std::map<std::string, double>& series() const { return series_; }

 private:
  std::map<std::string, double> series_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_METRICS_PAGE_H_
