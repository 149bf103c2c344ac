#include "services/forecaster/llm/request_shape.h"

#include "services/forecaster/core/answer_parser.h"

namespace kernelcast::forecaster {

llm::ResponseShape ShapeAt(Rung rung, const BinScheme& scheme, AnswerForm form) {
  llm::ResponseShape shape;
  shape.tag = static_cast<int>(rung);
  switch (rung) {
    case Rung::kJsonSchema:
      shape.response_format =
          OrderedJson{{"type", "json_schema"},
                      {"json_schema",
                       {{"name", kSubmitToolName},
                        {"strict", true},
                        {"schema", AnswerSchema(scheme, form, /*may_defer=*/true)}}}}
              .dump();
      break;
    case Rung::kToolsNamed:
      shape.tools = OrderedJson::array({SubmitTool(scheme, form, /*may_defer=*/true)}).dump();
      shape.tool_choice =
          OrderedJson{{"type", "function"}, {"function", {{"name", kSubmitToolName}}}}.dump();
      break;
    case Rung::kToolsAuto:
      shape.tools =
          OrderedJson::array({SubmitTool(scheme, form, /*may_defer=*/false), DeferTool()}).dump();
      shape.tool_choice = "\"auto\"";
      break;
    case Rung::kText: break;
  }
  return shape;
}

RequestShapes::RequestShapes(AnswerForm form) {
  for (const BinScheme* scheme : BinScheme::All()) {
    auto& shapes = by_scheme_[scheme->id()];
    for (const Rung rung : kRungs) shapes[static_cast<size_t>(rung)] = ShapeAt(rung, *scheme, form);
  }
}

const llm::ResponseShape& RequestShapes::At(Rung rung, const BinScheme& scheme) const {
  return by_scheme_.at(scheme.id())[static_cast<size_t>(rung)];
}

}  // namespace kernelcast::forecaster
