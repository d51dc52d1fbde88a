#include "server/service/self_probe.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "absl/time/clock.h"
#include "server/base/clock.h"

namespace histogram::server {
namespace {

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

// Sends `hello`, and receives what the other side says first. The socket's time limits hold.
bool Ask(int fd, const SocketAddress& where, const std::string& hello, bool tls) {
  if (connect(fd, where.get(), where.length) != 0) return false;
  const auto sent = send(fd, hello.data(), hello.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(hello.size())) return false;
  std::array<char, 5> head{};
  if (recv(fd, head.data(), head.size(), MSG_WAITALL) != static_cast<ssize_t>(head.size())) {
    return false;
  }
  // The type of an HTTP/2 frame stands behind its length; that of a TLS record comes first.
  constexpr char kSettings = 4, kHandshake = 22, kAlert = 21;
  return tls ? head[0] == kHandshake || head[0] == kAlert : head[3] == kSettings;
}

}  // namespace

SelfProbe::SelfProbe(const std::vector<std::string>& addresses, bool tls, Observer& observer)
    : client_hello_(MakeClientHello()), observer_(observer) {
  for (const std::string& text : addresses) {
    const Address address = *ParseAddress(text);
    const auto where = Resolve(address);
    places_.push_back({.address = text,
                       .tls = tls && !address.is_unix,
                       .where = where.ok() ? where->front() : SocketAddress()});
  }
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "self-probe");
    Run();
  });
}

void SelfProbe::Stop() {
  if (!over_.HasBeenNotified()) over_.Notify();
}

SelfProbe::~SelfProbe() {
  Stop();
  thread_.join();
}

std::string SelfProbe::Unreachable() const {
  absl::MutexLock lock(&mu_);
  return unreachable_;
}

void SelfProbe::Run() {
  absl::Duration pause = kInterval;
  while (!over_.WaitForNotificationWithTimeout(pause)) {
    const absl::Time begin = absl::Now();
    bool all = true;
    std::string unreachable;
    for (Place& place : places_) {
      const TimeNs asked = Clock::Monotonic().Now();
      const bool answers = Answers(place);
      if (over_.HasBeenNotified()) return;
      observer_.SelfProbed(answers, static_cast<uint64_t>(Clock::Monotonic().Now() - asked));
      place.missed_in_a_row = answers ? 0 : place.missed_in_a_row + 1;
      all = all && answers;
      if (place.missed_in_a_row >= kMissedMax && unreachable.empty()) {
        unreachable = place.address;
      }
    }
    {
      absl::MutexLock lock(&mu_);
      unreachable_.swap(unreachable);
    }
    // Waits before it connects again after an immediate disconnect.
    pause = all ? kInterval : std::max(absl::ZeroDuration(), kPatience - (absl::Now() - begin));
  }
}

bool SelfProbe::Answers(const Place& place) const {
  const int fd = socket(place.where.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const timeval patience = absl::ToTimeval(kPatience);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // to connect, too
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const bool answers = Ask(fd, place.where, place.tls ? client_hello_ : "", place.tls);
  close(fd);
  return answers;
}

}  // namespace histogram::server
