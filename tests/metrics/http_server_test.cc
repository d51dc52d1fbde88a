// The operators' port, and the HTTP server under it, over real sockets.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/system/system_error.hpp>
#include <boost/throw_exception.hpp>
#include <cerrno>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/http/operator_port.h"

namespace histogram::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A client's socket.
class Client {
 public:
  // Port 0: Connect comes later.
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (port != 0) Connect(port);
  }
  bool Connect(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    return connected_;
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void Send(std::string_view text) const {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // ReadAll gives up after so long without a byte.
  void WaitAtMost(int seconds) const {
    const timeval limit{.tv_sec = seconds, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  // Until the server closes.
  std::string ReadAll() const {
    std::string all;
    std::array<char, 65536> buffer;
    for (ssize_t n = 0; (n = recv(fd_, buffer.data(), buffer.size(), 0)) > 0;) {
      all.append(buffer.data(), static_cast<size_t>(n));
    }
    return all;
  }

 private:
  const int fd_;
  bool connected_ = false;
};

uint16_t PortOf(const HttpServer& server) {
  return static_cast<uint16_t>(std::stoi(server.address().substr(server.address().rfind(':') + 1)));
}

std::string Request(uint16_t port, const std::string& line) {
  const Client client(port);
  client.Send(line + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return client.ReadAll();
}

OperatorPortOptions Options() {
  OperatorPortOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics = [] { return std::string("a_total 1\n"); };
  options.not_ready = [] { return std::string(); };
  options.live = [] { return true; };
  return options;
}

std::unique_ptr<HttpServer> Start(OperatorPortOptions options) {
  auto server = StartOperatorPort(std::move(options));
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

TEST(HttpServer, ServesTheMetricsAsPrometheusWantsThem) {
  const auto server = Start(Options());
  ASSERT_NE(server, nullptr);
  EXPECT_NE(PortOf(*server), 0);
  EXPECT_EQ(server->address(), absl::StrCat("127.0.0.1:", PortOf(*server)));
  const std::string answer = Request(PortOf(*server), "GET /metrics");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                            HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
                            HasSubstr("Content-Length: 10\r\n"), EndsWith("\r\n\r\na_total 1\n")));
}

TEST(HttpServer, AnswersALargeTextWhole) {
  OperatorPortOptions options = Options();
  const std::string text(8 << 20, 'x');
  options.metrics = [&text] { return text; };
  const auto server = Start(std::move(options));
  EXPECT_THAT(Request(PortOf(*server), "GET /metrics"), EndsWith("\r\n\r\n" + text));
}

TEST(HttpServer, HealthAndReadiness) {
  std::atomic<bool> ready{false};
  OperatorPortOptions options = Options();
  options.not_ready = [&ready] { return std::string(ready ? "" : "draining"); };
  const auto server = Start(std::move(options));
  EXPECT_THAT(Request(PortOf(*server), "GET /healthz"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nok\n")));
  EXPECT_THAT(Request(PortOf(*server), "GET /readyz"),
              AllOf(StartsWith("HTTP/1.1 503 Service Unavailable\r\n"),
                    EndsWith("\r\n\r\nnot ready: draining\n")));
  ready = true;
  EXPECT_THAT(Request(PortOf(*server), "GET /readyz?verbose=1"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nready\n")));
}

TEST(HttpServer, OtherPathsAndMethodsAreRefusedHelpfully) {
  const auto server = Start(Options());
  for (const char* path : {"/metric", "/metrics/", "/../etc/passwd", "/%2e%2e/etc/passwd"}) {
    const std::string answer = Request(PortOf(*server), absl::StrCat("GET ", path));
    EXPECT_THAT(answer, testing::Not(HasSubstr("root:"))) << path;
    EXPECT_THAT(answer, testing::Not(StartsWith("HTTP/1.1 200"))) << path;
  }
  EXPECT_THAT(
      Request(PortOf(*server), "GET /other"),
      AllOf(StartsWith("HTTP/1.1 404 Not Found\r\n"), HasSubstr("/metrics, /healthz and /readyz")));
  EXPECT_THAT(Request(PortOf(*server), "POST /metrics"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n")));
  EXPECT_THAT(Request(PortOf(*server), "HEAD /metrics"),
              AllOf(HasSubstr("Content-Length: 10\r\n"), EndsWith("\r\n\r\n")));
}

TEST(HttpServer, ACallbackThatThrowsIsAnError) {
  OperatorPortOptions options = Options();
  options.metrics = []() -> std::string { throw std::runtime_error("no"); };
  const auto server = Start(std::move(options));
  EXPECT_THAT(Request(PortOf(*server), "GET /metrics"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(Request(PortOf(*server), "GET /healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, APortInUseIsAnErrorThatNamesIt) {
  const auto first = Start(Options());
  OperatorPortOptions options = Options();
  options.listen = first->address();
  const auto second = StartOperatorPort(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(first->address()), HasSubstr("Address already in use")));
}

TEST(HttpServer, AddressesThatAreNoneAreRefused) {
  for (const char* listen : {"9464", "unix:/tmp/x", "localhost:99999", ":1"}) {
    OperatorPortOptions options = Options();
    options.listen = listen;
    EXPECT_EQ(StartOperatorPort(options).status().code(), absl::StatusCode::kInvalidArgument)
        << listen;
  }
  OperatorPortOptions options = Options();
  options.listen = "192.0.2.1:0";  // an address that no machine has
  EXPECT_EQ(StartOperatorPort(options).status().code(), absl::StatusCode::kUnavailable);
}

TEST(HttpServer, WithoutDescriptorsTheReasonIsTheSystems) {
  // UBSan's first look at each type takes a pipe.
  ASSERT_NE(Start(Options()), nullptr);
  EXPECT_THROW(boost::throw_exception(boost::system::system_error(boost::system::error_code())),
               boost::system::system_error);
  std::vector<int> taken;
  for (int fd = 0; (fd = dup(0)) >= 0;) taken.push_back(fd);
  const absl::Status status = StartOperatorPort(Options()).status();
  for (const int fd : taken) close(fd);
  EXPECT_THAT(std::string(status.message()), EndsWith(": Too many open files"));
}

// Clients take the family that they like best.
TEST(HttpServer, ListensOnAllAddressesOfAName) {
  OperatorPortOptions options = Options();
  options.listen = "localhost:0";
  const auto server = Start(std::move(options));
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(Request(PortOf(*server), "GET /healthz"), StartsWith("HTTP/1.1 200 "));
  const int six = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(PortOf(*server));
  address.sin6_addr = in6addr_loopback;
  const bool has_ipv6 = server->address().substr(0, 5) == "[::1]";
  const auto* const place = reinterpret_cast<const sockaddr*>(&address);
  EXPECT_EQ(connect(six, place, sizeof address) == 0, has_ipv6);
  close(six);
}

TEST(HttpServer, AClientThatSendsNothingMoreIsDropped) {
  OperatorPortOptions options = Options();
  options.timeout_ms = 200;
  const auto server = Start(std::move(options));
  const Client slow(PortOf(*server));
  slow.Send("GET /metrics HTT");
  EXPECT_THAT(Request(PortOf(*server), "GET /healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(slow.ReadAll(), testing::Not(HasSubstr("a_total")));
}

TEST(HttpServer, NobodyWaitsForSlowClients) {
  OperatorPortOptions options = Options();
  options.timeout_ms = 3600000;  // none is dropped for its slowness
  const auto server = Start(std::move(options));
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 300; ++i) {  // more than it has connections
    slow.push_back(std::make_unique<Client>(PortOf(*server)));
    slow.back()->Send("GET /metrics HTTP/1.1\r\nX-Slow: ");
    if (i % 50 == 0) {
      EXPECT_THAT(Request(PortOf(*server), "GET /healthz"), StartsWith("HTTP/1.1 200 "));
    }
  }
  EXPECT_THAT(Request(PortOf(*server), "GET /healthz"), StartsWith("HTTP/1.1 200 "));
}

// Another part of the process takes each descriptor as soon as it is free.
TEST(HttpServer, AnswersWithoutDescriptors) {
  constexpr size_t kClients = 20;  // more than the server has spare descriptors
  const auto server = Start(Options());
  // A sanitizer needs descriptors to look at what it meets for the first time.
  EXPECT_THAT(Request(PortOf(*server), "GET /healthz"), StartsWith("HTTP/1.1 200 "));
  std::vector<std::unique_ptr<Client>> clients;  // each has its socket before they run out
  for (size_t i = 0; i < kClients; ++i) clients.push_back(std::make_unique<Client>(0));
  std::vector<int> taken;
  std::vector<std::string> replies;
  for (const auto& client : clients) {
    for (int fd = 0; (fd = dup(0)) >= 0;) taken.push_back(fd);
    EXPECT_EQ(errno, EMFILE);
    client->WaitAtMost(10);
    if (!client->Connect(PortOf(*server))) break;
    client->Send("GET /healthz HTTP/1.1\r\n\r\n");
    replies.push_back(client->ReadAll());
    if (replies.back().empty()) break;
  }
  for (const int fd : taken) close(fd);
  // Only now: this is a sanitizer's first look at what a matcher points to.
  EXPECT_EQ(replies.size(), kClients);
  for (const std::string& reply : replies) EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, RubbishIsSurvived) {
  const auto server = Start(Options());
  {
    const Client client(PortOf(*server));
    client.Send("GET\r\n\r\n");
    EXPECT_THAT(client.ReadAll(), AllOf(StartsWith("HTTP/1.1 400 Bad Request\r\n"),
                                        EndsWith("\r\n\r\n400 Bad Request\n")));
  }
  for (const std::string& text :
       {std::string("\0\1\2\3\r\n\r\n", 8), std::string(100000, 'A'),
        std::string("GET /metrics HTTP/9.9\r\n\r\n"), std::string("\r\n\r\n")}) {
    const Client client(PortOf(*server));
    ASSERT_TRUE(client.connected());
    client.Send(text);
  }
  EXPECT_THAT(Request(PortOf(*server), "GET /healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, ThePortIsFreeAgainAfterwards) {
  std::string address;
  {
    const auto server = Start(Options());
    address = server->address();
  }
  OperatorPortOptions options = Options();
  options.listen = address;
  const auto again = StartOperatorPort(options);
  EXPECT_TRUE(again.ok()) << again.status();
}

}  // namespace
}  // namespace histogram::server
