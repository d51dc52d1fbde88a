// What a completion queue hands back: every tag that is given to gRPC is an Event.
#ifndef HISTOGRAM_SERVER_RPC_EVENT_H_
#define HISTOGRAM_SERVER_RPC_EVENT_H_

namespace histogram::server {

class Event {
 public:
  // The operation is over; `ok` as the operation defines it. Called once for each operation, by
  // the thread that took the event from its queue, without any lock.
  virtual void OnComplete(bool ok) = 0;

 protected:
  ~Event() = default;
};

// An event that is a member of what it happens to, and calls one of its functions.
template <typename Owner, void (Owner::*kThen)(bool ok)>
class MemberEvent final : public Event {
 public:
  explicit MemberEvent(Owner& owner) : owner_(owner) {}
  void OnComplete(bool ok) override { (owner_.*kThen)(ok); }
  // The tag to give to gRPC: Event* as void*, whatever the layout of this class.
  void* tag() { return static_cast<Event*>(this); }

 private:
  Owner& owner_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_EVENT_H_
