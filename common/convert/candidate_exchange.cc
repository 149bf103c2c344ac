#include "common/convert/candidate_exchange.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

// The approximate size of a candidate without its source.
constexpr size_t kOtherBytes = 512;

size_t BytesOf(const Candidate& candidate) { return candidate.source.size() + kOtherBytes; }

}  // namespace

absl::StatusOr<std::shared_ptr<const Candidate>> ReceivedCandidates::Read(
    const v1::Candidate& message) {
  if (!message.source().empty() || message.candidate_id().empty()) {
    KC_ASSIGN_OR_RETURN(Candidate candidate, FromProto(message));
    KC_RETURN_IF_ERROR(ValidateCandidate(candidate));
    if (candidate.candidate_id.empty()) candidate.candidate_id = CandidateId(candidate);
    auto whole = std::make_shared<const Candidate>(std::move(candidate));
    received_.Put(whole->candidate_id, whole, BytesOf(*whole));
    return whole;
  }
  auto known = received_.Find(message.candidate_id());
  if (known == nullptr) {
    return absl::NotFoundError(absl::StrCat("candidate_id: ", Quoted(message.candidate_id()),
                                            " is unknown; send the whole candidate"));
  }
  if (known->parent_candidate_id == message.parent_candidate_id() &&
      known->origin == message.origin() && known->name == message.name()) {
    return known;
  }
  // The same content under another name.
  Candidate named = *known;
  named.parent_candidate_id = message.parent_candidate_id();
  named.origin = message.origin();
  named.name = message.name();
  KC_RETURN_IF_ERROR(ValidateCandidate(named));
  return std::make_shared<const Candidate>(std::move(named));
}

v1::Candidate SentCandidates::Write(const Candidate& candidate) {
  if (candidate.candidate_id.empty() || !sent_.Contains(candidate.candidate_id)) {
    return ToProto(candidate);
  }
  Candidate named;
  named.candidate_id = candidate.candidate_id;
  named.problem_id = candidate.problem_id;
  named.target = candidate.target;
  named.kind = CandidateKind::kUnspecified;
  named.parent_candidate_id = candidate.parent_candidate_id;
  named.origin = candidate.origin;
  named.name = candidate.name;
  return ToProto(named);
}

void SentCandidates::Add(const Candidate& candidate) {
  if (candidate.candidate_id.empty()) return;
  sent_.Put(candidate.candidate_id, nullptr, BytesOf(candidate));
}

}  // namespace kernelcast
