#include "common/convert/candidate_exchange.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"

namespace kernelcast::candidate_exchange_test {
namespace {

Candidate MakeCandidate(const std::string& source = "int x;\n") {
  Candidate candidate;
  candidate.problem_id = "p_1";
  candidate.target = "cpu";
  candidate.source = source;
  candidate.flags = {"-O3"};
  candidate.tunables = {{"block", "8"}};
  candidate.parent_candidate_id = "k_parent";
  candidate.origin = "template";
  candidate.name = "mine";
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

TEST_CASE("A candidate is sent whole until the peer has it, then by its id") {
  const Candidate candidate = MakeCandidate();
  SentCandidates sent;
  ReceivedCandidates received;
  const v1::Candidate whole = sent.Write(candidate);
  CHECK(whole.source() == candidate.source);
  CHECK(sent.Write(candidate).source() == candidate.source);
  REQUIRE(received.Read(whole).ok());
  sent.Add(candidate);

  const v1::Candidate named = sent.Write(candidate);
  CHECK(named.source().empty());
  CHECK(named.flags().empty());
  CHECK(named.tunables().empty());
  const auto read = received.Read(named);
  REQUIRE(read.ok());
  CHECK(ToProto(**read).SerializeAsString() == ToProto(candidate).SerializeAsString());

  SECTION("The same content may have another name") {
    Candidate other = candidate;
    other.name = "yours";
    other.parent_candidate_id.clear();
    const auto again = received.Read(sent.Write(other));
    REQUIRE(again.ok());
    CHECK(ToProto(**again).SerializeAsString() == ToProto(other).SerializeAsString());
    CHECK((*received.Read(named))->name == "mine");
    other.name = std::string(300, 'x');
    CHECK(absl::IsInvalidArgument(received.Read(sent.Write(other)).status()));
  }
  SECTION("A receiver that does not know the id says so") {
    ReceivedCandidates restarted;
    CHECK(absl::IsNotFound(restarted.Read(named).status()));
    sent.Remove(candidate);
    CHECK(restarted.Read(sent.Write(candidate)).ok());
    CHECK(restarted.Read(named).ok());
  }
  SECTION("Nothing is known of a new process") {
    sent.Clear();
    CHECK(sent.Write(candidate).source() == candidate.source);
  }
}

TEST_CASE("A candidate without an id gets one and is always sent whole") {
  Candidate candidate = MakeCandidate();
  const std::string id = std::exchange(candidate.candidate_id, "");
  SentCandidates sent;
  sent.Add(candidate);
  const v1::Candidate message = sent.Write(candidate);
  CHECK(message.source() == candidate.source);
  CHECK((*ReceivedCandidates().Read(message))->candidate_id == id);
}

TEST_CASE("An invalid candidate is refused and not kept") {
  ReceivedCandidates received;
  v1::Candidate message = ToProto(MakeCandidate());
  message.set_source("int y;\n");
  CHECK(absl::IsInvalidArgument(received.Read(message).status()));
  message.clear_source();
  CHECK(absl::IsNotFound(received.Read(message).status()));
  CHECK(absl::IsInvalidArgument(received.Read(v1::Candidate()).status()));
}

TEST_CASE("What a sender remembers, a receiver still has") {
  SentCandidates sent;
  ReceivedCandidates received;
  const std::string filler(kMaxReceivedBytes / 64, 'x');
  int whole = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) {
      const Candidate candidate = MakeCandidate(absl::StrCat("// ", i, filler));
      const v1::Candidate message = sent.Write(candidate);
      if (!message.source().empty()) ++whole;
      CHECK(received.Read(message).ok());
      sent.Add(candidate);
    }
  }
  // More than the sender remembers come between two uses.
  CHECK(whole == 300);
  for (int i = 99; i > 70; --i) {
    const v1::Candidate message = sent.Write(MakeCandidate(absl::StrCat("// ", i, filler)));
    CHECK(message.source().empty());
    CHECK(received.Read(message).ok());
  }
}

}  // namespace
}  // namespace kernelcast::candidate_exchange_test
