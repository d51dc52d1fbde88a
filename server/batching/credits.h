// The lanes of all backends, and the batches that hold them.
//
// A lane is one credit. A flight takes a credit when it is formed and returns it when its batch
// comes back. Credits also holds which backends are down.
//
// Plain state; time is an argument. Not thread-safe: the batcher's lock guards it. Owns the
// flights. The backends outlive it.
#ifndef HISTOGRAM_SERVER_BATCHING_CREDITS_H_
#define HISTOGRAM_SERVER_BATCHING_CREDITS_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "server/base/clock.h"
#include "server/base/observer.h"
#include "server/batching/flight.h"

namespace histogram::server {

class Credits {
 public:
  // REQUIRES: at most kBackendsMax backends.
  explicit Credits(const std::vector<Backend*>& backends);

  int size() const { return static_cast<int>(backends_.size()); }
  const Backend& backend(int b) const { return *backends_[b].backend; }
  const BackendInfo& info(int b) const { return *backends_[b].info; }

  bool up(int b) const { return !backends_[b].down && backends_[b].backend->up(); }
  bool usable(int b) const { return up(b) && info(b).lanes > 0; }
  // The backends that are usable now. Notes those that went down since the last call.
  BackendMask Refresh(Outbox& outbox);
  // The backend gets no more batches. Keeps the first reason.
  void MarkDown(int b, std::string_view reason, Outbox& outbox);

  // The batches of a backend; each holds one credit.
  absl::Span<Flight* const> flights(int b) const { return backends_[b].flights; }
  uint32_t busy(int b) const { return static_cast<uint32_t>(flights(b).size()); }
  uint32_t free(int b) const { return info(b).lanes - busy(b); }
  // Whether a usable backend outside `except` has a free credit.
  bool AnyFree(BackendMask except) const;
  // When a credit of the backend was last taken.
  TimeNs taken_at(int b) const { return backends_[b].taken_at; }

  // Takes a credit for a batch. REQUIRES: free(b) > 0.
  Flight* Take(int b, ClosedBy closed_by, TimeNs now);
  // Returns the credit. The flight keeps its pieces until Recycle.
  void Return(Flight* flight);
  // Puts the flight back into the pool. REQUIRES: its credit was returned.
  void Recycle(Flight* flight);

  // Those of all backends that are not down.
  uint32_t lanes() const;

 private:
  struct Lanes {
    Backend* backend = nullptr;
    const BackendInfo* info = nullptr;
    bool down = false;  // as noted here; the backend itself may be down earlier
    std::vector<Flight*> flights;
    TimeNs taken_at = 0;
  };

  std::vector<Lanes> backends_;
  std::vector<std::unique_ptr<Flight>> pool_;
  std::vector<Flight*> idle_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_CREDITS_H_
