#include "common/domain/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

// Thrown through yaml-cpp to stop it at the first error. Never leaves this file.
struct Stop {
  int line;
  std::string what;
};

// Builds the tree from yaml-cpp's events. yaml-cpp's own node graph would expand aliases, drop
// duplicate keys and lose the positions of keys.
class TreeBuilder final : public YAML::EventHandler {
 public:
  YamlNode TakeRoot() { return std::move(root_); }
  bool has_root() const { return has_root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Attach(mark, anchor, "", YamlNode::Kind::kNull, "");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Stop{mark.line + 1, "aliases are not allowed; write the value out"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Attach(mark, anchor, tag, YamlNode::Kind::kScalar, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, anchor, tag, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, anchor, tag, YamlNode::Kind::kMapping);
  }
  void OnMapEnd() override { Close(); }

 private:
  // A container whose end has not been seen yet.
  struct Frame {
    YamlNode node;
    std::set<std::string> keys;
    // Key of the next value.
    std::string key;
    int key_line = 0;
    bool has_key = false;
  };

  void Check(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag) {
    const int line = mark.line + 1;
    if (anchor != YAML::NullAnchor) {
      throw Stop{line, "anchors are not allowed; write the value out"};
    }
    if (tag.size() > 1) {
      throw Stop{line, absl::StrCat("tag ", Quoted(tag), " is not allowed")};
    }
    if (++nodes_ > kMaxYamlNodes) {
      throw Stop{line, absl::StrCat("more than ", kMaxYamlNodes, " values")};
    }
  }

  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag,
            YamlNode::Kind kind) {
    Check(mark, anchor, tag);
    if (static_cast<int>(open_.size()) >= kMaxYamlDepth) {
      throw Stop{mark.line + 1, absl::StrCat("nested more than ", kMaxYamlDepth, " levels deep")};
    }
    if (ExpectsKey()) throw Stop{mark.line + 1, "a key must be a plain word"};
    Frame frame;
    frame.node.kind = kind;
    frame.node.line = mark.line + 1;
    open_.push_back(std::move(frame));
  }

  void Close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    Place(std::move(node));
  }

  void Attach(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag,
              YamlNode::Kind kind, const std::string& value) {
    Check(mark, anchor, tag);
    const int line = mark.line + 1;
    if (ExpectsKey()) {
      Frame& frame = open_.back();
      if (kind == YamlNode::Kind::kNull) throw Stop{line, "a key is missing before ':'"};
      if (!frame.keys.insert(value).second) {
        throw Stop{line, absl::StrCat("key ", Quoted(value), " occurs twice")};
      }
      frame.key = value;
      frame.key_line = line;
      frame.has_key = true;
      return;
    }
    YamlNode node;
    node.kind = kind;
    node.line = line;
    node.scalar = value;
    // yaml-cpp marks an unquoted null, or a missing value, with the position of the next token.
    if (kind == YamlNode::Kind::kNull && !open_.empty() && open_.back().has_key) {
      node.line = open_.back().key_line;
    }
    Place(std::move(node));
  }

  bool ExpectsKey() const {
    return !open_.empty() && open_.back().node.kind == YamlNode::Kind::kMapping &&
           !open_.back().has_key;
  }

  void Place(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      has_root_ = true;
      return;
    }
    Frame& frame = open_.back();
    if (frame.node.kind == YamlNode::Kind::kSequence) {
      frame.node.items.push_back(std::move(node));
      return;
    }
    frame.node.entries.push_back(
        {.key = std::move(frame.key), .line = frame.key_line, .value = std::move(node)});
    frame.has_key = false;
  }

  YamlNode root_;
  bool has_root_ = false;
  std::vector<Frame> open_;
  int nodes_ = 0;
};

absl::Status Error(const std::string& file, int line, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", std::max(line, 1), ": ", what));
}

int LineOf(const std::string& content, size_t offset) {
  return 1 + static_cast<int>(std::count(content.begin(), content.begin() + offset, '\n'));
}

// First line that contains a NUL or invalid UTF-8, or 0.
int FirstBadLine(const std::string& content) {
  if (const size_t nul = content.find('\0'); nul != std::string::npos) {
    return LineOf(content, nul);
  }
  if (IsValidUtf8(content)) return 0;
  int line = 1;
  for (size_t begin = 0; begin < content.size(); ++line) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    if (!IsValidUtf8(std::string_view(content).substr(begin, end - begin))) return line;
    begin = end + 1;
  }
  return line;
}

}  // namespace

const YamlNode* YamlNode::Find(std::string_view key) const {
  for (const YamlEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

absl::StatusOr<YamlNode> ParseYaml(const std::string& file, const std::string& content) {
  if (content.size() > static_cast<size_t>(kMaxYamlBytes)) {
    return Error(file, 1,
                 absl::StrCat(content.size(), " bytes; at most ", kMaxYamlBytes, " are allowed"));
  }
  if (const int line = FirstBadLine(content); line != 0) {
    return Error(file, line, "is not UTF-8 text without NUL");
  }
  TreeBuilder builder;
  try {
    // yaml-cpp does not detect an unclosed quoted scalar if the input ends in a line end.
    const size_t end = content.find_last_not_of(" \t\r\n") + 1;
    std::istringstream stream(content.substr(0, end));
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder) || !builder.has_root()) {
      return Error(file, 1, "is empty");
    }
    YamlNode root = builder.TakeRoot();
    TreeBuilder rest;
    if (parser.HandleNextDocument(rest)) {
      return Error(file, root.line, "holds more than one document");
    }
    return root;
  } catch (const Stop& stop) {
    return Error(file, stop.line, stop.what);
  } catch (const YAML::Exception& error) {
    return Error(file, error.mark.is_null() ? 1 : error.mark.line + 1, "YAML: " + error.msg);
  } catch (const std::exception& error) {
    return Error(file, 1, absl::StrCat("YAML: ", error.what()));
  }
}

}  // namespace kernelcast
