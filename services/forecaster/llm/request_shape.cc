#include "services/forecaster/llm/request_shape.h"

#include "services/forecaster/core/answer_parser.h"

namespace kernelcast::forecaster {

std::vector<llm::ChatMessage> MessagesOf(const RenderedPrompt& prompt) {
  return {{"system", prompt.system}, {"user", prompt.user}};
}

llm::ResponseShape ShapeAt(Rung rung, const BinScheme& scheme, AnswerForm form, bool may_defer) {
  llm::ResponseShape shape;
  shape.tag = static_cast<int>(rung);
  switch (rung) {
    case Rung::kJsonSchema:
      shape.response_format = OrderedJson{{"type", "json_schema"},
                                          {"json_schema",
                                           {{"name", kSubmitToolName},
                                            {"strict", true},
                                            {"schema", AnswerSchema(scheme, form, may_defer)}}}}
                                  .dump();
      break;
    case Rung::kToolsNamed:
      shape.tools = OrderedJson::array({SubmitTool(scheme, form, may_defer)}).dump();
      shape.tool_choice =
          OrderedJson{{"type", "function"}, {"function", {{"name", kSubmitToolName}}}}.dump();
      break;
    case Rung::kToolsAuto: {
      OrderedJson tools = OrderedJson::array({SubmitTool(scheme, form, /*may_defer=*/false)});
      if (may_defer) tools.push_back(DeferTool());
      shape.tools = tools.dump();
      shape.tool_choice = "\"auto\"";
      break;
    }
    case Rung::kText: break;
  }
  return shape;
}

RequestShapes::RequestShapes(AnswerForm form, bool may_defer) {
  for (const BinScheme* scheme : BinScheme::All()) {
    auto& shapes = by_scheme_[scheme->id()];
    for (const Rung rung : kRungs) {
      shapes[static_cast<size_t>(rung)] = ShapeAt(rung, *scheme, form, may_defer);
    }
  }
}

const llm::ResponseShape& RequestShapes::At(Rung rung, const BinScheme& scheme) const {
  return by_scheme_.at(scheme.id())[static_cast<size_t>(rung)];
}

}  // namespace kernelcast::forecaster
