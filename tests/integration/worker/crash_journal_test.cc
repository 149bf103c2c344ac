// A worker after crashes that one candidate caused.

#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "common/convert/convert.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/support/crashed_with.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"

namespace kernelcast::testing::crash_journal_test {
namespace {

TEST_CASE("A worker refuses what crashed it twice", "[integration]") {
  const TemporaryFolder folder("crashes");
  const RecordedProblem recorded = MakeRecordedProblem(2, 2);
  WriteRecords(recorded, folder.File("records.jsonl"));
  const Candidate& poison = recorded.candidates[0];
  const Candidate& fine = recorded.candidates[1];
  std::filesystem::create_directories(folder.File("cache"));
  const std::string journal = folder.File("cache/worker-1.crash-journal");
  CrashedWith(journal, "compile:" + poison.candidate_id, 2);
  CrashedWith(journal, "compile:" + fine.candidate_id, 1);

  Service worker("kernelcast-worker",
                 {"--replay", folder.File("records.jsonl"), "--cache-dir", folder.File("cache")},
                 folder);
  const absl::Status started = worker.Start();
  INFO(started.ToString());
  REQUIRE(started.ok());
  const auto channel = MakeChannel(worker.address());
  REQUIRE(channel.ok());
  const auto stub = v1::Worker::NewStub(*channel);
  {
    v1::PutProblemRequest request;
    *request.mutable_problem() = ProblemFilesToProto(recorded.problem);
    v1::PutProblemReply reply;
    grpc::ClientContext context;
    SetTimeout(context, absl::Seconds(30));
    REQUIRE(stub->PutProblem(&context, request, &reply).ok());
  }
  const auto compile = [&](const Candidate& candidate) {
    v1::CompileRequest request;
    request.set_problem_id(recorded.problem.problem_id);
    request.set_target(candidate.target);
    *request.mutable_candidate() = ToProto(candidate);
    v1::CompileReply reply;
    grpc::ClientContext context;
    SetTimeout(context, absl::Seconds(30));
    return stub->Compile(&context, request, &reply);
  };
  const grpc::Status refused = compile(poison);
  CHECK(refused.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK_THAT(refused.error_message(), Catch::Contains("set aside: "));
  const grpc::Status compiled = compile(fine);
  INFO(compiled.error_message());
  CHECK(compiled.ok());
  CHECK(compile(recorded.candidates[2]).ok());
}

}  // namespace
}  // namespace kernelcast::testing::crash_journal_test
