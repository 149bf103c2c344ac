#include "services/forecaster/embedded/process_mixture.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace kernelcast::forecaster {
namespace {

// Weight of the process without novelty relative to the other, before their likelihoods count.
constexpr double kPlainOdds = 2;
constexpr double kLeastWeight = 1e-3;

SpacePosition WithoutNovelty(SpacePosition position) {
  position.width = position.plain_width;
  return position;
}

}  // namespace

ProcessMixture ProcessMixture::Fit(std::span<const SpacePosition> points,
                                   std::span<const double> values, const ProcessPrior& prior) {
  ProcessMixture mixture;
  mixture.novel_ = GaussianProcess::Fit(points, values, prior);
  if (prior.novelty > 0 && !points.empty() && std::isfinite(mixture.novel_->cost())) {
    std::vector<SpacePosition> plain;
    plain.reserve(points.size());
    std::ranges::transform(points, std::back_inserter(plain), WithoutNovelty);
    mixture.plain_ = GaussianProcess::Fit(plain, values, prior);
    mixture.novelty_weight_ =
        1 / (1 + kPlainOdds * std::exp(mixture.novel_->cost() - mixture.plain_->cost()));
  }
  if (mixture.novelty_weight_ < kLeastWeight) {
    mixture.novelty_weight_ = 0;
    mixture.novel_.reset();
  } else if (mixture.novelty_weight_ > 1 - kLeastWeight) {
    mixture.novelty_weight_ = 1;
    mixture.plain_.reset();
  }
  mixture.leave_one_out_ = (mixture.novel_ ? mixture.novel_ : mixture.plain_)->LeaveOneOut();
  if (mixture.novel_ && mixture.plain_) {
    std::ranges::transform(mixture.leave_one_out_, mixture.plain_->LeaveOneOut(),
                           mixture.leave_one_out_.begin(),
                           [&](const StudentT& novel, const StudentT& plain) {
                             return Mixture(novel, plain, mixture.novelty_weight_);
                           });
  }
  return mixture;
}

StudentT ProcessMixture::Predict(const SpacePosition& point) const {
  if (!plain_) return novel_->Predict(point);
  const StudentT plain = plain_->Predict(WithoutNovelty(point));
  return novel_ ? Mixture(novel_->Predict(point), plain, novelty_weight_) : plain;
}

double ProcessMixture::slope() const {
  return (novel_ ? novelty_weight_ * novel_->slope() : 0) +
         (plain_ ? (1 - novelty_weight_) * plain_->slope() : 0);
}

double ProcessMixture::transferred_share() const {
  return (novel_ ? novelty_weight_ * novel_->transferred_share() : 0) +
         (plain_ ? (1 - novelty_weight_) * plain_->transferred_share() : 0);
}

}  // namespace kernelcast::forecaster
