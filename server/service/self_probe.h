// Whether the server's own ports answer, asked as a client would: a connection, and gRPC's first
// frame on it; with TLS its answer to a ClientHello, which comes before client certificates and
// tokens. It detects a socket that the kernel still accepts on and gRPC no longer serves.
//
// One thread asks all addresses, one after the other, once a second. Where it has no descriptor for
// that, others cannot connect either. Thread-safe.
#ifndef HISTOGRAM_SERVER_SERVICE_SELF_PROBE_H_
#define HISTOGRAM_SERVER_SERVICE_SELF_PROBE_H_

#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/base/address.h"
#include "server/base/observer.h"

namespace histogram::server {

class SelfProbe {
 public:
  // An address that does not answer twice in a row is unreachable: after about 4 s, or later where
  // others do not answer either.
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  static constexpr absl::Duration kPatience = absl::Milliseconds(1500);
  static constexpr int kMissedMax = 2;

  // REQUIRES: ParseAddress takes each address. `tls`: those of TCP speak TLS. `observer` outlives
  // the probe and is told of each answer, and of each that did not come.
  SelfProbe(const std::vector<std::string>& addresses, bool tls, Observer& observer);
  ~SelfProbe();
  // Asks no more. Does not wait for the answer that is under way, which no longer counts.
  void Stop();
  SelfProbe(const SelfProbe&) = delete;
  SelfProbe& operator=(const SelfProbe&) = delete;

  // The first address that is unreachable; empty where all can be reached.
  std::string Unreachable() const;

 private:
  struct Place {
    std::string address;
    bool tls = false;
    SocketAddress where;
    int missed_in_a_row = 0;
  };

  void Run();
  bool Answers(const Place& place) const;

  std::vector<Place> places_;  // of the thread, once it runs
  const std::string client_hello_;
  Observer& observer_;
  mutable absl::Mutex mu_;
  std::string unreachable_ ABSL_GUARDED_BY(mu_);
  absl::Notification over_;
  std::thread thread_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_SELF_PROBE_H_
