// The state as text.

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

std::string State::Digest() const {
  std::string text = absl::StrCat("sequence ", last_sequence_, "\n");
  for (const auto& [id, problem] : problems_) absl::StrAppend(&text, "problem ", id, "\n");
  for (const auto& [key, reference] : references_) {
    absl::StrAppend(&text, "reference ", std::get<0>(key), " ", std::get<1>(key), " on ",
                    std::get<2>(key), " ", reference.facts.values.size(), " ", reference.toolchain,
                    "\n");
  }
  for (const std::string& id : EvaluationIds()) {
    const Evaluation& e = evaluations_.at(id);
    absl::StrAppend(
        &text, "evaluation ", id, " search ", e.search_id, " candidate ", e.candidate.candidate_id,
        " stage ", static_cast<int>(e.stage), " mode ", static_cast<int>(e.mode), " facts ",
        e.facts.values.size(), " forecast ", e.forecast ? e.forecast->expected_log2_speedup : -99,
        " after ", e.labels_at_first_forecast, " and ", e.labels_at_forecast, " labels decision ",
        e.decision ? static_cast<int>(e.decision->reason) : -1, " reconsidered ", e.reconsidered,
        " on ", e.device_model, " measured by ", e.measured_by, " duplicate of ", e.duplicate_of,
        " over ", e.over_budget, e.compile_error ? " does not compile" : "", " repeats ", e.repeats,
        " in ", e.unstable_time.device_time_ns, "\n");
  }
  for (const auto& [key, history] : histories_) {
    absl::StrAppend(&text, "history ", std::get<0>(key), " ", std::get<1>(key), " on ",
                    std::get<2>(key), " ", history.Digest(), "\n");
  }
  for (const auto& [id, s] : searches_) {
    const SearchCounts& c = s.counts;
    absl::StrAppend(&text, "search ", id, " on ", s.device_model, s.stopped ? " stopped" : "",
                    " models ", c.model_use.asked, "/", c.model_use.used, " status ",
                    static_cast<int>(s.status), " reason '", s.end_reason, "' last ",
                    s.last_sequence, " in flight ", s.in_flight, " measuring ", s.measuring,
                    " counts");
    for (uint64_t count :
         {c.proposed,       c.considered, c.live,     c.measured,     c.bootstrap,
          c.selected,       c.deferred,   c.promoted, c.audited,      c.requested,
          c.unforecast,     c.pruned,     c.rejected, c.failures,     c.unstable,
          c.compile_errors, c.duplicates, c.reused,   c.measurements, c.confirmations}) {
      absl::StrAppend(&text, " ", count);
    }
    absl::StrAppend(&text, " device ", c.device_time_spent_ns, " ", c.device_time_preparing_ns, " ",
                    c.device_time_confirming_ns, " ", c.device_time_avoided_ns, " incumbent ",
                    s.incumbent ? s.incumbent->request_id : "-", " confirmed ",
                    s.confirmed ? s.confirmed->request_id : "-", " ", s.routes.Digest(), "\n");
    if (const TokenUsage& unpriced = c.unpriced_tokens; unpriced != TokenUsage()) {
      absl::StrAppend(&text, "  unpriced ", unpriced.input_tokens, " ",
                      unpriced.cached_input_tokens, " ", unpriced.output_tokens, "\n");
    }
    if (s.final_archive) {
      absl::StrAppend(&text, "  archive at the end: ", s.final_archive->total, "\n");
      for (const ArchiveEntry& entry : s.final_archive->entries) {
        absl::StrAppend(&text, "   ", entry.place, " ", entry.candidate_id, " ", entry.speedup, " ",
                        entry.kernels, " ", entry.children, " ", entry.expansions, " ", entry.value,
                        "\n");
      }
    }
    if (const GenerationCounts& g = c.generation; g.requested > 0) {
      text += "  generation";
      for (uint64_t count : {g.requested, g.written, g.duplicates, g.unusable, g.unanswered,
                             g.given_up, g.advised, g.input_tokens, g.output_tokens}) {
        absl::StrAppend(&text, " ", count);
      }
      for (const auto& [fault, answers] : g.unusable_kinds) {
        absl::StrAppend(&text, " ", fault, " ", answers.count);
      }
      for (const auto& [repair, count] : g.repairs) {
        absl::StrAppend(&text, " ", repair, " ", count);
      }
      absl::StrAppend(&text, " cost ", g.cost, "\n");
    }
    if (s.generation != nullptr) {
      const Generation& g = *s.generation;
      absl::StrAppend(&text, "  known ", g.known.size(), " useless ", g.useless_answers,
                      " reasons ", g.reasons.size(), " outages ", g.outages, " since ",
                      g.outages > 0 ? g.away_since_ns : 0, " written ", g.written.size(), "\n");
      for (const auto& [number, request] : g.in_flight) {
        absl::StrAppend(&text, "  writing ", number, " from ", request.parent_candidate_id,
                        request.advice ? absl::StrCat(" advised ", *request.advice) : "", "\n");
      }
    }
    if (s.archive != nullptr) {
      absl::StrAppend(&text, s.archive->Digest(), s.batches.Digest());
    }
    for (const auto& [candidate_id, h] : s.history) {
      absl::StrAppend(&text, "  ", candidate_id, " ", static_cast<int>(h.standing), " ",
                      h.request_id, " ", h.facts.values.size(), " ", h.speedup,
                      h.selected_after ? absl::StrCat(" selected after ", *h.selected_after) : "",
                      h.turn ? absl::StrCat(" turn ", *h.turn) : "",
                      h.source != nullptr ? " with source" : "", "\n");
    }
    for (const Screened& leader : s.leaders) {
      absl::StrAppend(&text, "  leader ", leader.candidate_id, " ", leader.speedup.value,
                      leader.behind ? " behind" : "", "\n");
    }
    for (const FinalMeasurement& one : s.finals) {
      absl::StrAppend(&text, "  final ", one.request_id, " of ", one.candidate_id, " ", one.settled,
                      " ", one.speedup ? one.speedup->value : 0, " ", one.failed, "\n");
    }
    for (const FinalMeasurement& one : s.gates) {
      absl::StrAppend(&text, "  held out ", one.request_id, " of ", one.candidate_id, " ",
                      one.settled, " ", one.speedup ? one.speedup->value : 0, " ", one.failed, " ",
                      one.outcome, "\n");
    }
    for (const Finalist& one : s.finalists) {
      absl::StrAppend(&text, "  finalist ", one.candidate_id, " ", one.speedup.value, " ",
                      one.measurements, " ", one.tied, " ", one.failed, " gate ",
                      static_cast<int>(one.gate), " ",
                      one.held_out ? one.held_out->request_id : "-", "\n");
    }
    if (s.generator != nullptr) {
      const auto next = s.generator->Next();
      absl::StrAppend(&text, "  proposed ", s.generator->proposed(), " next ",
                      next ? next->candidate_id : "-", " selection ", s.selection,
                      " looked further ", s.looked_further, "\n");
      const Rankings& r = s.rankings;
      absl::StrAppend(&text, "  ranked with labels ", r.labels_seen, " at ", r.labels_made,
                      r.learns ? " learns" : "", " chosen ", r.chosen, " nothing left ",
                      r.nothing_left_after ? absl::StrCat("after ", *r.nothing_left_after,
                                                          " among ", r.nothing_left_among)
                                           : "-",
                      " labels ", s.labels, " until ", s.measured_ns, "\n");
    }
  }
  for (const auto& [id, label] : pending_labels_) absl::StrAppend(&text, "label ", id, "\n");
  return text;
}

std::string State::DigestHash() const { return ContentHasher().Add(Digest()).Hex128(); }

}  // namespace kernelcast::orchestrator
