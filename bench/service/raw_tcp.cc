// raw-tcp: what TCP itself carries over loopback, without gRPC: the ceiling of
// bench/service/run.py.
//
//   raw-tcp serve HOST:PORT PORT_FILE
//   raw-tcp load HOST:PORT MESSAGE_BYTES REPLY_BYTES CONNECTIONS IN_FLIGHT SECONDS WARM_UP_SECONDS
//
// A connection begins with a Hello, which says how long its messages and replies are. The server
// receives every byte, looks at none, and answers each message; replies to messages that came
// together go out together. A thread serves a connection, on both sides. `load` prints JSON with
// the keys that `histogram-client bench` has for the same.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Hello {
  uint64_t message_bytes, reply_bytes;
};

constexpr size_t kReceiveBytes = size_t{256} << 10;

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in AddressOf(const std::string& text) {
  const size_t colon = text.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (colon == std::string::npos ||
      inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) != 1) {
    std::fprintf(stderr, "raw-tcp: %s must be IPV4:PORT\n", text.c_str());
    std::exit(2);
  }
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(text.c_str() + colon + 1)));
  return address;
}

void SendAtOnce(int socket) {
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

bool SendAll(int socket, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(socket, data, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

void Answer(int socket) {
  Hello hello{};
  if (recv(socket, &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello) ||
      hello.message_bytes == 0 || hello.reply_bytes > kReceiveBytes) {
    close(socket);
    return;
  }
  SendAtOnce(socket);
  std::vector<char> buffer(kReceiveBytes);
  std::vector<char> replies;
  uint64_t received = 0;
  while (true) {
    const ssize_t got = recv(socket, buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    received += static_cast<uint64_t>(got);
    replies.resize(received / hello.message_bytes * hello.reply_bytes);
    received %= hello.message_bytes;
    if (!SendAll(socket, replies.data(), replies.size())) break;
  }
  close(socket);
}

int Serve(const std::string& where, const std::string& port_file) {
  sockaddr_in address = AddressOf(where);
  socklen_t length = sizeof(address);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0) Die("bind");
  if (listen(listener, 256) != 0) Die("listen");
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const std::string aside = port_file + ".new";
  std::FILE* const out = std::fopen(aside.c_str(), "w");
  if (out == nullptr) Die(aside.c_str());
  std::fprintf(out, "address=127.0.0.1:%d\n", ntohs(address.sin_port));
  std::fclose(out);
  std::rename(aside.c_str(), port_file.c_str());
  while (true) {
    const int connection = accept(listener, nullptr, nullptr);
    if (connection < 0) Die("accept");
    std::thread(Answer, connection).detach();
  }
}

struct Load {
  sockaddr_in address;
  Hello hello;
  uint64_t in_flight;
  std::atomic<bool> over{false};
};

// Keeps the window full and counts replies; ends the process where the connection breaks.
void Call(Load& load, std::atomic<uint64_t>& answered) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  if (connect(socket, reinterpret_cast<sockaddr*>(&load.address), sizeof(load.address)) != 0) {
    Die("connect");
  }
  SendAtOnce(socket);
  if (!SendAll(socket, reinterpret_cast<char*>(&load.hello), sizeof(load.hello))) Die("send");
  const std::vector<char> message(load.hello.message_bytes, 7);
  std::vector<char> replies(kReceiveBytes);
  uint64_t sent_bytes = 0;      // of the message that is being sent
  uint64_t open = 0;            // begun, and not answered
  uint64_t received_bytes = 0;  // of the reply that is being received
  while (!load.over.load(std::memory_order_relaxed)) {
    bool full = false;  // the socket takes no more
    while (!full && (sent_bytes > 0 || open < load.in_flight)) {
      if (sent_bytes == 0) ++open;
      const ssize_t sent = send(socket, message.data() + sent_bytes, message.size() - sent_bytes,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) Die("send");
      full = sent < 0;
      if (!full) sent_bytes = (sent_bytes + static_cast<uint64_t>(sent)) % message.size();
      if (full && sent_bytes == 0) --open;
    }
    if (full) {  // wait for room, but never while replies wait to be received
      pollfd both{socket, POLLIN | POLLOUT, 0};
      if (poll(&both, 1, -1) < 0) Die("poll");
      if ((both.revents & POLLIN) == 0) continue;
    }
    const ssize_t got = recv(socket, replies.data(), replies.size(), 0);
    if (got <= 0) Die("recv");
    received_bytes += static_cast<uint64_t>(got);
    const uint64_t complete = received_bytes / load.hello.reply_bytes;
    received_bytes %= load.hello.reply_bytes;
    open -= complete;
    answered.fetch_add(complete, std::memory_order_relaxed);
  }
  close(socket);
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int RunLoad(char** words) {
  Load load{.address = AddressOf(words[0]),
            .hello = {std::strtoull(words[1], nullptr, 10), std::strtoull(words[2], nullptr, 10)},
            .in_flight = std::strtoull(words[4], nullptr, 10)};
  const uint64_t connections = std::strtoull(words[3], nullptr, 10);
  const double seconds = std::atof(words[5]);
  const double warm_up = std::atof(words[6]);
  if (load.hello.message_bytes == 0 || load.hello.reply_bytes == 0 ||
      load.hello.reply_bytes > kReceiveBytes || load.in_flight == 0 || connections == 0 ||
      seconds <= 0) {
    std::fputs("raw-tcp: each number must be > 0, and a reply at most 256 KiB\n", stderr);
    return 2;
  }
  struct alignas(128) Counter {
    std::atomic<uint64_t> answered{0};
  };
  std::vector<Counter> counters(connections);
  struct Reading {
    uint64_t answered = 0;
    double cpu_seconds = 0;
    Clock::time_point at;
  };
  // Among many threads this one may have to wait for a core in the middle. Then it reads again: the
  // counts belong to the time, within a millisecond.
  const auto read = [&counters] {
    while (true) {
      Reading reading{.at = Clock::now()};
      for (const Counter& counter : counters) reading.answered += counter.answered.load();
      reading.cpu_seconds = CpuSeconds();
      if (Clock::now() - reading.at < std::chrono::milliseconds(1)) return reading;
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(connections);
  for (Counter& counter : counters) {
    threads.emplace_back([&load, &counter] { Call(load, counter.answered); });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(warm_up));
  const Reading begin = read();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const Reading end = read();
  const uint64_t requests = end.answered - begin.answered;
  const double cpu = end.cpu_seconds - begin.cpu_seconds;
  const double measured = std::chrono::duration<double>(end.at - begin.at).count();
  load.over.store(true);
  for (std::thread& thread : threads) thread.join();
  std::printf(
      "{\"requests\": %llu, \"errors\": 0, \"seconds\": %.6f, \"requests_per_second\": %.1f, "
      "\"client_cpu_seconds\": %.6f}\n",
      static_cast<unsigned long long>(requests), measured, static_cast<double>(requests) / measured,
      cpu);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "serve" && argc == 4) return Serve(argv[2], argv[3]);
  if (what == "load" && argc == 9) return RunLoad(argv + 2);
  std::fputs(
      "usage: raw-tcp serve IPV4:PORT PORT_FILE\n"
      "       raw-tcp load IPV4:PORT MESSAGE_BYTES REPLY_BYTES CONNECTIONS IN_FLIGHT SECONDS "
      "WARM_UP_SECONDS\n",
      stderr);
  return 2;
}
