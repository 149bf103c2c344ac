#include "common/convert/convert_lesson.h"

namespace kernelcast {

v1::Lesson ToProto(const Lesson& lesson) {
  v1::Lesson message;
  message.set_family(lesson.family);
  message.set_target(lesson.target);
  message.set_device_model(lesson.device_model);
  message.set_bottleneck(lesson.bottleneck);
  message.set_aspect(lesson.aspect);
  message.set_from(lesson.from);
  message.set_to(lesson.to);
  message.set_trials(lesson.trials);
  message.set_held(lesson.held);
  message.set_mean_log2_gain(lesson.mean_log2_gain);
  message.set_stddev_log2_gain(lesson.stddev_log2_gain);
  message.set_searches(lesson.searches);
  message.set_text(lesson.text);
  return message;
}

Lesson FromProto(const v1::Lesson& message) {
  Lesson lesson;
  lesson.family = message.family();
  lesson.target = message.target();
  lesson.device_model = message.device_model();
  lesson.bottleneck = message.bottleneck();
  lesson.aspect = message.aspect();
  lesson.from = message.from();
  lesson.to = message.to();
  lesson.trials = message.trials();
  lesson.held = message.held();
  lesson.mean_log2_gain = message.mean_log2_gain();
  lesson.stddev_log2_gain = message.stddev_log2_gain();
  lesson.searches = message.searches();
  lesson.text = message.text();
  return lesson;
}

}  // namespace kernelcast
