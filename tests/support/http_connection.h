#ifndef KERNELCAST_TESTS_SUPPORT_HTTP_CONNECTION_H_
#define KERNELCAST_TESTS_SUPPORT_HTTP_CONNECTION_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"

namespace kernelcast::testing {

// A connection to HOST:PORT on this machine. Used on any thread, where Catch's assertions are not
// allowed, so failures throw.
class HttpConnection {
 public:
  explicit HttpConnection(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    int port = 0;
    Must(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit = {.tv_sec = 30, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    Must(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  }
  ~HttpConnection() { close(fd_); }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  void Send(const std::string& text) {
    Must(send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }
  std::string ReadAll() {
    std::string answer;
    char buffer[4096];
    for (ssize_t got; (got = read(fd_, buffer, sizeof buffer)) > 0;) {
      answer.append(buffer, static_cast<size_t>(got));
    }
    return answer;
  }

 private:
  static void Must(bool succeeded) {
    if (!succeeded) throw std::system_error(errno, std::generic_category(), "HttpConnection");
  }

  const int fd_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_HTTP_CONNECTION_H_
