#include "server/batching/admission.h"

#include <cassert>

namespace histogram::server {

bool Admission::Fits(uint64_t held_bytes, uint64_t bytes) const {
  if (bytes > free_bytes()) return false;
  return held_bytes == 0 || held_bytes + bytes <= 2 * (free_bytes() - bytes);
}

bool Admission::HasRoom(const Job& job) const {
  assert(job.charge_bytes <= bytes_max_);
  if (NewcomerWaits()) return false;
  const auto found = callers_.find(job.caller);
  if (found == callers_.end()) return Fits(0, job.charge_bytes);
  return found->second.waiting.empty() && Fits(found->second.held_bytes, job.charge_bytes);
}

uint64_t Admission::HeldBy(uint64_t caller) const {
  const auto found = callers_.find(caller);
  return found == callers_.end() ? 0 : found->second.held_bytes;
}

Admission::Caller& Admission::CallerOf(uint64_t id) {
  Caller& caller = callers_[id];
  caller.id = id;
  return caller;
}

void Admission::Charge(Job* job) {
  Caller& caller = CallerOf(job->caller);
  charged_bytes_ += job->charge_bytes;
  job->notes_.charged = true;
  Update(caller, [&] { caller.held_bytes += job->charge_bytes; });
}

void Admission::Discharge(Job* job) {
  charged_bytes_ -= job->charge_bytes;
  Caller& caller = CallerOf(job->caller);
  Update(caller, [&] { caller.held_bytes -= job->charge_bytes; });
  ForgetIfIdle(caller);
}

void Admission::Wait(Job* job) {
  Caller& caller = CallerOf(job->caller);
  if (caller.waiting.empty()) turns_.push_back(&caller);
  Update(caller, [&] { caller.waiting.PushBack(job); });
}

void Admission::ForgetIfIdle(Caller& caller) {
  if (caller.held_bytes == 0 && caller.waiting.empty()) callers_.erase(callers_.find(caller.id));
}

}  // namespace histogram::server
