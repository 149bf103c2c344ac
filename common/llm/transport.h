#ifndef KERNELCAST_COMMON_LLM_TRANSPORT_H_
#define KERNELCAST_COMMON_LLM_TRANSPORT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace kernelcast::llm {

// How an exchange ended, as far as the network goes.
enum class TransferEnd {
  kFinished,        // the response ended as it should
  kUnreachable,     // no connection
  kConnectTimeout,  // no connection in time
  kBroken,          // connected, and then lost
  kNotHttp,         // what came is no HTTP
};

// Learns what comes of one exchange. Its methods are called while the transport works, so they may
// not call the transport.
class TransferSink {
 public:
  virtual ~TransferSink() = default;
  virtual void OnStatus(int http_status) = 0;
  virtual void OnHeader(std::string_view name, std::string_view value) = 0;
  // False: no more is wanted; nothing else is told, and whoever started the exchange cancels it.
  virtual bool OnBody(std::string_view bytes) = 0;
  // The last call. `message` is one line for people.
  virtual void OnEnd(TransferEnd end, std::string_view message) = 0;
};

// Names an exchange; never used twice.
using TransferId = uint64_t;

// Carries requests to the endpoints of a configuration. Used from one thread; calls sinks only from
// a method of the implementation that waits for the network.
class Transport {
 public:
  virtual ~Transport() = default;
  // POSTs `body` to /chat/completions of an endpoint, with the calling thread's trace as headers,
  // if there is one and the endpoint takes it. `sink` outlives the exchange: OnEnd, Cancel or
  // Drain.
  virtual TransferId Start(int endpoint, std::string body, TransferSink* sink) = 0;
  // Closes the exchange's stream now; its sink is told nothing more. One that has ended is left
  // alone.
  virtual void Cancel(TransferId transfer) = 0;
  // All that matters has come: the sink is told nothing more, and the rest is read and dropped, for
  // a moment, so that the connection can be used again.
  virtual void Drain(TransferId transfer) = 0;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_TRANSPORT_H_
