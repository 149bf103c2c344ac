#include "services/orchestrator/core/archive.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kernelcast::orchestrator {

Archive::Archive(std::string reference_id, ArchiveLimits limits)
    : reference_id_(std::move(reference_id)), limits_(limits) {
  nodes_.emplace_back().attempt.candidate.candidate_id = reference_id_;
}

Archive::Node* Archive::FindNode(std::string_view candidate_id) {
  const auto found = std::ranges::find_if(nodes_, [&](const Node& node) {
    return node.attempt.candidate.candidate_id == candidate_id;
  });
  return found == nodes_.end() ? nullptr : &*found;
}

void Archive::Add(Attempt attempt, uint64_t batch) {
  const std::string parent_id = attempt.candidate.parent_candidate_id;
  if (attempt.speedup <= 0) {
    setbacks_.push_back(std::move(attempt));
    if (setbacks_.size() > kMaxSetbacks) setbacks_.pop_front();
    return;
  }
  const double reward = std::log2(attempt.speedup);
  if (Node* known = FindNode(attempt.candidate.candidate_id)) {
    // Measured again: the newer result replaces the older.
    known->reward = reward;
    known->attempt = std::move(attempt);
    return;
  }
  if (Node* parent = FindNode(parent_id)) {
    parent->best_child = parent->has_children ? std::max(parent->best_child, reward) : reward;
    parent->has_children = true;
  }
  Node& node = nodes_.emplace_back();
  node.reward = reward;
  node.batch = batch;
  node.attempt = std::move(attempt);
  Trim(parent_id);
}

void Archive::Trim(const std::string& parent_id) {
  const auto drop_worst = [this](auto considered) {
    auto worst = nodes_.end();
    for (auto node = nodes_.begin() + 1; node != nodes_.end(); ++node) {
      if (considered(*node) && (worst == nodes_.end() || node->reward < worst->reward)) {
        worst = node;
      }
    }
    nodes_.erase(worst);
  };
  const auto is_sibling = [&](const Node& node) {
    return node.attempt.candidate.parent_candidate_id == parent_id;
  };
  if (std::count_if(nodes_.begin() + 1, nodes_.end(), is_sibling) >
      static_cast<std::ptrdiff_t>(limits_.children)) {
    drop_worst(is_sibling);
  }
  if (nodes_.size() > limits_.parents) drop_worst([](const Node&) { return true; });
}

void Archive::Expand(std::string_view parent_id) {
  ++expansions_;
  if (Node* parent = FindNode(parent_id)) ++parent->expansions;
}

std::vector<const Archive::Node*> Archive::BestFirst() const {
  std::vector<const Node*> order;
  for (const Node& node : nodes_) order.push_back(&node);
  std::ranges::stable_sort(order,
                           [](const Node* a, const Node* b) { return a->reward > b->reward; });
  return order;
}

const Attempt* Archive::Find(std::string_view candidate_id) const {
  for (size_t i = 1; i < nodes_.size(); ++i) {
    if (nodes_[i].attempt.candidate.candidate_id == candidate_id) return &nodes_[i].attempt;
  }
  return nullptr;
}

const Attempt* Archive::Best() const {
  const auto best =
      std::max_element(nodes_.begin() + 1, nodes_.end(),
                       [](const Node& a, const Node& b) { return a.reward < b.reward; });
  return best == nodes_.end() ? nullptr : &best->attempt;
}

uint64_t Archive::Children(std::string_view parent_id) const {
  const auto is_child = [&](const Node& node) {
    return node.attempt.candidate.parent_candidate_id == parent_id;
  };
  return static_cast<uint64_t>(std::count_if(nodes_.begin() + 1, nodes_.end(), is_child));
}

std::vector<Attempt> Archive::Setbacks(std::string_view parent_id, size_t count) const {
  std::vector<Attempt> chosen;
  for (const bool siblings : {true, false}) {
    for (auto setback = setbacks_.rbegin(); setback != setbacks_.rend(); ++setback) {
      if (chosen.size() >= count) return chosen;
      if ((setback->candidate.parent_candidate_id == parent_id) == siblings) {
        chosen.push_back(*setback);
      }
    }
  }
  return chosen;
}

std::string Archive::Digest() const {
  std::string text =
      absl::StrCat("  archive of ", reference_id_, " expansions ", expansions_, "\n");
  for (const Node& node : nodes_) {
    absl::StrAppend(&text, "   ", node.attempt.candidate.candidate_id, " ", node.reward, " ",
                    node.batch, " ", node.expansions, " ",
                    node.has_children ? node.best_child : -99, "\n");
  }
  for (const Attempt& setback : setbacks_) {
    absl::StrAppend(&text, "   setback ", setback.candidate.candidate_id, " ",
                    setback.failure ? static_cast<int>(*setback.failure) : 0, "\n");
  }
  return text;
}

ArchiveEntry EntryOf(const Archive& archive, const Archive::Node& node, std::string place,
                     uint64_t kernels) {
  ArchiveEntry entry;
  entry.place = std::move(place);
  entry.candidate_id = node.id();
  entry.name = node.attempt.candidate.name;
  entry.origin = node.id() == archive.reference_id() ? "reference" : node.attempt.candidate.origin;
  entry.speedup = std::exp2(node.reward);
  entry.kernels = kernels;
  entry.expansions = node.expansions;
  entry.value = std::exp2(node.has_children ? node.best_child : node.reward);
  return entry;
}

}  // namespace kernelcast::orchestrator
