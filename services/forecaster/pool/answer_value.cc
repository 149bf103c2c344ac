#include "services/forecaster/pool/answer_value.h"

#include <algorithm>

namespace kernelcast::forecaster {
namespace {

constexpr double kHourNs = 3600e9;
// A candidate whose forecast is nearly certain is worth no more than this makes it.
constexpr double kLeastEntropyNats = 0.1;
// A longer pause is no measurement.
constexpr int64_t kLongestIntervalNs = 600'000'000'000;

}  // namespace

double AnswerValue::share() const {
  return (options_.first_weight * options_.first_share + forecasts_) /
         (options_.first_weight + answers_);
}

double AnswerValue::gain_nats() const {
  const double gain = (options_.first_weight * options_.first_gain_nats + gain_nats_) /
                      (options_.first_weight + labels_);
  return std::max(0.0, gain);
}

void AnswerValue::Sent(int64_t now_ns) {
  if (in_flight_++ == 0) oldest_ns_ = now_ns;
}

void AnswerValue::Ended(bool is_forecast, int64_t sent_ns, int64_t now_ns, double cost_dollars) {
  answers_ = options_.discount * answers_ + 1;
  cost_dollars_ = options_.discount * cost_dollars_ + cost_dollars;
  forecasts_ = options_.discount * forecasts_ + (is_forecast ? 1 : 0);
  latency_ns_ += (static_cast<double>(now_ns - sent_ns) - latency_ns_) / answers_;
  // The next oldest is not known. It was sent after this one.
  if (--in_flight_ > 0) oldest_ns_ = std::max(oldest_ns_, sent_ns);
}

void AnswerValue::Scored(double gain_nats) {
  labels_ = options_.discount * labels_ + 1;
  gain_nats_ = options_.discount * gain_nats_ + gain_nats;
}

void AnswerValue::Labelled(int64_t now_ns) {
  const int64_t interval_ns = now_ns - last_label_ns_;
  const bool first = last_label_ns_ == 0;
  last_label_ns_ = now_ns;
  if (first || interval_ns > kLongestIntervalNs) return;
  intervals_ = options_.discount * intervals_ + 1;
  interval_ns_ += (static_cast<double>(interval_ns) - interval_ns_) / intervals_;
}

double AnswerValue::ValueNs(double entropy_nats) const {
  const double told = std::min(1.0, gain_nats() / std::max(entropy_nats, kLeastEntropyNats));
  const double cost_ns =
      answers_ > 0 ? cost_dollars_ / answers_ / options_.dollars_per_device_hour * kHourNs : 0;
  return interval_ns_ * share() * told - cost_ns;
}

double AnswerValue::LatencyNs(int64_t now_ns) const {
  const double open_ns = in_flight_ > 0 ? static_cast<double>(now_ns - oldest_ns_) : 0;
  return std::max(latency_ns_, open_ns);
}

bool AnswerValue::IsWorthAsking(double entropy_nats, int64_t now_ns) {
  const bool gains = gain_nats() * share() >= options_.least_gain_nats;
  if (gains && ValueNs(entropy_nats) > 0) return HasRoom(now_ns);
  return ++refused_ % options_.probe_every == 0 && in_flight_ == 0;
}

bool AnswerValue::HasRoom(int64_t now_ns) const {
  const bool has_gained =
      labels_ >= options_.least_labels && gain_nats() > options_.first_gain_nats;
  if (has_gained) return true;
  if (LatencyNs(now_ns) > static_cast<double>(options_.slow_ns)) {
    return in_flight_ < options_.slow_in_flight;
  }
  return answers_ > 0 || in_flight_ < options_.first_in_flight;
}

int64_t AnswerValue::PatienceNs(double entropy_nats, int64_t now_ns) const {
  const double value_ns = std::max(0.0, ValueNs(entropy_nats));
  return LatencyNs(now_ns) > value_ns ? 0 : static_cast<int64_t>(value_ns);
}

}  // namespace kernelcast::forecaster
