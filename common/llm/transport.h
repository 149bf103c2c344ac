#ifndef KERNELCAST_COMMON_LLM_TRANSPORT_H_
#define KERNELCAST_COMMON_LLM_TRANSPORT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace kernelcast::llm {

// How an exchange ended at the network level.
enum class TransferEnd {
  kFinished,        // the response ended properly
  kUnreachable,     // no connection
  kConnectTimeout,  // no connection before the timeout
  kBroken,          // the connection was lost
  kNotHttp,         // the response is not HTTP, or its compression cannot be decoded
};

// Receives the events of one exchange. The methods are called from within the transport and must
// not call it.
class TransferSink {
 public:
  virtual ~TransferSink() = default;
  virtual void OnStatus(int http_status) = 0;
  virtual void OnHeader(std::string_view name, std::string_view value) = 0;
  // Returns false to stop: no further calls follow, and the owner must cancel the exchange.
  virtual bool OnBody(std::string_view bytes) = 0;
  // The last call. `message` is one line for people.
  virtual void OnEnd(TransferEnd end, std::string_view message) = 0;
};

// Id of an exchange. Never reused.
using TransferId = uint64_t;

// Sends requests to the endpoints of a configuration. Used from one thread. Calls sinks only from
// the method of the implementation that waits for the network.
class Transport {
 public:
  virtual ~Transport() = default;
  // POSTs `body` to /chat/completions of an endpoint, with the calling thread's trace as headers if
  // there is one and the endpoint's configuration allows it. `sink` must live until OnEnd, Cancel
  // or Drain.
  virtual TransferId Start(int endpoint, std::string body, TransferSink* sink) = 0;
  // Closes the exchange's stream now. Its sink gets no further calls. Ignored if the exchange has
  // ended.
  virtual void Cancel(TransferId transfer) = 0;
  // Ends the exchange without closing the connection: the sink gets no further calls, and the rest
  // of the response is read and dropped for a short time, so that the connection can be reused.
  virtual void Drain(TransferId transfer) = 0;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_TRANSPORT_H_
