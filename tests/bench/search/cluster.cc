#include "tests/bench/search/cluster.h"

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/process/child_process.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTrainingLimitNs = 1'800'000'000'000;

}  // namespace

absl::Status Cluster::Start(const ClusterOptions& options) {
  std::string worker_address = options.worker_address;
  if (worker_address.empty()) {
    std::vector<std::string> arguments = {"--cache-dir", folder_.File("cache")};
    arguments.insert(arguments.end(), options.worker_arguments.begin(),
                     options.worker_arguments.end());
    worker_ = std::make_unique<Service>("kernelcast-worker", arguments, folder_);
    KC_RETURN_IF_ERROR(worker_->Start());
    worker_address = worker_->address();
  }
  std::vector<std::string> forecaster_arguments = {"--state-dir", folder_.File("forecaster"),
                                                   "--prior", options.prior};
  forecaster_arguments.insert(forecaster_arguments.end(), options.forecaster_arguments.begin(),
                              options.forecaster_arguments.end());
  forecaster_ = std::make_unique<Service>("kernelcast-forecaster", forecaster_arguments, folder_);
  KC_RETURN_IF_ERROR(forecaster_->Start());
  std::vector<std::string> arguments = {
      "--state-dir",  folder_.File("orchestrator"), "--worker",  worker_address,
      "--forecaster", forecaster_->address(),       "--confirm", "0"};
  arguments.insert(arguments.end(), options.orchestrator_arguments.begin(),
                   options.orchestrator_arguments.end());
  orchestrator_ = std::make_unique<Service>("kernelcast-orchestrator", arguments, folder_);
  KC_RETURN_IF_ERROR(orchestrator_->Start());
  grpc::ChannelArguments channel;
  channel.SetMaxReceiveMessageSize(64 << 20);
  stub_ = v1::Orchestrator::NewStub(grpc::CreateCustomChannel(
      orchestrator_->address(), grpc::InsecureChannelCredentials(), channel));
  return absl::OkStatus();
}

absl::Status Cluster::PutProblem(const Problem& problem) {
  grpc::ClientContext context;
  v1::PutProblemRequest request;
  *request.mutable_problem() = ProblemFilesToProto(problem);
  v1::PutProblemReply reply;
  return FromGrpc(stub_->PutProblem(&context, request, &reply));
}

absl::StatusOr<v1::Search> Cluster::Run(const std::string& id, const v1::SearchSpec& spec) {
  grpc::ClientContext start_context;
  v1::StartSearchRequest start;
  start.set_search_id(id);
  *start.mutable_spec() = spec;
  v1::StartSearchReply started;
  KC_RETURN_IF_ERROR(FromGrpc(stub_->StartSearch(&start_context, start, &started)));
  grpc::ClientContext watch_context;
  v1::WatchSearchRequest watch;
  watch.set_search_id(id);
  auto stream = stub_->WatchSearch(&watch_context, watch);
  v1::SearchEvent event;
  while (stream->Read(&event)) {
  }
  KC_RETURN_IF_ERROR(FromGrpc(stream->Finish()));
  grpc::ClientContext get_context;
  v1::GetSearchRequest get;
  get.set_search_id(id);
  v1::GetSearchReply reply;
  KC_RETURN_IF_ERROR(FromGrpc(stub_->GetSearch(&get_context, get, &reply)));
  return reply.searches(0);
}

absl::Status Cluster::Export(const std::string& search_id, bool include_sources,
                             const std::function<absl::Status(const v1::ExportRecord&)>& take) {
  grpc::ClientContext context;
  v1::ExportRequest request;
  request.set_search_id(search_id);
  request.set_include_sources(include_sources);
  auto stream = stub_->Export(&context, request);
  v1::ExportRecord record;
  while (stream->Read(&record)) KC_RETURN_IF_ERROR(take(record));
  return FromGrpc(stream->Finish());
}

absl::StatusOr<std::string> TrainPriorWithoutFamily(const std::string& problems,
                                                    const std::vector<std::string>& records,
                                                    const Problem& problem,
                                                    const TemporaryFolder& folder) {
  ChildOptions child;
  child.argv = {ProgramFolder() + "/kernelcast-forecaster", "--train-problems", problems,
                "--train-output", folder.File("prior.json")};
  for (const std::string& one : records) {
    const fs::path others = folder.path() / absl::StrCat("records", child.argv.size());
    fs::create_directory(others);
    for (const auto& entry : fs::directory_iterator(one)) {
      const std::string file = entry.path().filename();
      KC_ASSIGN_OR_RETURN(
          auto files, ReadProblemFolder(fs::path(problems) / file.substr(0, file.find(".jsonl"))));
      KC_ASSIGN_OR_RETURN(const Problem other, ParseProblem(std::move(files)));
      if (other.family == problem.family) continue;
      fs::create_symlink(fs::absolute(entry.path()), others / file);
    }
    child.argv.insert(child.argv.end(), {"--train", others});
  }
  KC_ASSIGN_OR_RETURN(const auto training, ChildProcess::Spawn(child));
  const ChildExit exit = training->Wait(kTrainingLimitNs);
  if (exit.exit_code != 0) return absl::InternalError(exit.output);
  return folder.File("prior.json");
}

}  // namespace kernelcast::testing
