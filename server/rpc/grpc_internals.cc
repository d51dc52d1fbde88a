#include "server/rpc/grpc_internals.h"

#include <google/protobuf/stubs/common.h>
#include <grpc/byte_buffer.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <cassert>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "server/base/clock.h"
#include "server/base/logging.h"

// From 1.65 on gRPC logs through absl, and gpr_set_log_function does nothing or is gone.
#define HISTOGRAM_GRPC_HAS_LOG_FUNCTION (GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65)
#if HISTOGRAM_GRPC_HAS_LOG_FUNCTION
#include <grpc/support/log.h>
#endif
// From 4.22 on protobuf does, too.
#define HISTOGRAM_PROTOBUF_HAS_LOG_HANDLER (GOOGLE_PROTOBUF_VERSION < 4022000)
#if HISTOGRAM_PROTOBUF_HAS_LOG_HANDLER
#include <google/protobuf/stubs/logging.h>
#endif

// grpc_core::Server, which a grpc_server is, has these two without a header for them. Weak: a gRPC
// that does not show them links, too.
extern "C" {
[[gnu::weak]] void GrpcStopListening(grpc_server* server) __asm__(
    "_ZN9grpc_core6Server13StopListeningEv");
[[gnu::weak]] void GrpcSendGoaways(grpc_server* server) __asm__(
    "_ZN9grpc_core6Server11SendGoawaysEv");
// Only gRPC with deploy/grpc-patches has this one.
[[gnu::weak]] void grpc_set_slice_memory(void* (*take)(size_t), bool (*give)(void*));
}

namespace histogram::server {
namespace {

constexpr bool kOld = GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 57;
#ifdef HISTOGRAM_GRPC_PATCHED
constexpr bool kPatched = true;
#else
constexpr bool kPatched = false;
#endif

ReceiveMemory* receive_memory = nullptr;

[[maybe_unused]] void LogLine(const char* library, LogLevel level, std::string_view message,
                              std::string_view file, int line) {
  static LogThrottle throttle{LogThrottle::kShortPeriod};
  if (!LogEnabled(level)) return;
  try {
    throttle.Log(
        Clock::Monotonic().Now(), level, library,
        {{"message", message},
         {"source", absl::StrCat(std::string(file.substr(file.rfind('/') + 1)), ":", line)}});
  } catch (const std::exception&) {
    // Out of memory while logging: the line is lost. No exception may pass through a library.
  }
}

#if HISTOGRAM_GRPC_HAS_LOG_FUNCTION
void LogGrpcLine(gpr_log_func_args* line) {
  // gRPC's errors concern one connection: a failed handshake for example.
  LogLine("grpc",
          line->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kWarn
          : line->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                    : LogLevel::kDebug,
          line->message, line->file, line->line);
}
#endif

#if HISTOGRAM_PROTOBUF_HAS_LOG_HANDLER
void LogProtobufLine(google::protobuf::LogLevel level, const char* file, int line,
                     const std::string& message) {
  // Its errors concern one message: a text that is not UTF-8 for example.
  LogLine("protobuf",
          level == google::protobuf::LOGLEVEL_FATAL ? LogLevel::kError : LogLevel::kWarn, message,
          file, line);
}
#endif

}  // namespace

void LogLibraryLines() {
#if HISTOGRAM_GRPC_HAS_LOG_FUNCTION
  gpr_set_log_function(LogGrpcLine);
#endif
#if HISTOGRAM_PROTOBUF_HAS_LOG_HANDLER
  google::protobuf::SetLogHandler(LogProtobufLine);
#endif
}

bool AvoidKnownFlaws() {
  constexpr bool kFlawed = kOld && !kPatched;
  if (kFlawed) setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", /*overwrite=*/0);
  return kFlawed;
}

bool HasReceiveMemory() { return grpc_set_slice_memory != nullptr; }

void ReceiveInto(ReceiveMemory& memory) {
  receive_memory = &memory;
  grpc_set_slice_memory([](size_t bytes) { return receive_memory->Take(bytes); },
                        [](void* block) { return receive_memory->Give(block); });
}

// A ByteBuffer holds one member, a pointer to the C interface's buffer.
static_assert(sizeof(grpc::ByteBuffer) == sizeof(void*) &&
              std::is_standard_layout_v<grpc::ByteBuffer>);

bool IsCompressed(const grpc::ByteBuffer& message) {
  if (!message.Valid()) return false;
  const grpc_byte_buffer* raw = *reinterpret_cast<grpc_byte_buffer* const*>(&message);
  return raw->type == GRPC_BB_RAW && raw->data.raw.compression != GRPC_COMPRESS_NONE;
}

uint8_t* WritableBytes(grpc::Slice& slice) { return const_cast<uint8_t*>(slice.begin()); }

void CancelAllCalls(grpc::Server& server) { grpc_server_cancel_all_calls(server.c_server()); }

void SayGoodbye(grpc::Server& server) {
  constexpr bool kKnown = GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51;
  if (!kKnown || GrpcStopListening == nullptr || GrpcSendGoaways == nullptr) return;
  // Both need what gRPC's public functions set up for their thread: it is there while gRPC
  // destroys a buffer.
  const auto say = [](void* c_server) {
    GrpcStopListening(static_cast<grpc_server*>(c_server));
    GrpcSendGoaways(static_cast<grpc_server*>(c_server));
  };
  char byte = 0;
  grpc::Slice slice(&byte, sizeof byte, say, server.c_server());
  const grpc::ByteBuffer buffer(&slice, 1);
  slice = grpc::Slice();
}

void MessageRead::Start(grpc::ServerContext& context, void* tag) {
  tag_ = tag;
  grpc_op receive{};
  receive.op = GRPC_OP_RECV_MESSAGE;
  receive.data.recv_message.recv_message = reinterpret_cast<grpc_byte_buffer**>(&message_);
  grpc::internal::CompletionQueueTag* const self = this;
  const grpc_call_error error = grpc_call_start_batch(context.c_call(), &receive, 1, self, nullptr);
  assert(error == GRPC_CALL_OK);
  static_cast<void>(error);
}

bool MessageRead::FinalizeResult(void** tag, bool* status) {
  *tag = tag_;
  *status = *status && message_.Valid();
  return true;
}

HeldCall::HeldCall(grpc::ServerContext& context) : call_(context.c_call()) { grpc_call_ref(call_); }

HeldCall::~HeldCall() {
  if (call_ != nullptr) grpc_call_unref(call_);
}

void HeldCall::End(grpc::StatusCode code, const std::string& message) {
  grpc_call_cancel_with_status(call_, static_cast<grpc_status_code>(code), message.c_str(),
                               nullptr);
}

void RawService::AddRawMethod(const char* path) {
  using grpc::internal::RpcMethod;
  AddMethod(new grpc::internal::RpcServiceMethod(path, RpcMethod::BIDI_STREAMING,
                                                 nullptr));  // the service owns it
  MarkMethodRaw(methods_++);
}

}  // namespace histogram::server
