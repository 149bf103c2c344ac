// libFuzzer harness for requests to the gateway. An input is a line "METHOD TARGET", a line with
// the content type, and the body. make_gateway_corpus.py writes seeds.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "services/gateway/dialects/dialects.h"
#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

std::string_view TakeUntil(std::string_view& text, char end) {
  const std::string_view taken = text.substr(0, text.find(end));
  text.remove_prefix(std::min(taken.size() + 1, text.size()));
  return taken;
}

void CheckUpload(const HttpRequest& request) {
  const absl::StatusOr<UploadedFile> file = FindUpload(request.content_type, request.body, "file");
  if (!file.ok()) return;
  Require(request.body.find(file->content) != std::string::npos, "a file is a part of its body");
  Require(request.body.find(file->file_name) != std::string::npos, "and so is its name");
  Require(file->content.size() < request.body.size(), "a body has more than the file");
}

void CheckReply(const HttpReply& reply) {
  Require(reply.status >= 200 && reply.status < 600, "a reply has a status of HTTP");
  Require(reply.status != 500, "no request is an error of the gateway");
  Require(reply.status < 300 || !reply.body.empty(), "a refusal has a reason");
  Require(!reply.body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).empty(),
          "a reply can be written");
}

}  // namespace
}  // namespace kernelcast::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kernelcast::gateway;
  static const std::vector<Served>& served = *new std::vector(testing::World::DefaultServed());
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  HttpRequest request;
  request.method = std::string(TakeUntil(rest, ' '));
  if (!ParseTarget(TakeUntil(rest, '\n'), request).ok() || request.path.empty()) return 0;
  request.content_type = std::string(TakeUntil(rest, '\n'));
  request.body = std::string(rest);
  CheckUpload(request);
  testing::World world(served);
  const std::string name = request.path.front();
  request.path.erase(request.path.begin());
  for (const auto& dialect : MakeDialects(world.context)) {
    if (dialect->name() != name) continue;
    const HttpReply reply = dialect->Handle(request);
    CheckReply(reply);
    // A repeated request starts nothing.
    const size_t started = world.evaluator.request_ids.size();
    Require(dialect->Handle(request).status == reply.status, "a request can be repeated");
    Require(world.evaluator.request_ids.size() == started, "and is joined");
  }
  return 0;
}
