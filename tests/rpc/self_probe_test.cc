#include "server/service/self_probe.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "tests/base/no_observer.h"

namespace histogram::server {
namespace {

bool ThreadRuns(const std::string& name) {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found;
    if (std::getline(std::ifstream(thread.path() / "comm"), found) && found == name) return true;
  }
  return false;
}

class Listener final : public NoObserver {
 public:
  void SelfProbed(bool, uint64_t) override { ++probes_; }
  int probes() const { return probes_; }

 private:
  std::atomic<int> probes_{0};
};

// A drain begins at once, also where the server is too busy to answer itself.
TEST(SelfProbeTest, StopDoesNotWaitForAnAnswer) {
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  ASSERT_EQ(bind(silent, reinterpret_cast<const sockaddr*>(&place), length), 0);
  ASSERT_EQ(listen(silent, SOMAXCONN), 0);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&place), &length), 0);
  Listener listener;
  {
    SelfProbe probe({"127.0.0.1:" + std::to_string(ntohs(place.sin_port))}, /*tls=*/false,
                    listener);
    const int asked = accept(silent, nullptr, nullptr);
    const absl::Time begin = absl::Now();
    probe.Stop();
    EXPECT_LT(absl::Now() - begin, SelfProbe::kPatience / 2);
    close(asked);
    while (ThreadRuns("self-probe")) std::this_thread::yield();
    EXPECT_EQ(listener.probes(), 0) << "it was asked too late";
  }
  close(silent);
}

}  // namespace
}  // namespace histogram::server
