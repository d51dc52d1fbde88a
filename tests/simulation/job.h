// A payload in the simulated world's batcher.
#ifndef HISTOGRAM_TESTS_SIMULATION_JOB_H_
#define HISTOGRAM_TESTS_SIMULATION_JOB_H_

#include <memory>

#include "server/batching/job.h"
#include "tests/batching/test_job.h"
#include "tests/simulation/world.h"

namespace histogram::server {

// Deletes itself when it is done, so that AddressSanitizer sees whoever touches it later.
class SimulatedJob final : public Job {
 public:
  SimulatedJob(World& world, Message& message)
      : world_(world), message_(message), payload_(message.payload) {
    fragments = payload_->fragments;
    payload_owner = payload_;
    bytes = payload_->size;
    counters.assign(kByteValues, 99);  // must be overwritten
  }
  void Done(const absl::Status& status) override {
    world_.OnDone(*this, status);
    delete this;
  }
  Message& message() const { return message_; }
  bool exact() const { return counters == payload_->counts; }

  bool told_to_wait = false;
  // Whether it waits for room as of now.
  bool waiting() const { return told_to_wait && !JobTestPeer::Charged(*this); }

 private:
  World& world_;
  Message& message_;
  std::shared_ptr<TestPayload> payload_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_SIMULATION_JOB_H_
