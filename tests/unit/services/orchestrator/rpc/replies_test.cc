#include "services/orchestrator/rpc/replies.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/rpc/status_conversion.h"

namespace kernelcast::orchestrator {
namespace {

SearchSnapshot Named(const std::string& id) {
  SearchSnapshot search;
  search.search_id = id;
  return search;
}

TEST_CASE("Merging pages of parts gives pages of the whole for any distribution") {
  // Every distribution of seven searches over three parts.
  const std::vector<std::string> ids = {"a", "b", "c", "d", "e", "f", "g"};
  for (int way = 0; way < 2187; ++way) {
    std::vector<std::vector<SearchSnapshot>> parts(3);
    for (size_t i = 0, left = static_cast<size_t>(way); i < ids.size(); ++i, left /= 3) {
      parts[left % 3].push_back(Named(ids[i]));
    }
    for (const uint32_t size : {1U, 2U, 3U, 7U, 0U}) {
      std::vector<std::string> listed;
      v1::ListSearchesRequest request;
      request.set_page_size(size);
      int pages = 0;
      do {
        std::vector<v1::ListSearchesReply> replies;
        replies.reserve(parts.size());
        for (const auto& part : parts) replies.push_back(MakePage(request, part));
        const v1::ListSearchesReply page = JoinPages(request, replies);
        for (const auto& search : page.searches()) listed.push_back(search.search_id());
        request.set_page_token(page.next_page_token());
      } while (!request.page_token().empty() && ++pages < 20);
      if (listed != ids) {
        CAPTURE(way, size);
        CHECK(listed == ids);
      }
    }
  }
}

TEST_CASE("Lists of searches leave lessons out") {
  SearchSnapshot search = Named("a");
  search.spec.target = "cpu";
  search.spec.lessons.resize(3);
  const v1::ListSearchesReply page = MakePage({}, {search});
  CHECK(page.searches(0).spec().target() == "cpu");
  CHECK(page.searches(0).spec().lessons().empty());
}

TEST_CASE("An oversized page is refused") {
  v1::ListSearchesRequest request;
  request.set_page_size(1000);
  CHECK(CheckPage(request).ok());
  request.set_page_size(1001);
  CHECK(CheckPage(request).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("An UNAVAILABLE error gives a retry delay") {
  const absl::Status status = UnavailableFor("nobody is here", absl::Milliseconds(1500));
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(RetryAfter(status) == absl::Milliseconds(1500));
  const v1::EvaluateReply reply = ReplyFromError("r", status);
  CHECK(reply.error().code() == static_cast<int>(absl::StatusCode::kUnavailable));
  CHECK(reply.error().retry_after().seconds() == 1);
}

}  // namespace
}  // namespace kernelcast::orchestrator
