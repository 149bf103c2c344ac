#include "tests/support/span_collector.h"

#include <CivetServer.h>

#include <mutex>
#include <nlohmann/json.hpp>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"

namespace kernelcast::testing {

class SpanCollector::Impl : public CivetHandler {
 public:
  Impl() : server_({"listening_ports", "127.0.0.1:0", "num_threads", "4"}) {
    url_ = absl::StrCat("http://127.0.0.1:", server_.getListeningPorts().at(0));
    server_.addHandler("/v1/traces", this);
  }

  bool handlePost(CivetServer*, mg_connection* connection) override {
    try {
      const auto request = nlohmann::json::parse(CivetServer::getPostData(connection));
      const std::lock_guard lock(mutex_);
      for (const auto& resource : request.at("resourceSpans")) Add(resource);
    } catch (const nlohmann::json::exception& error) {
      mg_send_http_error(connection, 400, "%s", error.what());
      return true;
    }
    mg_send_http_ok(connection, "application/json", 2);
    mg_write(connection, "{}", 2);
    return true;
  }

  const std::string& url() const { return url_; }
  std::vector<CollectedSpan> spans() const {
    const std::lock_guard lock(mutex_);
    return spans_;
  }

 private:
  void Add(const nlohmann::json& resource) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string service;
    for (const auto& attribute : resource.at("resource").at("attributes")) {
      if (attribute.at("key") == "service.name") service = attribute.at("value").at("stringValue");
    }
    for (const auto& scope : resource.at("scopeSpans")) {
      for (const auto& span : scope.at("spans")) {
        spans_.push_back({service, span.at("name"), span.at("traceId"), span.at("spanId"),
                          span.value("parentSpanId", "")});
      }
    }
  }

  std::string url_;
  mutable std::mutex mutex_;
  std::vector<CollectedSpan> spans_ ABSL_GUARDED_BY(mutex_);
  CivetServer server_;  // last: its threads use the other members
};

SpanCollector::SpanCollector() : impl_(std::make_unique<Impl>()) {}
SpanCollector::~SpanCollector() = default;
const std::string& SpanCollector::url() const { return impl_->url(); }
std::vector<CollectedSpan> SpanCollector::spans() const { return impl_->spans(); }

}  // namespace kernelcast::testing
