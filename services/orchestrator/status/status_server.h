#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_SERVER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/pages/page_server.h"

namespace kernelcast::orchestrator {

// Serves the status page and its style, as PageServer. `render` returns the page. It is called at
// most every half second, must be quick, and must be callable until PageServer::Stop returns.
// Errors as PageServer::Start.
[[nodiscard]] absl::StatusOr<std::unique_ptr<PageServer>> ServeStatusPage(
    const std::string& address, std::function<std::string()> render);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_SERVER_H_
