// Tests the real worker, compiler and runners on the fake driver (tests/fakes/cuda/fake_libcuda.cc)
// with several devices.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"
#include "common/domain/problem.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/fakes/cuda/map_problem.h"
#include "tests/support/eventually.h"
#include "tests/support/metrics_page.h"
#include "tests/support/services.h"

namespace kernelcast::testing::several_gpus_test {
namespace {

namespace fs = std::filesystem;

// y = 2 x + 1. The fake driver executes the text.
std::string Source(const std::string& options) {
  return absl::StrCat(
      R"(extern "C" __device__ const char fake[] = "fake cubin\nkernel map affine )", options,
      R"(\nend\n";
extern "C" __global__ void map(const float* x, float* y, long long n) {
  for (long long i = threadIdx.x; i < n; i += blockDim.x) y[i] = 2 * x[i] + 1;
  if (n < 0) y[0] = fake[threadIdx.x];
}
)");
}

// A node with these GPUs and one worker.
class Node {
 public:
  explicit Node(const std::vector<std::string>& models, std::vector<std::string> arguments = {})
      : folder_("several-gpus") {
    fs::create_symlink(fs::path(KERNELCAST_FAKE_DRIVER) / "libcuda.so.1",
                       folder_.File("libcuda.so.1"));
    std::ofstream list(folder_.File("models"));
    for (const std::string& model : models) list << model << "\n";
    list.close();
    arguments.insert(arguments.end(), {"--cache-dir", folder_.File("cache"), "--lease-file", "",
                                       "--cuda-home", KERNELCAST_CUDA_HOME});
    ServiceSite site;
    site.launcher = {"/usr/bin/env", absl::StrCat("LD_LIBRARY_PATH=", folder_.path().string())};
    worker_ = std::make_unique<Service>("kernelcast-worker", arguments, folder_, site);
    const absl::Status started = worker_->Start();
    INFO(started.ToString());
    REQUIRE(started.ok());
    auto channel = MakeChannel(worker_->address());
    REQUIRE(channel.ok());
    stub_ = v1::Worker::NewStub(*channel);
    grpc::ClientContext context;
    v1::PutProblemRequest request;
    *request.mutable_problem() = ProblemFilesToProto(problem_);
    v1::PutProblemReply reply;
    REQUIRE(stub_->PutProblem(&context, request, &reply).ok());
  }

  v1::WorkerDescription Describe() const {
    v1::WorkerDescription description;
    grpc::ClientContext context;
    REQUIRE(stub_->Describe(&context, {}, &description).ok());
    return description;
  }
  v1::TargetDescription Cuda() const {
    const v1::WorkerDescription description = Describe();
    for (const v1::TargetDescription& target : description.targets()) {
      if (target.target() == "cuda") {
        INFO(target.unavailable_reason());
        return target;
      }
    }
    FAIL("no target cuda");
    return {};
  }

  // Measures `count` candidates, `window` at a time. Returns the number per device UUID. Requires
  // an outcome for each.
  std::map<std::string, int> Measure(size_t count, size_t window, const std::string& model = "") {
    std::vector<v1::MeasureRequest> requests;
    while (requests.size() < count) requests.push_back(NextRequest(model));
    std::vector<grpc::Status> statuses(count);
    std::vector<v1::MeasureReply> replies(count);
    const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(100);
    std::atomic<size_t> next = 0;
    {
      std::vector<std::jthread> callers;
      while (callers.size() < window) {
        callers.emplace_back([&] {
          for (size_t at = next++; at < count; at = next++) {
            grpc::ClientContext context;
            context.set_deadline(deadline);
            statuses[at] = stub_->Measure(&context, requests[at], &replies[at]);
          }
        });
      }
    }
    std::map<std::string, int> devices;
    for (size_t at = 0; at < count; ++at) {
      INFO(statuses[at].error_message() << replies[at].DebugString());
      REQUIRE(statuses[at].ok());
      REQUIRE(replies[at].has_measurement());
      CHECK(replies[at].measurement().outcome_case() != v1::Measurement::OUTCOME_NOT_SET);
      ++devices[replies[at].measurement().device().uuid()];
    }
    return devices;
  }

  absl::StatusOr<v1::Measurement> MeasureOne() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(100));
    v1::MeasureReply reply;
    const grpc::Status status = stub_->Measure(&context, NextRequest(""), &reply);
    if (!status.ok()) return FromGrpc(status);
    return reply.measurement();
  }

  void Break(int device) { std::ofstream(folder_.File(absl::StrCat("broken.", device))) << "!"; }
  void Repair(int device) { fs::remove(folder_.File(absl::StrCat("broken.", device))); }
  Service& worker() { return *worker_; }
  v1::Worker::Stub& stub() { return *stub_; }
  const Problem& problem() const { return problem_; }

 private:
  v1::MeasureRequest NextRequest(const std::string& model) {
    Candidate candidate;
    candidate.problem_id = problem_.problem_id;
    candidate.target = "cuda";
    candidate.kind = CandidateKind::kDeviceCuda;
    candidate.source = absl::StrCat(Source("scale=2 add=1 ns=1000"), "// ", ++number_, "\n");
    Launch launch;
    launch.kernel = "map";
    launch.grid = {"1"};
    launch.block = {"256"};
    launch.arguments = {"x", "y", "n"};
    candidate.launches = {launch};
    candidate.candidate_id = CandidateId(candidate);
    v1::MeasureRequest request;
    request.set_request_id(absl::StrCat(number_));
    *request.mutable_candidate() = ToProto(candidate);
    request.set_level(v1::MEASURE_LEVEL_SCREEN);
    request.set_device_model(model);
    return request;
  }

  const Problem problem_ =
      MapProblem("fake_map", Source("scale=2 add=1 ns=1000"), Source("scale=2 add=1 double=1"));
  TemporaryFolder folder_;
  std::unique_ptr<Service> worker_;
  std::unique_ptr<v1::Worker::Stub> stub_;
  int number_ = 0;
};

TEST_CASE("One worker drives every GPU of its node and spreads one problem's candidates",
          "[slow]") {
  const int gpus = GENERATE(2, 4);
  Node node(std::vector<std::string>(static_cast<size_t>(gpus), "Fake GPU"));
  const v1::TargetDescription cuda = node.Cuda();
  INFO(cuda.DebugString());
  REQUIRE(cuda.can_measure());
  REQUIRE(cuda.devices_size() == gpus);
  for (int i = 0; i < gpus; ++i) {
    CHECK(cuda.devices(i).index() == static_cast<uint32_t>(i));
    CHECK(cuda.devices(i).can_measure());
    CHECK(std::any_of(cuda.devices(i).peaks().begin(), cuda.devices(i).peaks().end(),
                      [](const v1::DevicePeak& peak) { return peak.name() == "memory_copy"; }));
  }
  CHECK(cuda.peaks_size() == cuda.devices(0).peaks_size());
  CHECK(node.Describe().measure_credits() == static_cast<uint32_t>(8 * gpus));
  const auto devices =
      node.Measure(static_cast<size_t>(10 * gpus), node.Describe().measure_credits());
  CHECK(devices.size() == static_cast<size_t>(gpus));
  for (const auto& [uuid, count] : devices) {
    INFO(uuid);
    CHECK(count >= 2);
  }
}

TEST_CASE("The first candidate of a problem is charged for its preparation") {
  Node node({"Fake GPU"});
  const auto preparing_ns = [&]() -> int64_t {
    const v1::Measurement measurement = node.MeasureOne().value();
    const google::protobuf::Duration& all = measurement.device_time();
    const google::protobuf::Duration& preparing = measurement.preparation_time();
    CHECK(preparing.seconds() * 1'000'000'000 + preparing.nanos() <
          all.seconds() * 1'000'000'000 + all.nanos());
    return preparing.seconds() * 1'000'000'000 + preparing.nanos();
  };
  const int64_t first_ns = preparing_ns();
  CHECK(first_ns > 0);
  CHECK(preparing_ns() < first_ns / 2);
}

TEST_CASE("A failed GPU loses only its share, is reported and returns", "[slow]") {
  Node node({"Fake GPU", "Fake GPU"});
  REQUIRE(node.Measure(8, 8).size() == 2);
  node.Break(1);
  const auto left = node.Measure(12, 8);
  INFO(left.begin()->first);
  CHECK(left.rbegin()->second >= 8);
  const v1::TargetDescription cuda = node.Cuda();
  CHECK(cuda.can_measure());
  CHECK(cuda.devices(0).can_measure());
  REQUIRE_FALSE(cuda.devices(1).can_measure());
  CHECK_FALSE(cuda.devices(1).unavailable_reason().empty());
  const auto up = [&](int device) {
    return MetricsPage::Fetch(node.worker().metrics_port())
        .value()
        .Sum(absl::StrCat("kernelcast_worker_device_up{gpu=\"", device, "\",gpu_model=\"cuda\""));
  };
  CHECK(up(0) == 1);
  CHECK(up(1) == 0);
  node.Repair(1);
  CHECK(Eventually([&] { return node.Cuda().devices(1).can_measure(); }));
  CHECK(up(1) == 1);
  CHECK(node.Measure(8, 8).size() == 2);
}

TEST_CASE("A worker whose last GPU failed reports it and lets callers try another worker",
          "[slow]") {
  Node node({"Fake GPU"});
  REQUIRE(node.Measure(2, 2).size() == 1);
  node.Break(0);
  CHECK(absl::IsUnavailable(node.MeasureOne().status()));
  CHECK_FALSE(node.Cuda().can_measure());
  CHECK_THAT(node.Cuda().unavailable_reason(), Catch::Contains("cannot measure"));
  CHECK(absl::IsUnavailable(node.MeasureOne().status()));
  node.Repair(0);
  CHECK(Eventually([&] { return node.Cuda().can_measure(); }));
  CHECK(node.Measure(2, 2).size() == 1);
}

TEST_CASE("Devices of several models are distinguished and a request names one", "[slow]") {
  Node node({"Fake GPU A", "Fake GPU B", "Fake GPU A"});
  std::map<std::string, std::string> model_of;
  const v1::TargetDescription cuda = node.Cuda();
  for (const v1::TargetDevice& device : cuda.devices()) {
    model_of[device.device().uuid()] = device.device().model();
  }
  CHECK(model_of.size() == 3);
  for (const auto& [uuid, count] : node.Measure(6, 6, "Fake GPU B")) {
    CHECK(model_of[uuid] == "Fake GPU B");
  }
  for (const auto& [uuid, count] : node.Measure(8, 8, "Fake GPU A")) {
    CHECK(model_of[uuid] == "Fake GPU A");
  }
  v1::CompileRequest compile;
  compile.set_problem_id(node.problem().problem_id);
  compile.set_target("cuda");
  compile.set_reference(true);
  compile.set_device_model("Fake GPU C");
  v1::CompileReply reply;
  grpc::ClientContext context;
  CHECK(node.stub().Compile(&context, compile, &reply).error_code() ==
        grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_CASE("The --gpus flag selects among the GPUs that the driver shows", "[slow]") {
  Node node({"Fake GPU", "Fake GPU", "Fake GPU"}, {"--gpus", "2"});
  CHECK(node.Cuda().devices_size() == 1);
  CHECK(node.Measure(4, 4).size() == 1);
}

}  // namespace
}  // namespace kernelcast::testing::several_gpus_test
