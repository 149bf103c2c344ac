#ifndef KERNELCAST_SERVICES_FORECASTER_POOL_ANSWER_VALUE_H_
#define KERNELCAST_SERVICES_FORECASTER_POOL_ANSWER_VALUE_H_

#include <cstdint>

namespace kernelcast::forecaster {

struct AnswerValueOptions {
  // Factor by which what was learnt decays with each answer or label: about 1 / (1 - discount)
  // matter.
  double discount = 0.95;
  // Estimate before the first answers and labels, and the number of them that it weighs.
  double first_share = 0.5;  // of questions that get a forecast
  double first_gain_nats = 0.1;
  double first_weight = 4;
  // How long a measurement takes, until labels tell.
  int64_t first_interval_ns = 3'000'000'000;
  // Gains below this are not worth a question.
  double least_gain_nats = 0.01;
  // After this many questions that were not worth asking, one is asked to find out whether that has
  // changed.
  int probe_every = 32;
  // Questions in flight to a model that has not answered yet, and to one whose answers take longer
  // than slow_ns and have not been seen to gain anything.
  int first_in_flight = 4;
  int slow_in_flight = 2;
  int64_t slow_ns = 1'000'000'000;
  // Labels after which a gain has been seen.
  double least_labels = 4;
  // Price of an hour of the device, to compare the price of an answer with that of a measurement.
  double dollars_per_device_hour = 3;
};

// Value and cost of a model's answers, learnt from the model's answers and from
// labels.
//
// A measurement tells all about a candidate: it removes the entropy H of the cheap forecast. An
// answer of the model removes g nats on average, by which the score of labels rises when the model
// takes part, and comes as a forecast for a share s of the questions. So it is worth
//
//   V = T s g / H        T: wall time of the problem's labels, one after another
//
// seconds of measuring. It may take that long, less the seconds of measuring that its price would
// buy. Longer waits lose more measurements than the answer replaces.
//
// Pure. Not thread-safe.
class AnswerValue {
 public:
  AnswerValue() : AnswerValue(AnswerValueOptions()) {}
  explicit AnswerValue(AnswerValueOptions options)
      : options_(options), interval_ns_(static_cast<double>(options.first_interval_ns)) {}

  // A question was sent or ended. `is_forecast`: with a readable forecast. `sent_ns`: when it was
  // sent.
  void Sent(int64_t now_ns);
  void Ended(bool is_forecast, int64_t sent_ns, int64_t now_ns, double cost_dollars);
  // A label has scored the forecast with the model by `gain_nats` better than the one without.
  void Scored(double gain_nats);
  // Labels of running searches arrive.
  void Labelled(int64_t now_ns);

  // Whether to ask about a candidate now. Counts what it refuses.
  bool IsWorthAsking(double entropy_nats, int64_t now_ns);
  // How long to wait for the answer. 0: not at all, because answers take longer than that.
  int64_t PatienceNs(double entropy_nats, int64_t now_ns) const;

  double gain_nats() const;
  double share() const;

 private:
  // V - cost, in nanoseconds.
  double ValueNs(double entropy_nats) const;
  // How long an answer takes, at least.
  double LatencyNs(int64_t now_ns) const;
  bool HasRoom(int64_t now_ns) const;

  const AnswerValueOptions options_;
  // Decayed sums and weights.
  double answers_ = 0;
  double forecasts_ = 0;
  double latency_ns_ = 0;
  double cost_dollars_ = 0;
  double labels_ = 0;
  double gain_nats_ = 0;
  double intervals_ = 0;
  double interval_ns_;
  int64_t last_label_ns_ = 0;

  int in_flight_ = 0;
  int64_t oldest_ns_ = 0;  // when the oldest question in flight was sent, at the latest
  int refused_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_POOL_ANSWER_VALUE_H_
