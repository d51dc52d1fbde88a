// An observer that ignores everything.
#ifndef HISTOGRAM_TESTS_BASE_NO_OBSERVER_H_
#define HISTOGRAM_TESTS_BASE_NO_OBSERVER_H_

#include "server/base/observer.h"

namespace histogram::server {

class NoObserver : public Observer {
 public:
  void RequestFinished(const RequestNote&) override {}
  void Refused(const absl::Status&) override {}
  void StreamOpened(Method) override {}
  void StreamClosed(Method) override {}
  void BatchFinished(const BatchReport&, uint64_t, ClosedBy) override {}
  void StageFinished(Stage, std::string_view, uint64_t) override {}
  void EndedReceiving(uint64_t, uint64_t, std::string_view) override {}
  void Expired() override {}
  void Cancelled() override {}
  void FellBack(std::string_view, std::string_view, std::string_view) override {}
  void IntegrityFailure() override {}
  void TenantBytes(std::string_view, uint64_t) override {}
  void BackendDown(std::string_view, std::string_view) override {}
  void SelfProbed(bool, uint64_t) override {}
};

// Thread-safe.
inline Observer& Nobody() {
  static NoObserver none;
  return none;
}

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_BASE_NO_OBSERVER_H_
