#ifndef KERNELCAST_COMMON_BASE_BOUNDED_JSON_H_
#define KERNELCAST_COMMON_BASE_BOUNDED_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kernelcast {

// Maximum nesting depth of arrays and objects. JSON written by Kernelcast nests less than 16 deep.
inline constexpr int kMaxJsonDepth = 64;

// A callback for Json::parse that discards values nested deeper than kMaxJsonDepth. The library
// parses without recursion, but copies, compares and prints recursively, so a deeply nested value
// from outside would overflow the stack.
class JsonDepthLimit {
 public:
  bool exceeded() const { return exceeded_; }

  template <class Json>
  auto Callback() {
    return [this](int depth, typename Json::parse_event_t, Json&) {
      exceeded_ = exceeded_ || depth > kMaxJsonDepth;
      return !exceeded_;
    };
  }

 private:
  bool exceeded_ = false;
};

// Parses JSON from outside. Returns a discarded value if the text is not JSON or is nested deeper
// than kMaxJsonDepth. Never throws. All JSON must be parsed by this function or with a
// JsonDepthLimit.
template <class Json = nlohmann::json>
Json ParseBoundedJson(std::string_view text, bool ignore_comments = false) {
  JsonDepthLimit limit;
  Json value = Json::parse(text.begin(), text.end(), limit.Callback<Json>(),
                           /*allow_exceptions=*/false, ignore_comments);
  return limit.exceeded() ? Json(Json::value_t::discarded) : value;
}

// The string at `key` of an object, or "" if there is none.
template <class Json>
std::string StringAt(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->template get<std::string>() : "";
}

// A number that no type holds, such as 1e999, and the key before it.
struct JsonNumberError {
  std::string field;   // empty: there was no key
  std::string number;  // as written
};

// Finds the number because of which Json::parse refuses the text with Json::out_of_range.
template <class Json = nlohmann::json>
JsonNumberError FindNumberTooLarge(std::string_view text) {
  JsonNumberError error;
  const auto note_key = [&error](int depth, typename Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key) error.field = value.template get<std::string>();
    return depth <= kMaxJsonDepth;
  };
  try {
    const Json parsed = Json::parse(text.begin(), text.end(), note_key);
    static_cast<void>(parsed);
  } catch (const typename Json::exception& refused) {
    // "[json.exception.out_of_range.406] number overflow parsing '1e999'"
    const std::string_view what = refused.what();
    const size_t first = what.find('\'');
    const size_t last = what.rfind('\'');
    if (first < last) error.number = what.substr(first + 1, last - first - 1);
  }
  return error;
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_BOUNDED_JSON_H_
