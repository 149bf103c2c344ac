#include "common/domain/candidate_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

using Json = nlohmann::ordered_json;

// Reads fields of one JSON object. Stops at the first error.
class Fields {
 public:
  Fields(std::string where, const Json& object, std::string path = "")
      : where_(std::move(where)), path_(std::move(path)), object_(object) {}

  absl::Status Error(std::string_view field, std::string_view what) const {
    const std::string full = field.empty()   ? path_
                             : path_.empty() ? std::string(field)
                                             : absl::StrCat(path_, ".", std::string(field));
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ": ", full, full.empty() ? "" : ": ", std::string(what)));
  }

  absl::Status CheckKeys(const std::vector<std::string>& allowed) const {
    if (!object_.is_object()) {
      return Error("", absl::StrCat("expected an object {...}, found ", object_.type_name()));
    }
    for (const auto& [key, value] : object_.items()) {
      if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
      const std::string near = NearestWord(key, allowed);
      return Error(key, absl::StrCat("unknown field; ",
                                     near.empty() ? absl::StrCat("allowed are ", CommaList(allowed))
                                                  : absl::StrCat("did you mean '", near, "'?")));
    }
    return absl::OkStatus();
  }

  const Json* Find(std::string_view field) const {
    const auto found = object_.find(std::string(field));
    return found == object_.end() ? nullptr : &*found;
  }

  absl::StatusOr<std::string> Text(std::string_view field) const {
    const Json* value = Find(field);
    if (value == nullptr) return std::string();
    if (!value->is_string()) {
      return Error(field, absl::StrCat("expected a string, found ", Shown(*value)));
    }
    return value->get<std::string>();
  }

  // An integer is accepted as an expression.
  absl::StatusOr<std::string> ExpressionText(std::string_view field) const {
    const Json* value = Find(field);
    if (value != nullptr && value->is_number_integer()) return value->dump();
    return Text(field);
  }

  absl::StatusOr<std::vector<std::string>> Texts(std::string_view field) const {
    std::vector<std::string> texts;
    const Json* value = Find(field);
    if (value == nullptr) return texts;
    if (!value->is_array()) {
      return Error(field, absl::StrCat("expected a list of strings, found ", Shown(*value)));
    }
    for (size_t i = 0; i < value->size(); ++i) {
      const Json& entry = (*value)[i];
      const std::string name = absl::StrCat(std::string(field), "[", i, "]");
      if (entry.is_number_integer()) {
        texts.push_back(entry.dump());
        continue;
      }
      if (!entry.is_string()) {
        return Error(name, absl::StrCat("expected a string, found ", Shown(entry)));
      }
      texts.push_back(entry.get<std::string>());
    }
    return texts;
  }

  // A whole number from 1 to `most`. 0: absent.
  absl::StatusOr<int32_t> Count(std::string_view field, int32_t most) const {
    const Json* value = Find(field);
    if (value == nullptr) return 0;
    if (value->is_number_integer() && *value >= 1 && *value <= most) return value->get<int32_t>();
    return Error(field, absl::StrCat(Shown(*value), " is not a whole number from 1 to ", most));
  }

  absl::StatusOr<std::vector<Constexpr>> Constexprs(std::string_view field) const {
    std::vector<Constexpr> constexprs;
    const Json* object = Find(field);
    if (object == nullptr) return constexprs;
    if (!object->is_object()) {
      return Error(field, absl::StrCat("expected an object such as {\"BLOCK\": 1024}, found ",
                                       Shown(*object)));
    }
    for (const auto& [name, value] : object->items()) {
      if (value.is_string()) {
        constexprs.push_back({name, value.get<std::string>()});
      } else if (value.is_number() || value.is_boolean()) {
        constexprs.push_back({name, value.dump()});
      } else if (value.is_null()) {
        constexprs.push_back({name, "none"});
      } else {
        return Error(absl::StrCat(std::string(field), ".", name),
                     absl::StrCat(Shown(value), " is not a number, a boolean or a string"));
      }
    }
    return constexprs;
  }

  static std::string Shown(const Json& value) {
    return Quoted(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  std::string where_;
  std::string path_;
  const Json& object_;
};

absl::Status ApplyTunables(const Fields& fields, Candidate& candidate) {
  const Json* tunables = fields.Find("tunables");
  if (tunables == nullptr) return absl::OkStatus();
  if (!tunables->is_object()) {
    return fields.Error("tunables",
                        absl::StrCat("expected an object such as {\"UNROLL\": 4}, found ",
                                     Fields::Shown(*tunables)));
  }
  for (const auto& [name, value] : tunables->items()) {
    const std::string field = absl::StrCat("tunables.", name);
    if (!IsIdentifier(name)) {
      return fields.Error("tunables", absl::StrCat(Quoted(name), " is not an identifier"));
    }
    std::string text;
    if (value.is_number_integer()) {
      text = value.dump();
    } else if (value.is_string()) {
      text = value.get<std::string>();
    }
    if (!IsDecimalInteger(text) && !IsIdentifier(text)) {
      return fields.Error(
          field, absl::StrCat(Fields::Shown(value), " is neither an integer nor an identifier"));
    }
    candidate.tunables.push_back({name, text});
  }
  return absl::OkStatus();
}

absl::Status ApplyLaunches(const std::string& where, const Fields& fields, Candidate& candidate) {
  const Json* launches = fields.Find("launches");
  if (launches == nullptr) return absl::OkStatus();
  if (!launches->is_array()) {
    return fields.Error(
        "launches", absl::StrCat("expected a list of objects, found ", Fields::Shown(*launches)));
  }
  for (size_t i = 0; i < launches->size(); ++i) {
    const Fields entry(where, (*launches)[i], absl::StrCat("launches[", i, "]"));
    KC_RETURN_IF_ERROR(
        entry.CheckKeys({"kernel", "grid", "block", "shared_memory_bytes", "arguments", "cluster",
                         "when", "constexprs", "num_warps", "num_stages"}));
    Launch launch;
    KC_ASSIGN_OR_RETURN(launch.kernel, entry.Text("kernel"));
    KC_ASSIGN_OR_RETURN(launch.grid, entry.Texts("grid"));
    KC_ASSIGN_OR_RETURN(launch.block, entry.Texts("block"));
    KC_ASSIGN_OR_RETURN(launch.shared_memory_bytes, entry.ExpressionText("shared_memory_bytes"));
    KC_ASSIGN_OR_RETURN(launch.arguments, entry.Texts("arguments"));
    KC_ASSIGN_OR_RETURN(launch.cluster, entry.Texts("cluster"));
    KC_ASSIGN_OR_RETURN(launch.when, entry.ExpressionText("when"));
    KC_ASSIGN_OR_RETURN(launch.constexprs, entry.Constexprs("constexprs"));
    KC_ASSIGN_OR_RETURN(launch.num_warps, entry.Count("num_warps", kMaxNumWarps));
    KC_ASSIGN_OR_RETURN(launch.num_stages, entry.Count("num_stages", kMaxNumStages));
    if (launch.kernel.empty()) return entry.Error("kernel", "is missing");
    candidate.launches.push_back(std::move(launch));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Json> ParseCandidateJson(const std::string& where, std::string_view text,
                                        bool with_line) {
  try {
    JsonDepthLimit limit;
    Json object = Json::parse(text, limit.Callback<Json>());
    if (!limit.exceeded()) return object;
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": values within values, more than ", kMaxJsonDepth, " deep"));
  } catch (const Json::parse_error& error) {
    const size_t offset = std::min<size_t>(error.byte == 0 ? 0 : error.byte - 1, text.size());
    const std::string_view before = text.substr(0, offset);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t line_start = before.rfind('\n');
    const size_t column = offset - (line_start == std::string_view::npos ? 0 : line_start + 1) + 1;
    // The message has the form "[json.exception...] parse error at line 1, column 2: syntax error
    // while ...". Keep only the reason.
    std::string what = error.what();
    if (const size_t reason = what.find(": "); reason != std::string::npos) {
      what = what.substr(reason + 2);
    }
    const std::string position = with_line ? absl::StrCat(line, ":", column) : absl::StrCat(column);
    return absl::InvalidArgumentError(
        absl::StrCat(where, ":", position, ": not JSON: ", Quoted(what, 200)));
  } catch (const Json::exception&) {
    // The parser's other error, which has no position.
    const JsonNumberError error = FindNumberTooLarge<Json>(text);
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": ", error.field.empty() ? "" : Quoted(error.field),
        error.field.empty() ? "" : ": ", Quoted(error.number), " is too large for any number"));
  }
}

absl::Status ApplyCandidateFields(const std::string& where, const Json& object,
                                  const std::vector<std::string>& more_keys, Candidate& candidate) {
  const Fields fields(where, object);
  std::vector<std::string> allowed = more_keys;
  allowed.insert(allowed.end(), {"target", "kind", "flags", "tunables", "parent", "origin",
                                 "launches", "workspace_bytes"});
  KC_RETURN_IF_ERROR(fields.CheckKeys(allowed));

  KC_ASSIGN_OR_RETURN(const std::string target, fields.Text("target"));
  if (!target.empty()) candidate.target = target;
  KC_ASSIGN_OR_RETURN(const std::string kind, fields.Text("kind"));
  if (fields.Find("kind") != nullptr) {
    const std::optional<CandidateKind> found = FindKind(kind);
    if (!found) {
      return fields.Error("kind",
                          absl::StrCat(Quoted(kind), " is not one of ", CommaList(KindNames())));
    }
    candidate.kind = *found;
  }
  KC_ASSIGN_OR_RETURN(candidate.flags, fields.Texts("flags"));
  for (size_t i = 0; i < candidate.flags.size(); ++i) {
    if (!IsFlagShaped(candidate.flags[i])) {
      return fields.Error(absl::StrCat("flags[", i, "]"),
                          absl::StrCat(Quoted(candidate.flags[i]),
                                       " is not one compiler flag such as \"-ffast-math\""));
    }
  }
  KC_RETURN_IF_ERROR(ApplyTunables(fields, candidate));
  KC_ASSIGN_OR_RETURN(candidate.parent_candidate_id, fields.Text("parent"));
  KC_ASSIGN_OR_RETURN(const std::string origin, fields.Text("origin"));
  if (!origin.empty()) candidate.origin = origin;
  KC_RETURN_IF_ERROR(ApplyLaunches(where, fields, candidate));
  KC_ASSIGN_OR_RETURN(candidate.workspace_bytes, fields.ExpressionText("workspace_bytes"));
  // Code with launches has no host entry.
  const KindInfo& info = KindInfoOf(candidate.kind);
  if (fields.Find("kind") == nullptr && !info.has_launches() && !candidate.launches.empty()) {
    candidate.kind = KindOfSource(info.is_python, /*has_launches=*/true);
  }
  return absl::OkStatus();
}

}  // namespace kernelcast
