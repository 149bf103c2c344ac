#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_PAGE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "services/orchestrator/status/status_board.h"

namespace kernelcast::orchestrator {

// Another process, as the orchestrator sees it.
struct StatusPeer {
  std::string address;
  bool healthy = false;
  bool draining = false;
  bool left_out = false;  // healthy, and not asked all the same where there are others
  std::string reason;     // why it is not healthy
  std::string name;
  // "cuda on NVIDIA H200", one for each target.
  std::vector<std::string> targets;
};

struct StatusPeers {
  std::vector<StatusPeer> workers;
  std::vector<StatusPeer> forecasters;
};

// The page, in HTML: no scripts, no style but that of kStatusStylePath, nothing from elsewhere. Of
// each list at most kMaxPeers and what StatusBoard keeps; every text is escaped and cut.
std::string RenderStatusPage(const StatusView& view, const StatusPeers& peers, int64_t now_ns);

inline constexpr size_t kMaxPeers = 200;
inline constexpr size_t kMaxTextBytes = 300;
inline constexpr const char kStatusStylePath[] = "/style.css";
std::string_view StatusStyle();

// The text as HTML shows it, of at most kMaxTextBytes before it is escaped.
std::string EscapedForPage(std::string_view text);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_PAGE_H_
