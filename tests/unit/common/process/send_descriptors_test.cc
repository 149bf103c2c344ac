#include "common/process/send_descriptors.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <string>

#include "common/base/descriptor.h"

namespace kernelcast {
namespace {

struct Sockets {
  explicit Sockets(int type) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
    a.reset(ends[0]);
    b.reset(ends[1]);
  }
  Descriptor a;
  Descriptor b;
};

iovec PartOf(std::string& text) { return {text.data(), text.size()}; }

TEST_CASE("The parts of a message arrive as one, with copies of the descriptors", "[process]") {
  const Sockets sockets(SOCK_SEQPACKET);
  const Sockets passed(SOCK_STREAM);
  std::string head = "head";
  std::string tail = "tail";
  const iovec parts[] = {PartOf(head), PartOf(tail)};
  const int descriptors[] = {passed.a.get(), passed.b.get()};
  REQUIRE(SendDescriptors(sockets.a.get(), parts, descriptors));

  std::array<char, 64> text{};
  iovec data{text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(descriptors))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  REQUIRE(recvmsg(sockets.b.get(), &message, MSG_CMSG_CLOEXEC) == 8);
  CHECK(std::string(text.data(), 8) == "headtail");
  REQUIRE(CMSG_FIRSTHDR(&message) != nullptr);
  REQUIRE(CMSG_FIRSTHDR(&message)->cmsg_len == CMSG_LEN(sizeof(descriptors)));
  int received[2];
  std::memcpy(received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(received));
  const Descriptor first(received[0]);
  const Descriptor second(received[1]);
  REQUIRE(write(first.get(), "x", 1) == 1);
  char byte = 0;
  REQUIRE(read(second.get(), &byte, 1) == 1);
  CHECK(byte == 'x');
}

TEST_CASE("A message may have no descriptors, and a closed end is no signal", "[process]") {
  Sockets sockets(SOCK_SEQPACKET);
  std::string text = "text";
  const iovec part = PartOf(text);
  CHECK(SendDescriptors(sockets.a.get(), {&part, 1}, {}));
  char received = 0;
  REQUIRE(read(sockets.b.get(), &received, 1) == 1);
  sockets.b.reset();
  CHECK_FALSE(SendDescriptors(sockets.a.get(), {&part, 1}, {}));
  CHECK(errno == EPIPE);
}

}  // namespace
}  // namespace kernelcast
