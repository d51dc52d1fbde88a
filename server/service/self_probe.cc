#include "server/service/self_probe.h"

#include <netdb.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/config/values.h"

namespace histogram::server {
namespace {

int64_t NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// What a client of TLS sends first, for HTTP/2. The handshake is never finished, so that the same
// bytes serve each time.
std::string MakeClientHello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context.get()), SSL_free);
  SSL_set_alpn_protos(tls.get(), kHttp2.data(), kHttp2.size());
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(tls.get(), BIO_new(BIO_s_mem()), out);  // takes both
  SSL_connect(tls.get());
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(out, &text);
  return {text, static_cast<size_t>(bytes)};
}

// The address to connect to; a length of 0 where there is none.
std::pair<sockaddr_storage, socklen_t> Resolve(const std::string& text) {
  sockaddr_storage where{};
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) return {where, 0};
  if (address->is_unix) {
    auto& local = reinterpret_cast<sockaddr_un&>(where);
    local.sun_family = AF_UNIX;
    std::strncpy(local.sun_path, address->path.c_str(), sizeof local.sun_path - 1);
    return {where, sizeof local};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string port = absl::StrCat(address->port);
  if (getaddrinfo(address->host.c_str(), port.c_str(), &hints, &list) != 0) return {where, 0};
  const socklen_t length = list->ai_addrlen;
  std::memcpy(&where, list->ai_addr, length);
  freeaddrinfo(list);
  return {where, length};
}

}  // namespace

// One connection to a place, until it has answered or is lost.
class SelfProbe::Connection {
 public:
  Connection(const Place& place, int fd, const std::string& client_hello)
      : fd_(fd), tls_(place.target.tls), hello_(tls_ ? client_hello : "") {
    const auto* const where = reinterpret_cast<const sockaddr*>(&place.where);
    const bool begun = fd >= 0 && (connect(fd, where, place.length) == 0 || errno == EINPROGRESS);
    state_ = begun ? State::kOpen : State::kLost;
  }

  int fd() const { return fd_; }
  bool open() const { return state_ == State::kOpen; }
  bool answered() const { return state_ == State::kAnswered; }
  short events() const { return hello_.empty() ? POLLIN : POLLOUT; }

  void Advance() {
    if (!hello_.empty()) {
      const ssize_t sent = send(fd_, hello_.data(), hello_.size(), MSG_NOSIGNAL);
      if (sent > 0) hello_.erase(0, static_cast<size_t>(sent));
      if (sent < 0 && errno != EAGAIN) state_ = State::kLost;
      return;
    }
    std::array<char, 64> buffer;
    const ssize_t bytes = recv(fd_, buffer.data(), buffer.size(), 0);
    if (bytes < 0 && errno == EAGAIN) return;
    if (bytes <= 0) {
      state_ = State::kLost;
      return;
    }
    answer_.append(buffer.data(), static_cast<size_t>(bytes));
    if (answer_.size() < kHeadBytes) return;
    // The type of an HTTP/2 frame stands behind its length; that of a TLS record comes first.
    constexpr char kSettings = 4, kHandshake = 22, kAlert = 21;
    const bool known =
        tls_ ? answer_[0] == kHandshake || answer_[0] == kAlert : answer_[3] == kSettings;
    state_ = known ? State::kAnswered : State::kLost;
  }

 private:
  enum class State : uint8_t { kOpen, kAnswered, kLost };
  static constexpr size_t kHeadBytes = 5;

  const int fd_;
  const bool tls_;
  std::string hello_;  // what is left to send
  std::string answer_;
  State state_;
};

SelfProbe::SelfProbe(const std::vector<Target>& targets, std::function<void()> also)
    : also_(std::move(also)), client_hello_(MakeClientHello()), spare_(targets.size()) {
  for (const Target& target : targets) {
    Place& place = places_.emplace_back();
    place.target = target;
    std::tie(place.where, place.length) = Resolve(target.address);
  }
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "self-probe");
    Run();
  });
}

void SelfProbe::Stop() {
  if (!over_.HasBeenNotified()) over_.Notify();
  if (thread_.joinable()) thread_.join();
}

SelfProbe::~SelfProbe() { Stop(); }

std::string SelfProbe::Unreachable() const {
  absl::MutexLock lock(&mu_);
  return unreachable_;
}

void SelfProbe::Run() {
  bool all = true;
  while (!over_.WaitForNotificationWithTimeout(absl::Milliseconds(all ? kIntervalMs : 0))) {
    const std::vector<bool> answers = Ask();
    std::string unreachable;
    all = true;
    for (size_t i = 0; i < places_.size(); ++i) {
      (answers[i] ? reached_ : missed_).fetch_add(1, std::memory_order_relaxed);
      Place& place = places_[i];
      place.missed_in_a_row = answers[i] ? 0 : place.missed_in_a_row + 1;
      all = all && answers[i];
      if (place.missed_in_a_row >= kMissedMax && unreachable.empty()) {
        unreachable = place.target.address;
      }
    }
    {
      absl::MutexLock lock(&mu_);
      unreachable_.swap(unreachable);
    }
    also_();
  }
}

std::vector<bool> SelfProbe::Ask() {
  const int64_t end = NowMs() + kPatienceMs;
  spare_.Refill();
  std::vector<Connection> connections;
  for (const Place& place : places_) {
    const int family = place.where.ss_family;
    const int fd = place.length == 0 ? -1 : spare_.Open([family] {
      return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    });
    connections.emplace_back(place, fd, client_hello_);
  }
  std::vector<pollfd> polled;
  while (NowMs() < end && !over_.HasBeenNotified()) {
    polled.clear();
    bool any = false;
    for (const Connection& each : connections) {
      polled.push_back({each.open() ? each.fd() : -1, each.events(), 0});
      any = any || each.open();
    }
    if (!any) break;
    constexpr int64_t kStepMs = 100;  // so that the end is not waited for
    poll(polled.data(), polled.size(), static_cast<int>(std::min(kStepMs, end - NowMs() + 1)));
    for (size_t i = 0; i < connections.size(); ++i) {
      if (polled[i].revents != 0) connections[i].Advance();
    }
  }
  std::vector<bool> answers;
  for (const Connection& each : connections) {
    answers.push_back(each.answered());
    if (each.fd() >= 0) spare_.Close(each.fd());
  }
  // Where all that could be asked are lost at once, the next round would come at once.
  if (NowMs() < end && answers != std::vector<bool>(answers.size(), true)) {
    over_.WaitForNotificationWithTimeout(absl::Milliseconds(end - NowMs()));
  }
  return answers;
}

}  // namespace histogram::server
