#include "services/orchestrator/status/status_server.h"

#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "services/orchestrator/status/status_page.h"

namespace kernelcast::orchestrator {
namespace {

constexpr int64_t kFreshForNs = 500'000'000;

// Allows only the page's own style sheet, and no framing.
constexpr const char kContentPolicy[] =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
    "'none'";

// The last page. Thread-safe.
class RenderedPage {
 public:
  explicit RenderedPage(std::function<std::string()> render) : render_(std::move(render)) {}

  std::string Get() {
    const std::lock_guard lock(mutex_);
    const int64_t now_ns = Clock::Real().MonotonicNs();
    if (page_.empty() || now_ns - rendered_ns_ > kFreshForNs) {
      page_ = render_();
      rendered_ns_ = now_ns;
    }
    return page_;
  }

 private:
  const std::function<std::string()> render_;
  std::mutex mutex_;
  std::string page_ ABSL_GUARDED_BY(mutex_);
  int64_t rendered_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PageServer>> ServeStatusPage(const std::string& address,
                                                            std::function<std::string()> render) {
  // Shared because the handler is copied.
  const auto page = std::make_shared<RenderedPage>(std::move(render));
  return PageServer::Start(
      {.address = address, .what = "status page", .content_policy = kContentPolicy},
      [page](const PageRequest& request) -> PageReply {
        if (request.path == "/") return {.body = page->Get()};
        if (request.path == kStatusStylePath) {
          return {.type = "text/css; charset=utf-8", .body = StatusStyle()};
        }
        return {404, "text/plain; charset=utf-8", "There is one page, /.\n"};
      });
}

}  // namespace kernelcast::orchestrator
