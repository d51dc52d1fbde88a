#include "kernels/tuning/tuner.h"

#include <algorithm>

namespace histogram::tuning {

Tuner::Tuner(size_t candidates, const TunerOptions& options)
    : states_(candidates), options_(options), round_length_(std::max(1U, options.first_round)) {}

std::optional<uint64_t> Tuner::State::cost_ns() const {
  if (costs.empty()) return std::nullopt;
  return costs[(costs.size() - 1) / 4];
}

std::optional<size_t> Tuner::Next() {
  while (!stopped_) {
    if (CountAlive() == 0) break;
    // The one measured least often in this round, so that a disturbance hits all alike.
    State* next = nullptr;
    for (State& state : states_) {
      if (!state.alive || state.measured_in_round >= round_length_) continue;
      if (spent_ns_ >= options_.budget_ns && !state.costs.empty()) continue;
      if (next == nullptr || state.measured_in_round < next->measured_in_round) next = &state;
    }
    if (next != nullptr) return static_cast<size_t>(next - states_.data());
    if (spent_ns_ >= options_.budget_ns) break;
    EndRound();
  }
  stopped_ = true;
  return std::nullopt;
}

void Tuner::Report(size_t candidate, uint64_t cost_ns) {
  State& state = states_[candidate];
  if (state.failed) return;
  std::vector<uint64_t>& costs = state.costs;
  costs.insert(std::upper_bound(costs.begin(), costs.end(), cost_ns), cost_ns);
  ++state.measured_in_round;
  spent_ns_ = cost_ns > UINT64_MAX - spent_ns_ ? UINT64_MAX : spent_ns_ + cost_ns;
  for (State& each : states_) {
    if (Hopeless(each)) each.alive = false;
  }
}

void Tuner::Fail(size_t candidate) {
  State& state = states_[candidate];
  state.failed = true;
  state.alive = false;
  state.costs.clear();
}

bool Tuner::Hopeless(const State& state) const {
  if (state.costs.empty()) return false;
  const std::optional<size_t> cheapest = best();
  const double factor = std::max(1.0, options_.hopeless_factor);
  const double bound = static_cast<double>(*states_[*cheapest].cost_ns()) *
                       (state.costs.size() == 1 ? factor * factor : factor);
  return static_cast<double>(*state.cost_ns()) > bound && &state != &states_[*cheapest];
}

size_t Tuner::CountAlive() const {
  return static_cast<size_t>(
      std::count_if(states_.begin(), states_.end(), [](const State& s) { return s.alive; }));
}

// Keeps the better half, at least two, and the preferred one, until they have had their last round.
void Tuner::EndRound() {
  const size_t alive = CountAlive();
  if (alive <= 1 || (alive <= 3 && round_length_ >= options_.last_round)) {
    stopped_ = true;
    return;
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].alive) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return *states_[a].cost_ns() < *states_[b].cost_ns();
  });
  const size_t kept = std::max<size_t>(2, (alive + 1) / 2);
  const size_t preferred = *std::min_element(order.begin(), order.end());
  for (size_t i = kept; i < order.size(); ++i) {
    if (order[i] != preferred) states_[order[i]].alive = false;
  }
  for (State& state : states_) state.measured_in_round = 0;
  round_length_ = std::min(round_length_ * 2, std::max(options_.last_round, round_length_));
}

std::optional<size_t> Tuner::best() const {
  std::optional<uint64_t> least;
  for (const State& state : states_) {
    if (const std::optional<uint64_t> cost = state.cost_ns(); cost.has_value()) {
      least = std::min(least.value_or(UINT64_MAX), *cost);
    }
  }
  if (!least.has_value()) return std::nullopt;
  // The most preferred among those that are as good as the cheapest.
  const double bound = static_cast<double>(*least) * (1 + std::max(0.0, options_.margin));
  for (size_t i = 0; i < states_.size(); ++i) {
    const std::optional<uint64_t> cost = states_[i].cost_ns();
    if (cost.has_value() && static_cast<double>(*cost) <= bound) return i;
  }
  return std::nullopt;
}

std::optional<uint64_t> Tuner::cost_ns(size_t candidate) const {
  return states_[candidate].cost_ns();
}

}  // namespace histogram::tuning
