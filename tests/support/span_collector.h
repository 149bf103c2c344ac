#ifndef KERNELCAST_TESTS_SUPPORT_SPAN_COLLECTOR_H_
#define KERNELCAST_TESTS_SUPPORT_SPAN_COLLECTOR_H_

#include <memory>
#include <string>
#include <vector>

namespace kernelcast::testing {

struct CollectedSpan {
  std::string service;
  std::string name;
  // Hexadecimal.
  std::string trace_id;
  std::string span_id;
  std::string parent_span_id;
};

// Accepts the spans of services over OTLP/HTTP, on 127.0.0.1. Thread-safe.
class SpanCollector {
 public:
  // Throws if it cannot listen.
  SpanCollector();
  // Takes up to two seconds.
  ~SpanCollector();

  // For --otlp-endpoint.
  const std::string& url() const;
  // The spans received so far. A service exports its last ones when it ends.
  std::vector<CollectedSpan> spans() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_SPAN_COLLECTOR_H_
