#include "tests/bench/orchestrator/routed_load.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/unary_reactor.h"
#include "tests/support/one_by_one.h"

namespace kernelcast::testing {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kCallLimit = std::chrono::seconds(30);
constexpr auto kLoadLimit = std::chrono::hours(1);
constexpr auto kStartLimit = std::chrono::seconds(30);
constexpr size_t kRequestsPerMessage = 64;

int64_t NowNs() { return Clock::Real().MonotonicNs(); }

void Limit(grpc::ClientContext& context, SteadyClock::duration limit) {
  context.set_deadline(std::chrono::system_clock::now() + limit);
}

std::unique_ptr<v1::Orchestrator::Stub> StubFor(const std::string& address) {
  return v1::Orchestrator::NewStub(MakeChannel(address, ChannelOptions()).value());
}

void Count(const v1::EvaluateReply& reply, int64_t latency_ns, LoadFigures& figures) {
  ++figures.requests;
  const bool measured = reply.evaluation().has_measured();
  (measured ? figures.measured_latencies_ns : figures.latencies_ns).push_back(latency_ns);
  ++figures.reasons[reply.evaluation().decision().reason()];
  if (reply.has_error()) {
    if (figures.errors++ == 0) {
      std::fprintf(stderr, "%s: %s\n", reply.request_id().c_str(), reply.error().message().c_str());
    }
  } else if (measured) {
    ++figures.measured;
  } else if (reply.evaluation().has_forecast()) {
    ++figures.pruned;
  } else if (figures.rejected++ == 0) {
    std::fprintf(stderr, "%s: %s\n", reply.request_id().c_str(),
                 reply.evaluation().rejected().ShortDebugString().c_str());
  }
}

// One stream with a window of unanswered requests, and at most `per_message` in one message.
class ClosedLoop final
    : public grpc::ClientBidiReactor<v1::EvaluateStreamRequest, v1::EvaluateStreamReply> {
 public:
  ClosedLoop(v1::Orchestrator::Stub& stub, CandidateSource& source, uint64_t count,
             size_t in_flight, size_t per_message)
      : source_(source), count_(count), in_flight_(in_flight), per_message_(per_message) {
    sent_ns_.resize(count);
    figures_.latencies_ns.reserve(count);
    Limit(context_, kLoadLimit);
    stub.async()->EvaluateStream(&context_, this);
    start_ns_ = NowNs();
    {
      std::unique_lock lock(mutex_);
      Write(lock);
    }
    StartRead(&reply_);
    StartCall();
  }

  absl::StatusOr<LoadFigures> Wait(const Progress& progress) {
    uint64_t next = progress.every;
    std::unique_lock lock(mutex_);
    while (!done_) {
      changed_.wait(lock, [&] { return done_ || (next > 0 && answered_ >= next); });
      while (next > 0 && answered_ >= next) {
        next += progress.every;
        if (answered_ >= next) continue;
        const uint64_t answered = answered_;
        lock.unlock();
        progress.report(answered);
        lock.lock();
      }
    }
    KC_RETURN_IF_ERROR(FromGrpc(status_));
    if (answered_ != count_) return absl::DataLossError("not every request was answered");
    figures_.seconds = static_cast<double>(end_ns_ - start_ns_) * 1e-9;
    return std::move(figures_);
  }

 private:
  // Starts the next write if there is room.
  void Write(std::unique_lock<std::mutex>& lock) {
    if (writing_ || half_closed_) return;
    if (sent_ == count_) {
      half_closed_ = true;
      lock.unlock();
      StartWritesDone();
      return;
    }
    const auto room = [&] { return sent_ < count_ && sent_ - answered_ < in_flight_; };
    if (!room()) return;
    request_.Clear();
    for (size_t entries = 0; entries < per_message_ && room(); ++entries) {
      *request_.add_requests() = source_.Next();
      sent_ns_[sent_++] = NowNs();
    }
    writing_ = true;
    grpc::WriteOptions options;
    if (room()) options.set_buffer_hint();
    lock.unlock();
    StartWrite(&request_, options);
  }
  void OnWriteDone(bool ok) override {
    std::unique_lock lock(mutex_);
    writing_ = false;
    if (ok) Write(lock);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      std::unique_lock lock(mutex_);
      end_ns_ = NowNs();
      for (const v1::EvaluateReply& reply : reply_.replies()) {
        Count(reply, end_ns_ - sent_ns_[CandidateSource::NumberOf(reply.request_id())], figures_);
        ++answered_;
        if (answered_ % 256 == 0 || answered_ == count_) changed_.notify_all();
      }
      Write(lock);
    }
    StartRead(&reply_);
  }
  void OnDone(const grpc::Status& status) override {
    std::lock_guard lock(mutex_);
    status_ = status;
    done_ = true;
    changed_.notify_all();
  }

  CandidateSource& source_;
  const uint64_t count_;
  const size_t in_flight_;
  const size_t per_message_;
  grpc::ClientContext context_;
  v1::EvaluateStreamRequest request_;
  v1::EvaluateStreamReply reply_;
  int64_t start_ns_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  // State below is protected by mutex_.
  LoadFigures figures_;
  std::vector<int64_t> sent_ns_;
  uint64_t sent_ = 0;
  uint64_t answered_ = 0;
  int64_t end_ns_ = 0;
  bool writing_ = false;
  bool half_closed_ = false;
  bool done_ = false;
  grpc::Status status_;
};

class Echo final : public v1::Orchestrator::CallbackService {
 public:
  explicit Echo(v1::EvaluateReply reply) : reply_(std::move(reply)) {}

  grpc::ServerUnaryReactor* Evaluate(grpc::CallbackServerContext* context,
                                     const v1::EvaluateRequest* request,
                                     v1::EvaluateReply* response) override {
    *response = reply_;
    response->set_request_id(request->request_id());
    return FinishNow(context, absl::OkStatus());
  }
  grpc::ServerBidiReactor<v1::EvaluateStreamRequest, v1::EvaluateStreamReply>* EvaluateStream(
      grpc::CallbackServerContext* context) override {
    return new Stream(context, reply_);
  }

 private:
  class Stream final : public BatchStream<EvaluateBatches> {
   public:
    Stream(grpc::CallbackServerContext* context, const v1::EvaluateReply& reply)
        : BatchStream(context, 1024), reply_(reply) {}

   private:
    void OnRequests(const v1::EvaluateStreamRequest& message) override {
      for (const v1::EvaluateRequest& request : message.requests()) {
        v1::EvaluateReply reply = reply_;
        reply.set_request_id(request.request_id());
        sender().Send(std::move(reply));
      }
    }
    const v1::EvaluateReply& reply_;
  };

  const v1::EvaluateReply reply_;
};

}  // namespace

namespace {

// Reads a file such as /proc/PID/stat; optionally only threads with a niceness above 0.
double CpuSecondsOf(const std::string& stat_file, bool only_nice) {
  std::ifstream in(stat_file);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  int niceness = 0;
  fields >> user >> system >> skipped >> skipped >> skipped >> niceness;
  if (only_nice && niceness <= 0) return 0;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double CpuSeconds(pid_t pid) { return CpuSecondsOf(absl::StrCat("/proc/", pid, "/stat"), false); }

double NiceCpuSeconds(pid_t pid) {
  double seconds = 0;
  std::error_code ignored;
  for (const auto& task :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), ignored)) {
    seconds += CpuSecondsOf(task.path() / "stat", true);
  }
  return seconds;
}

int64_t ResidentBytes(pid_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/statm"));
  int64_t size = 0;
  int64_t resident = 0;
  int64_t shared = 0;
  in >> size >> resident >> shared;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

std::map<std::string, uint64_t> LoadFigures::Reasons() const {
  std::map<std::string, uint64_t> named;
  for (const auto& [reason, count] : reasons) named[v1::DecisionReason_Name(reason)] = count;
  return named;
}

double PercentileMs(std::vector<int64_t>& latencies_ns, double share) {
  if (latencies_ns.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(latencies_ns.size() - 1));
  std::nth_element(latencies_ns.begin(), latencies_ns.begin() + static_cast<long>(at),
                   latencies_ns.end());
  return static_cast<double>(latencies_ns[at]) * 1e-6;
}

CandidateSource::CandidateSource(const RecordedProblem& recorded, std::string run,
                                 double measured_share)
    : run_(std::move(run)), with_searches_(measured_share > 0), measured_share_(measured_share) {
  requests_.resize(recorded.candidates.size());
  // Spreads neighbours in the space across the stream.
  size_t at = 0;
  auto step = static_cast<size_t>(0.618 * static_cast<double>(requests_.size()));
  while (std::gcd(step, requests_.size()) != 1) ++step;
  for (v1::EvaluateRequest& request : requests_) {
    *request.mutable_candidate() = ToProto(recorded.candidates[at]);
    request.mutable_candidate()->clear_candidate_id();
    request.set_mode(v1::EVALUATE_MODE_ROUTE);
    at = (at + step) % requests_.size();
  }
}

std::string CandidateSource::SearchId(uint64_t search) const {
  return absl::StrCat(run_, "-", search);
}

absl::Status CandidateSource::StartSearches(v1::Orchestrator::Stub& stub, uint64_t requests) {
  if (!with_searches_) return absl::OkStatus();
  const v1::Candidate& candidate = requests_.front().candidate();
  for (uint64_t search = 0; search * per_search() < requests; ++search) {
    v1::StartSearchRequest request;
    request.set_search_id(SearchId(search));
    request.mutable_spec()->set_problem_id(candidate.problem_id());
    request.mutable_spec()->set_target(candidate.target());
    request.mutable_spec()->set_generator(v1::GENERATOR_EXTERNAL);
    request.mutable_spec()->mutable_budget()->set_max_candidates(per_search());
    // The policy paces measurements by the share. The budget itself ends a search, and promising
    // candidates are measured regardless of the pace; how many there are depends on when the models
    // were trained.
    constexpr double kHeadroom = 5;
    const double share = measured_share_;
    request.mutable_spec()->mutable_budget()->set_max_measurements(std::max<uint64_t>(
        1, static_cast<uint64_t>(kHeadroom * share * static_cast<double>(per_search()))));
    auto& parameters = *request.mutable_spec()->mutable_policy_parameters();
    parameters["bootstrap_share"] = 0.25 / kHeadroom;
    parameters["pace"] = 0.6 / kHeadroom;
    parameters["audit_min"] = share / 4;
    parameters["audit_scale"] = share;
    grpc::ClientContext context;
    Limit(context, kCallLimit);
    v1::StartSearchReply reply;
    KC_RETURN_IF_ERROR(FromGrpc(stub.StartSearch(&context, request, &reply)));
  }
  return absl::OkStatus();
}

void CandidateSource::StopSearches(v1::Orchestrator::Stub& stub, uint64_t answered) {
  while (with_searches_ && (stopped_ + 1) * per_search() <= answered) {
    v1::StopSearchRequest request;
    request.set_search_id(SearchId(stopped_++));
    grpc::ClientContext context;
    Limit(context, kCallLimit);
    v1::StopSearchReply reply;
    (void)stub.StopSearch(&context, request, &reply);
  }
}

const v1::EvaluateRequest& CandidateSource::Next() {
  v1::EvaluateRequest& request = requests_[given_ % per_search()];
  request.set_request_id(absl::StrCat(run_, "/", given_));
  if (with_searches_) request.set_search_id(SearchId(given_ / per_search()));
  ++given_;
  return request;
}

uint64_t CandidateSource::NumberOf(const std::string& request_id) {
  return std::strtoull(request_id.c_str() + request_id.rfind('/') + 1, nullptr, 10);
}

absl::StatusOr<std::unique_ptr<RoutedCluster>> RoutedCluster::Start(
    int blocks, int unrolls, int source_bytes, std::vector<std::string> orchestrator_arguments) {
  auto cluster = std::make_unique<RoutedCluster>();
  const TemporaryFolder& folder = cluster->folder;
  cluster->recorded = MakeRecordedProblem(blocks, unrolls, "cpu", source_bytes);
  WriteRecords(cluster->recorded, folder.File("records.jsonl"));
  cluster->worker = std::make_unique<Service>(
      "kernelcast-worker",
      std::vector<std::string>{"--replay", folder.File("records.jsonl"), "--cache-dir",
                               folder.File("cache"), "--log-level", "warning"},
      folder);
  KC_RETURN_IF_ERROR(cluster->worker->Start());
  cluster->forecaster = std::make_unique<Service>(
      "kernelcast-forecaster",
      std::vector<std::string>{"--state-dir", folder.File("forecaster"), "--prior", "none",
                               "--log-level", "warning"},
      folder);
  KC_RETURN_IF_ERROR(cluster->forecaster->Start());
  std::vector<std::string> arguments = {"--state-dir", folder.File("orchestrator"), "--worker",
                                        cluster->worker->address(), "--forecaster",
                                        cluster->forecaster->address(), "--confirm", "0",
                                        // A load is one stream of any length.
                                        "--max-connection-age-grace-seconds", "86400"};
  arguments.insert(arguments.end(), orchestrator_arguments.begin(), orchestrator_arguments.end());
  cluster->orchestrator =
      std::make_unique<Service>("kernelcast-orchestrator", std::move(arguments), folder);
  KC_RETURN_IF_ERROR(cluster->orchestrator->Start());
  const auto stub = cluster->Stub();
  grpc::ClientContext context;
  Limit(context, kCallLimit);
  v1::PutProblemRequest request;
  *request.mutable_problem() = ProblemFilesToProto(cluster->recorded.problem);
  v1::PutProblemReply reply;
  KC_RETURN_IF_ERROR(FromGrpc(stub->PutProblem(&context, request, &reply)));
  return cluster;
}

std::unique_ptr<v1::Orchestrator::Stub> RoutedCluster::Stub() const {
  return StubFor(orchestrator->address());
}

std::map<std::string, double> RoutedCluster::Cpu() const {
  return {{"worker", CpuSeconds(worker->pid())},
          {"forecaster", CpuSeconds(forecaster->pid()) - NiceCpuSeconds(forecaster->pid())},
          {"its training", NiceCpuSeconds(forecaster->pid())},
          {"orchestrator", CpuSeconds(orchestrator->pid())}};
}

std::map<std::string, int64_t> RoutedCluster::Resident() const {
  return {{"worker", ResidentBytes(worker->pid())},
          {"forecaster", ResidentBytes(forecaster->pid())},
          {"orchestrator", ResidentBytes(orchestrator->pid())}};
}

absl::StatusOr<LoadFigures> StreamClosedLoop(v1::Orchestrator::Stub& stub, CandidateSource& source,
                                             uint64_t count, size_t in_flight,
                                             const Progress& progress) {
  KC_RETURN_IF_ERROR(source.StartSearches(stub, count));
  ClosedLoop loop(stub, source, count, in_flight, /*per_message=*/1);
  return loop.Wait(progress);
}

absl::StatusOr<LoadFigures> BatchClosedLoop(v1::Orchestrator::Stub& stub, CandidateSource& source,
                                            uint64_t count, size_t in_flight,
                                            const Progress& progress) {
  KC_RETURN_IF_ERROR(source.StartSearches(stub, count));
  ClosedLoop loop(stub, source, count, in_flight, kRequestsPerMessage);
  return loop.Wait(progress);
}

absl::StatusOr<LoadFigures> StreamOpenLoop(v1::Orchestrator::Stub& stub, CandidateSource& source,
                                           uint64_t count, double per_second) {
  KC_RETURN_IF_ERROR(source.StartSearches(stub, count));
  grpc::ClientContext context;
  Limit(context, kLoadLimit);
  auto stream = OneByOne(stub.EvaluateStream(&context));
  LoadFigures figures;
  figures.latencies_ns.reserve(count);
  const auto start = SteadyClock::now();
  const auto due = [&](uint64_t number) {
    return start + std::chrono::nanoseconds(
                       static_cast<int64_t>(static_cast<double>(number) / per_second * 1e9));
  };
  std::thread writer([&] {
    for (uint64_t i = 0; i < count; ++i) {
      std::this_thread::sleep_until(due(i));
      if (!stream->Write(source.Next())) return;
    }
    stream->WritesDone();
  });
  v1::EvaluateReply reply;
  while (stream->Read(&reply)) {
    const auto late = SteadyClock::now() - due(CandidateSource::NumberOf(reply.request_id()));
    Count(reply, std::chrono::duration_cast<std::chrono::nanoseconds>(late).count(), figures);
  }
  writer.join();
  KC_RETURN_IF_ERROR(FromGrpc(stream->Finish()));
  figures.seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
  return figures;
}

absl::StatusOr<LoadFigures> UnaryClosedLoop(v1::Orchestrator::Stub& stub, CandidateSource& source,
                                            uint64_t count, size_t in_flight) {
  KC_RETURN_IF_ERROR(source.StartSearches(stub, count));
  struct Call {
    grpc::ClientContext context;
    v1::EvaluateRequest request;
    v1::EvaluateReply reply;
    int64_t start_ns = 0;
  };
  std::mutex mutex;
  std::condition_variable ended;
  LoadFigures figures;
  uint64_t sent = 0;
  size_t open = in_flight;
  const int64_t start_ns = NowNs();
  std::function<void()> launch = [&] {
    auto* call = new Call;
    {
      std::lock_guard lock(mutex);
      if (sent == count) {
        delete call;
        if (--open == 0) ended.notify_all();
        return;
      }
      ++sent;
      call->request = source.Next();
    }
    Limit(call->context, kCallLimit);
    call->start_ns = NowNs();
    stub.async()->Evaluate(&call->context, &call->request, &call->reply,
                           [&, call](const grpc::Status& status) {
                             {
                               std::lock_guard lock(mutex);
                               if (status.ok()) {
                                 Count(call->reply, NowNs() - call->start_ns, figures);
                               } else {
                                 ++figures.requests;
                                 ++figures.errors;
                               }
                             }
                             delete call;
                             launch();
                           });
  };
  for (size_t i = 0; i < in_flight; ++i) launch();
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return open == 0; });
  figures.seconds = static_cast<double>(NowNs() - start_ns) * 1e-9;
  return figures;
}

int ServeEcho(const std::string& reply_file, const std::string& address_file) {
  v1::EvaluateReply reply;
  std::ifstream in(reply_file, std::ios::binary);
  if (!reply.ParseFromIstream(&in)) return 1;
  Echo echo(std::move(reply));
  auto server = RpcServer::Start(ServerOptions(), {&echo}, nullptr);
  if (!server.ok()) return 1;
  std::ofstream(address_file + ".part") << (*server)->address() << "\n";
  std::filesystem::rename(address_file + ".part", address_file);
  pause();
  return 0;
}

absl::StatusOr<std::unique_ptr<EchoProcess>> EchoProcess::Start(const std::string& program,
                                                                const v1::EvaluateReply& reply) {
  auto echo = std::make_unique<EchoProcess>();
  const std::string reply_file = echo->folder_.File("reply");
  const std::string address_file = echo->folder_.File("address");
  std::ofstream(reply_file, std::ios::binary) << reply.SerializeAsString();
  ChildOptions options;
  options.argv = {program, "--serve-echo", reply_file, address_file};
  KC_ASSIGN_OR_RETURN(echo->child_, ChildProcess::Spawn(options));
  const auto limit = SteadyClock::now() + kStartLimit;
  while (!std::filesystem::exists(address_file)) {
    if (echo->child_->Poll() || SteadyClock::now() > limit) {
      return absl::UnavailableError(
          absl::StrCat("the echo did not start:\n", echo->child_->output()));
    }
    // As in Service: the file appears by rename.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::getline(std::ifstream(address_file), echo->address_);
  return echo;
}

std::unique_ptr<v1::Orchestrator::Stub> EchoProcess::Stub() const { return StubFor(address_); }

}  // namespace kernelcast::testing
