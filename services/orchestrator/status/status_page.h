#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_PAGE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/orchestrator/status/log_disk.h"
#include "services/orchestrator/status/status_board.h"

namespace kernelcast::orchestrator {

// Another process, as seen by the orchestrator.
struct StatusPeer {
  std::string address;
  bool healthy = false;
  bool draining = false;
  bool left_out = false;  // healthy, but not used while there are others
  std::string reason;     // why it is not healthy
  std::string name;
  // One per target: "cuda on NVIDIA H200".
  std::vector<std::string> targets;
};

struct StatusPeers {
  std::vector<StatusPeer> workers;
  std::vector<StatusPeer> forecasters;
};

// Renders the page as HTML without scripts, with no style sheet other than kStatusStylePath, and
// without external resources. Lists are limited to kMaxPeers and to what StatusBoard keeps. Every
// text is truncated and escaped. Without `disk`, the page says nothing about it, except that it
// cannot see the disk of a log in a database. `history_page` is the URL of a page to link to;
// empty: none.
std::string RenderStatusPage(const StatusView& view, const StatusPeers& peers, int64_t now_ns,
                             const std::optional<LogDisk>& disk = std::nullopt,
                             bool log_in_database = false, const std::string& history_page = "");

inline constexpr size_t kMaxPeers = 200;
inline constexpr size_t kMaxTextBytes = 300;
inline constexpr const char kStatusStylePath[] = "/style.css";
std::string StatusStyle();

// The text escaped for HTML, after truncation to kMaxTextBytes.
std::string EscapedForPage(std::string_view text);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_PAGE_H_
