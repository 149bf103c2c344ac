#include "common/llm/curl_transport.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/strings.h"
#include "common/base/trace_context.h"
#include "common/base/version.h"
#include "common/llm/json_text.h"

namespace kernelcast::llm {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;
// uvicorn and others close connections after 5 s of idling. A request sent at that moment is lost.
constexpr long kMaxIdleSeconds = 4;
// Maximum time and bytes to read after the end of an answer before closing the connection.
constexpr int64_t kDrainNs = 250 * kMillisecondNs;
constexpr int64_t kDrainBytes = 64 << 10;
constexpr size_t kPooledHandles = 1024;
constexpr long kStreamsPerConnection = 256;
constexpr size_t kMaxErrorBytes = 300;

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using EasyHandle = std::unique_ptr<CURL, CurlDeleter>;

struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, ListDeleter>;

void Append(List& list, const std::string& line) {
  curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) return;
  (void)list.release();
  list.reset(longer);
}

List MakeHeaders(const EndpointConfig& endpoint) {
  List list;
  Append(list, "Content-Type: application/json");
  Append(list, "Accept: text/event-stream, application/json");
  // Send the body with the headers; waiting for "100 Continue" costs a round trip.
  Append(list, "Expect:");
  if (!endpoint.api_key.empty()) {
    Append(list, absl::StrCat("Authorization: Bearer ", endpoint.api_key));
  }
  for (const auto& [name, value] : endpoint.headers) {
    // libcurl treats "Name:" as a request to remove the header.
    Append(list, value.empty() ? absl::StrCat(name, ";") : absl::StrCat(name, ": ", value));
  }
  return list;
}

// Local port of a TCP socket, or 0.
int LocalPort(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  }
  return 0;
}

TransferEnd EndOf(CURLcode code, CURL* handle) {
  switch (code) {
    case CURLE_OK: return TransferEnd::kFinished;
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_PROXY:
    case CURLE_URL_MALFORMAT:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT: return TransferEnd::kUnreachable;
    // Only the connect timeout is set.
    case CURLE_OPERATION_TIMEDOUT: return TransferEnd::kConnectTimeout;
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY: return TransferEnd::kNotHttp;
    default: break;
  }
  // Any other failure before the connection was established, such as a refusing proxy.
  curl_off_t connected_us = 0;
  if (curl_easy_getinfo(handle, CURLINFO_PRETRANSFER_TIME_T, &connected_us) == CURLE_OK &&
      connected_us == 0) {
    return TransferEnd::kUnreachable;
  }
  return TransferEnd::kBroken;
}

}  // namespace

absl::Status InitializeCurl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code == CURLE_OK) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("libcurl: ", curl_easy_strerror(code)));
}

void ConfigureCurlHandle(void* curl_easy, const EndpointConfig& endpoint,
                         int64_t connect_timeout_ns) {
  CURL* const handle = curl_easy;
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  // A hanging name server must not block the thread when the exchange is cancelled.
  curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  curl_easy_setopt(handle, CURLOPT_MAXAGE_CONN, kMaxIdleSeconds);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(std::max<int64_t>(connect_timeout_ns / kMillisecondNs, 1)));
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  // Compression would delay a stream, so none is asked for. With this option libcurl also decodes
  // the answers of servers and proxies that compress anyway.
  curl_easy_setopt(handle, CURLOPT_ACCEPT_ENCODING, "identity");
  curl_easy_setopt(handle, CURLOPT_USERAGENT,
                   absl::StrCat("kernelcast/", std::string(Version())).c_str());
  if (!endpoint.ca_file.empty()) {
    curl_easy_setopt(handle, CURLOPT_CAINFO, endpoint.ca_file.c_str());
  }
  const absl::StatusOr<EndpointUrl> url = ParseEndpointUrl(endpoint.url);
  // Wait until a pending connection shows whether streams can share it. Without TLS they cannot,
  // and libcurl would learn that only from the first response.
  curl_easy_setopt(handle, CURLOPT_PIPEWAIT, url.ok() && url->tls ? 1L : 0L);
  if (endpoint.proxy == "none" || (url.ok() && url->loopback)) {
    curl_easy_setopt(handle, CURLOPT_PROXY, "");
  } else if (endpoint.proxy != "environment") {
    curl_easy_setopt(handle, CURLOPT_PROXY, endpoint.proxy.c_str());
  }
}

struct CurlTransport::Impl {
  struct Transfer {
    Impl* impl = nullptr;
    TransferId id = 0;
    int endpoint = 0;
    EasyHandle handle;
    std::string body;
    List traced_headers;           // headers of the endpoint and the trace; null without a trace
    TransferSink* sink = nullptr;  // null while draining
    bool stopped = false;          // the sink returned false
    int64_t drained_bytes = 0;
    std::array<char, CURL_ERROR_SIZE> error{};
  };
  struct EndpointState {
    std::string url;
    bool tls = false;
    List headers;
    std::vector<EasyHandle> idle;
  };
  // State of a socket in epoll.
  struct Watched {
    bool registered = false;
    bool wanted = false;  // by libcurl
    uint32_t events = 0;
  };
  struct Draining {
    int64_t until_ns;
    TransferId id;
  };

  Impl(const LlmConfig& c, const Clock& k) : config(c), clock(k) {}
  ~Impl();

  absl::Status Start();
  TransferId StartTransfer(int endpoint, std::string body, TransferSink* sink);
  EasyHandle TakeHandle(int endpoint);
  // Removes the transfer from libcurl and keeps its handle for the next one.
  void Remove(std::unordered_map<TransferId, std::unique_ptr<Transfer>>::iterator transfer);
  void Watch(int fd, int what);
  void Unwatch(int fd);
  Watched& WatchedAt(int fd) {
    const auto at = static_cast<size_t>(fd);
    if (at >= watched_fds.size()) watched_fds.resize(at + 1);
    return watched_fds[at];
  }
  void ReadMessages();
  void ReportUnstarted();
  // Notifies servers of cancelled streams, which libcurl may delay.
  void FlushCancelled();
  void EndDraining();

  static int OnSocket(CURL*, curl_socket_t fd, int what, void* self, void*);
  static int OnTimer(CURLM*, long timeout_ms, void* self);
  static size_t OnHeader(char* data, size_t size, size_t count, void* transfer);
  static size_t OnBody(char* data, size_t size, size_t count, void* transfer);
  static curl_socket_t OnOpen(void* self, curlsocktype, curl_sockaddr* address);
  static int OnClose(void* self, curl_socket_t fd);

  const LlmConfig& config;
  const Clock& clock;
  CURLM* multi = nullptr;
  int epoll_fd = -1;
  int wake_fd = -1;
  std::atomic<bool> woken{false};
  int64_t timer_ns = std::numeric_limits<int64_t>::max();
  TransferId next_id = 1;
  std::vector<EndpointState> endpoints;
  std::unordered_map<TransferId, std::unique_ptr<Transfer>> transfers;
  std::deque<Draining> draining;
  std::vector<TransferId> unstarted;
  std::unordered_set<int> sockets;
  std::vector<Watched> watched_fds;  // by descriptor
  // Local ports of TLS connections on which a stream was cancelled since the last Poll.
  std::unordered_set<int> cancelled_ports;
};

CurlTransport::Impl::~Impl() {
  while (!transfers.empty()) Remove(transfers.begin());
  endpoints.clear();
  if (multi != nullptr) curl_multi_cleanup(multi);
  if (wake_fd >= 0) close(wake_fd);
  if (epoll_fd >= 0) close(epoll_fd);
}

absl::Status CurlTransport::Impl::Start() {
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_fd < 0 || wake_fd < 0) return absl::UnavailableError("no descriptors available");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_fd;
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) != 0) {
    return absl::UnavailableError("epoll cannot be used");
  }
  multi = curl_multi_init();
  if (multi == nullptr) return absl::UnavailableError("libcurl: out of memory");
  long connections = 0;
  for (const EndpointConfig& endpoint : config.endpoints) {
    endpoints.push_back({endpoint.url + "/chat/completions",
                         endpoint.url.starts_with("https://"),
                         MakeHeaders(endpoint),
                         {}});
    connections += endpoint.max_concurrency;
  }
  curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, &OnSocket);
  curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, &OnTimer);
  curl_multi_setopt(multi, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
  curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, connections);
  return absl::OkStatus();
}

EasyHandle CurlTransport::Impl::TakeHandle(int index) {
  EndpointState& endpoint = endpoints[index];
  if (!endpoint.idle.empty()) {
    EasyHandle handle = std::move(endpoint.idle.back());
    endpoint.idle.pop_back();
    return handle;
  }
  EasyHandle handle(curl_easy_init());
  if (handle == nullptr) return handle;
  ConfigureCurlHandle(handle.get(), config.endpoints[index], config.connect_timeout_ns);
  curl_easy_setopt(handle.get(), CURLOPT_URL, endpoint.url.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, endpoint.headers.get());
  curl_easy_setopt(handle.get(), CURLOPT_POST, 1L);
  curl_easy_setopt(handle.get(), CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(handle.get(), CURLOPT_OPENSOCKETFUNCTION, &OnOpen);
  curl_easy_setopt(handle.get(), CURLOPT_OPENSOCKETDATA, this);
  curl_easy_setopt(handle.get(), CURLOPT_CLOSESOCKETFUNCTION, &OnClose);
  curl_easy_setopt(handle.get(), CURLOPT_CLOSESOCKETDATA, this);
  return handle;
}

TransferId CurlTransport::Impl::StartTransfer(int endpoint, std::string body, TransferSink* sink) {
  auto transfer = std::make_unique<Transfer>();
  transfer->impl = this;
  transfer->id = next_id++;
  transfer->endpoint = endpoint;
  transfer->body = std::move(body);
  transfer->sink = sink;
  transfer->handle = TakeHandle(endpoint);
  const TransferId id = transfer->id;
  CURL* const handle = transfer->handle.get();
  bool started = false;
  if (handle != nullptr) {
    const TraceContext* const trace = CurrentTrace();
    if (trace != nullptr && config.endpoints[endpoint].trace_headers) {
      transfer->traced_headers = MakeHeaders(config.endpoints[endpoint]);
      Append(transfer->traced_headers, "traceparent: " + FormatTraceparent(*trace));
      if (!trace->state.empty()) Append(transfer->traced_headers, "tracestate: " + trace->state);
      curl_easy_setopt(handle, CURLOPT_HTTPHEADER, transfer->traced_headers.get());
    }
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, transfer->body.data());
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(transfer->body.size()));
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, transfer.get());
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, transfer.get());
    curl_easy_setopt(handle, CURLOPT_PRIVATE, transfer.get());
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, transfer->error.data());
    started = curl_multi_add_handle(multi, handle) == CURLM_OK;
  }
  if (!started) {
    transfer->handle.reset();
    unstarted.push_back(id);
  }
  transfers.emplace(id, std::move(transfer));
  return id;
}

void CurlTransport::Impl::Remove(
    std::unordered_map<TransferId, std::unique_ptr<Transfer>>::iterator found) {
  const std::unique_ptr<Transfer> transfer = std::move(found->second);
  transfers.erase(found);
  if (transfer->handle == nullptr) return;
  // libcurl itself retries requests on a connection that was closed in the meantime. But it counts
  // these retries on the handle forever and gives up at five.
  long new_connections = 1;
  curl_easy_getinfo(transfer->handle.get(), CURLINFO_NUM_CONNECTS, &new_connections);
  curl_multi_remove_handle(multi, transfer->handle.get());
  curl_easy_setopt(transfer->handle.get(), CURLOPT_ERRORBUFFER, nullptr);
  curl_easy_setopt(transfer->handle.get(), CURLOPT_POSTFIELDS, nullptr);
  if (transfer->traced_headers != nullptr) {
    curl_easy_setopt(transfer->handle.get(), CURLOPT_HTTPHEADER,
                     endpoints[transfer->endpoint].headers.get());
  }
  std::vector<EasyHandle>& idle = endpoints[transfer->endpoint].idle;
  if (idle.size() < kPooledHandles && new_connections == 0)
    idle.push_back(std::move(transfer->handle));
}

int CurlTransport::Impl::OnSocket(CURL*, curl_socket_t fd, int what, void* self, void*) {
  static_cast<Impl*>(self)->Watch(fd, what);
  return 0;
}

void CurlTransport::Impl::Watch(int fd, int what) {
  Watched& watched = WatchedAt(fd);
  watched.wanted = what != CURL_POLL_REMOVE;
  // A socket between two requests stays registered, because the next request mostly needs it with
  // the same events. If something happens to it in the meantime, Unwatch follows.
  if (!watched.wanted) return;
  epoll_event event{};
  event.data.fd = fd;
  if ((what & CURL_POLL_IN) != 0) event.events |= EPOLLIN;
  if ((what & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
  if (watched.registered && watched.events == event.events) return;
  epoll_ctl(epoll_fd, watched.registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
  watched.registered = true;
  watched.events = event.events;
}

void CurlTransport::Impl::Unwatch(int fd) {
  Watched& watched = WatchedAt(fd);
  if (watched.registered) {
    epoll_event event{};
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, &event);
  }
  watched = Watched{};
}

int CurlTransport::Impl::OnTimer(CURLM*, long timeout_ms, void* self) {
  auto* const impl = static_cast<Impl*>(self);
  impl->timer_ns = timeout_ms < 0 ? std::numeric_limits<int64_t>::max()
                                  : impl->clock.MonotonicNs() + timeout_ms * kMillisecondNs;
  return 0;
}

size_t CurlTransport::Impl::OnHeader(char* data, size_t size, size_t count, void* user) {
  auto* const transfer = static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  if (transfer->sink == nullptr) return bytes;
  const std::string_view line(data, bytes);
  if (line.starts_with("HTTP/")) {
    long status = 0;
    curl_easy_getinfo(transfer->handle.get(), CURLINFO_RESPONSE_CODE, &status);
    transfer->sink->OnStatus(static_cast<int>(status));
    return bytes;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bytes;
  transfer->sink->OnHeader(line.substr(0, colon), Trim(line.substr(colon + 1)));
  return bytes;
}

size_t CurlTransport::Impl::OnBody(char* data, size_t size, size_t count, void* user) {
  auto* const transfer = static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  if (transfer->sink == nullptr) {
    transfer->drained_bytes += static_cast<int64_t>(bytes);
    return transfer->drained_bytes > kDrainBytes ? CURL_WRITEFUNC_ERROR : bytes;
  }
  if (transfer->stopped) return CURL_WRITEFUNC_ERROR;
  if (transfer->sink->OnBody(std::string_view(data, bytes))) return bytes;
  // The owner chooses between Cancel and Drain after libcurl has returned. Returning `bytes` keeps
  // the connection open until then.
  transfer->stopped = true;
  return bytes;
}

void CurlTransport::Impl::ReadMessages() {
  int left = 0;
  while (CURLMsg* const message = curl_multi_info_read(multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* const handle = message->easy_handle;
    const CURLcode code = message->data.result;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(handle, CURLINFO_PRIVATE, &transfer);
    const auto found = transfers.find(transfer->id);
    TransferSink* const sink = transfer->sink;
    if (sink == nullptr) {
      Remove(found);
      continue;
    }
    const TransferEnd end = EndOf(code, handle);
    const std::string text = code == CURLE_OK
                                 ? ""
                                 : OneLine(transfer->error[0] != '\0' ? transfer->error.data()
                                                                      : curl_easy_strerror(code),
                                           kMaxErrorBytes);
    Remove(found);
    sink->OnEnd(end, text);
  }
}

void CurlTransport::Impl::ReportUnstarted() {
  std::vector<TransferId> ids;
  ids.swap(unstarted);
  for (const TransferId id : ids) {
    const auto found = transfers.find(id);
    if (found == transfers.end()) continue;
    TransferSink* const sink = found->second->sink;
    Remove(found);
    if (sink != nullptr) sink->OnEnd(TransferEnd::kUnreachable, "libcurl: out of memory");
  }
}

void CurlTransport::Impl::EndDraining() {
  while (!draining.empty()) {
    const auto found = transfers.find(draining.front().id);
    if (found != transfers.end()) {
      if (draining.front().until_ns > clock.MonotonicNs()) return;
      Remove(found);
    }
    draining.pop_front();
  }
}

curl_socket_t CurlTransport::Impl::OnOpen(void* self, curlsocktype, curl_sockaddr* address) {
  const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  if (fd < 0) return CURL_SOCKET_BAD;
  static_cast<Impl*>(self)->sockets.insert(fd);
  return fd;
}

int CurlTransport::Impl::OnClose(void* self, curl_socket_t fd) {
  static_cast<Impl*>(self)->sockets.erase(fd);
  static_cast<Impl*>(self)->Unwatch(fd);
  return close(fd);
}

// libcurl 7.88 to 8.14 queues the RST_STREAM of a removed transfer and sends it only with the next
// data on that connection, if any (curl issue 17611).
void CurlTransport::Impl::FlushCancelled() {
  std::unordered_set<int> ports;
  ports.swap(cancelled_ports);
  // If other streams are alive, changing the window of one of them flushes the queue.
  for (const auto& [id, transfer] : transfers) {
    if (ports.empty()) return;
    if (transfer->handle == nullptr || !endpoints[transfer->endpoint].tls) continue;
    long port = 0;
    curl_easy_getinfo(transfer->handle.get(), CURLINFO_LOCAL_PORT, &port);
    if (port == 0 || ports.erase(static_cast<int>(port)) == 0) continue;
    curl_easy_pause(transfer->handle.get(), CURLPAUSE_RECV);
    curl_easy_pause(transfer->handle.get(), CURLPAUSE_CONT);
  }
  // Otherwise the connection is closed.
  for (const int fd : sockets) {
    if (ports.empty()) return;
    const int port = LocalPort(fd);
    if (port != 0 && ports.erase(port) > 0) shutdown(fd, SHUT_RDWR);
  }
}

CurlTransport::CurlTransport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CurlTransport::~CurlTransport() = default;

absl::StatusOr<std::unique_ptr<CurlTransport>> CurlTransport::Create(const LlmConfig& config,
                                                                     const Clock& clock) {
  absl::Status status = InitializeCurl();
  if (!status.ok()) return status;
  auto impl = std::make_unique<Impl>(config, clock);
  status = impl->Start();
  if (!status.ok()) return status;
  return std::unique_ptr<CurlTransport>(new CurlTransport(std::move(impl)));
}

TransferId CurlTransport::Start(int endpoint, std::string body, TransferSink* sink) {
  return impl_->StartTransfer(endpoint, std::move(body), sink);
}

void CurlTransport::Cancel(TransferId transfer) {
  const auto found = impl_->transfers.find(transfer);
  if (found == impl_->transfers.end()) return;
  const Impl::Transfer& cancelled = *found->second;
  if (cancelled.handle != nullptr && impl_->endpoints[cancelled.endpoint].tls) {
    long port = 0;
    curl_easy_getinfo(cancelled.handle.get(), CURLINFO_LOCAL_PORT, &port);
    if (port != 0) impl_->cancelled_ports.insert(static_cast<int>(port));
  }
  impl_->Remove(found);
}

void CurlTransport::Drain(TransferId transfer) {
  const auto found = impl_->transfers.find(transfer);
  if (found == impl_->transfers.end()) return;
  found->second->sink = nullptr;
  impl_->draining.push_back({impl_->clock.MonotonicNs() + kDrainNs, transfer});
}

void CurlTransport::Poll(int64_t wake_ns) {
  Impl& impl = *impl_;
  if (!impl.cancelled_ports.empty()) impl.FlushCancelled();
  if (!impl.unstarted.empty()) wake_ns = 0;
  if (!impl.draining.empty()) wake_ns = std::min(wake_ns, impl.draining.front().until_ns);
  wake_ns = std::min(wake_ns, impl.timer_ns);
  const int64_t now_ns = impl.clock.MonotonicNs();
  int timeout_ms = -1;
  if (wake_ns <= now_ns) {
    timeout_ms = 0;
  } else if (wake_ns != std::numeric_limits<int64_t>::max()) {
    // Rounded up, so that the loop does not spin through the last fraction of a millisecond.
    const int64_t wait_ms = (wake_ns - now_ns + kMillisecondNs - 1) / kMillisecondNs;
    timeout_ms = static_cast<int>(std::min<int64_t>(wait_ms, 60'000));
  }

  std::array<epoll_event, 256> events;
  const int ready =
      epoll_wait(impl.epoll_fd, events.data(), static_cast<int>(events.size()), timeout_ms);
  int running = 0;
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.fd == impl.wake_fd) {
      uint64_t count = 0;
      (void)!read(impl.wake_fd, &count, sizeof count);
      // Cleared before the caller looks for the reason of the wake-up.
      impl.woken.store(false);
      continue;
    }
    if (!impl.WatchedAt(event.data.fd).wanted) {
      impl.Unwatch(event.data.fd);
      continue;
    }
    int mask = 0;
    if ((event.events & EPOLLIN) != 0) mask |= CURL_CSELECT_IN;
    if ((event.events & EPOLLOUT) != 0) mask |= CURL_CSELECT_OUT;
    if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) mask |= CURL_CSELECT_ERR;
    curl_multi_socket_action(impl.multi, event.data.fd, mask, &running);
  }
  if (impl.timer_ns <= impl.clock.MonotonicNs()) {
    impl.timer_ns = std::numeric_limits<int64_t>::max();
    curl_multi_socket_action(impl.multi, CURL_SOCKET_TIMEOUT, 0, &running);
  }
  impl.ReadMessages();
  impl.ReportUnstarted();
  impl.EndDraining();
}

void CurlTransport::Wake() {
  if (impl_->woken.exchange(true)) return;
  const uint64_t one = 1;
  (void)!write(impl_->wake_fd, &one, sizeof one);
}

}  // namespace kernelcast::llm
