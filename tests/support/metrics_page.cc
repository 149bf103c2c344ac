#include "tests/support/metrics_page.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace kernelcast::testing {

absl::StatusOr<MetricsPage> MetricsPage::Fetch(int port, const std::string& host) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  constexpr char kRequest[] = "GET /metrics HTTP/1.0\r\n\r\n";
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      send(fd, kRequest, sizeof kRequest - 1, MSG_NOSIGNAL) == sizeof kRequest - 1) {
    std::array<char, 16384> buffer;
    for (ssize_t got; (got = read(fd, buffer.data(), buffer.size())) > 0;) {
      answer.append(buffer.data(), static_cast<size_t>(got));
    }
  }
  close(fd);
  const size_t body = answer.find("\r\n\r\n");
  if (answer.find(" 200 OK") == std::string::npos || body == std::string::npos) {
    return absl::UnavailableError(absl::StrCat("no metrics on port ", port));
  }
  return MetricsPage(answer.substr(body + 4));
}

MetricsPage::MetricsPage(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t value = line.rfind(' ');
    if (line.empty() || line.front() == '#' || value == std::string::npos) continue;
    series_[line.substr(0, value)] = std::strtod(line.c_str() + value + 1, nullptr);
  }
}

double MetricsPage::Value(const std::string& series) const {
  const auto found = series_.find(series);
  return found == series_.end() ? std::nan("") : found->second;
}

double MetricsPage::Sum(const std::string& prefix) const {
  double sum = 0;
  for (auto at = series_.lower_bound(prefix);
       at != series_.end() && at->first.compare(0, prefix.size(), prefix) == 0; ++at) {
    sum += at->second;
  }
  return sum;
}

}  // namespace kernelcast::testing
