#include "server/batching/credits.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace histogram::server {

Credits::Credits(const std::vector<Backend*>& backends) {
  assert(backends.size() <= kBackendsMax);
  for (Backend* backend : backends) {
    Lanes& lanes = backends_.emplace_back();
    lanes.backend = backend;
    lanes.info = &backend->info();
    lanes.flights.reserve(backend->info().lanes);
  }
}

BackendMask Credits::Refresh(Outbox& outbox) {
  BackendMask up = 0;
  for (int b = 0; b < size(); ++b) {
    if (backends_[b].down) continue;
    if (backends_[b].backend->up()) {
      up |= BackendMask{info(b).lanes > 0} << b;
    } else {
      MarkDown(b, kDeviceLost, outbox);
    }
  }
  return up;
}

void Credits::MarkDown(int b, std::string_view reason, Outbox& outbox) {
  if (std::exchange(backends_[b].down, true)) return;
  outbox.downs.push_back({.backend = b, .reason = reason});
}

bool Credits::AnyFree(BackendMask except) const {
  for (int b = 0; b < size(); ++b) {
    if ((except >> b & 1) == 0 && free(b) > 0 && usable(b)) return true;
  }
  return false;
}

Flight* Credits::Take(int b, ClosedBy closed_by, TimeNs now) {
  assert(free(b) > 0);
  if (idle_.empty()) idle_.push_back(pool_.emplace_back(std::make_unique<Flight>()).get());
  Flight* const flight = idle_.back();
  idle_.pop_back();
  flight->backend = b;
  flight->closed_by = closed_by;
  flight->formed_at = backends_[b].taken_at = now;
  backends_[b].flights.push_back(flight);
  return flight;
}

void Credits::Return(Flight* flight) { std::erase(backends_[flight->backend].flights, flight); }

void Credits::Recycle(Flight* flight) {
  flight->Reset();
  idle_.push_back(flight);
}

uint32_t Credits::lanes() const {
  uint32_t lanes = 0;
  for (const Lanes& each : backends_) lanes += each.down ? 0 : each.info->lanes;
  return lanes;
}

}  // namespace histogram::server
