#include "core/redis/tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "core/fork.h"

namespace saqiya::redis {
namespace {

// What OpenSSL has to say about the first thing that went wrong; empties its queue.
std::string take_error() {
  const unsigned long code = ERR_peek_error();
  const char* const text = ERR_reason_error_string(code);
  std::string problem = text != nullptr ? text : "unknown error";
  ERR_clear_error();
  return problem;
}

bool is_readable(const char* path) { return path != nullptr && access(path, R_OK) == 0; }

// Where OpenSSL was built to look ($SSL_CERT_FILE and $SSL_CERT_DIR in its place); a copy that came
// with us was built on another system, so where other systems keep their bundle, too.
bool load_system_authorities(SSL_CTX* context) {
  if (SSL_CTX_set_default_verify_paths(context) != 1) return false;
  static constexpr std::array<const char*, 4> kBundles{
      "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
      "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
  const char* const file = std::getenv(X509_get_default_cert_file_env());
  const char* const directory = std::getenv(X509_get_default_cert_dir_env());
  if (is_readable(file != nullptr ? file : X509_get_default_cert_file()) ||
      is_readable(directory != nullptr ? directory : X509_get_default_cert_dir())) {
    return true;
  }
  const auto bundle = std::find_if(kBundles.begin(), kBundles.end(), is_readable);
  return bundle == kBundles.end() || SSL_CTX_load_verify_file(context, *bundle) == 1;
}

// An encrypted key is refused; by default OpenSSL would ask the terminal for the password.
int no_password(char*, int, int, void*) { return -1; }

// -- The socket, for OpenSSL. Its own would raise SIGPIPE.

int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK; }

int bio_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  while (true) {
    const ssize_t done =
        ::send(socket_of(bio), data, static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && would_wait()) BIO_set_retry_write(bio);
    return static_cast<int>(done);
  }
}

int bio_read(BIO* bio, char* data, int room) {
  BIO_clear_retry_flags(bio);
  while (true) {
    const ssize_t got = ::recv(socket_of(bio), data, static_cast<std::size_t>(room), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && would_wait()) BIO_set_retry_read(bio);
    return static_cast<int>(got);
  }
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* make_socket_method() {
  BIO_METHOD* const method =
      BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "saqiya socket");
  if (method == nullptr) return nullptr;
  BIO_meth_set_write(method, bio_write);
  BIO_meth_set_read(method, bio_read);
  BIO_meth_set_ctrl(method, bio_control);
  return method;
}

}  // namespace

// -- Contexts ---------------------------------------------------------------------------------

class TlsContext {
 public:
  TlsContext() = default;
  ~TlsContext() {
    const ForkHold hold;
    SSL_CTX_free(ssl);
    BIO_meth_free(method);
  }
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  std::string load(const Tls& settings, int (*new_session)(SSL*, SSL_SESSION*));

  SSL_CTX* ssl = nullptr;
  BIO_METHOD* method = nullptr;
};

// Empty, or what is wrong.
std::string TlsContext::load(const Tls& settings, int (*new_session)(SSL*, SSL_SESSION*)) {
  // As in key.cc: no configuration file and no exit handler.
  if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) != 1) {
    return "out of memory";
  }
  ERR_clear_error();
  ssl = SSL_CTX_new(TLS_client_method());
  method = make_socket_method();
  if (ssl == nullptr || method == nullptr) return take_error();
  SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
  SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(ssl, 1);  // one system call for a reply instead of two
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(ssl, new_session);
  SSL_CTX_set_default_passwd_cb(ssl, no_password);
  if (settings.verify) {
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
    if (settings.ca.empty()) {
      if (!load_system_authorities(ssl)) return "the system's authorities: " + take_error();
    } else if (SSL_CTX_load_verify_file(ssl, settings.ca.c_str()) != 1) {
      return "ca: " + take_error();
    }
  }
  if (!settings.cert.empty()) {
    if (SSL_CTX_use_certificate_chain_file(ssl, settings.cert.c_str()) != 1) {
      return "cert: " + take_error();
    }
    if (SSL_CTX_use_PrivateKey_file(ssl, settings.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ssl) != 1) {
      return "key: " + take_error();
    }
  }
  ERR_clear_error();
  return {};
}

void TlsContexts::renew(const TlsContext* failed) {
  const ForkHold hold;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (context_.get() == failed) context_.reset();
}

// -- Links ------------------------------------------------------------------------------------

struct TlsLink::Callbacks {
  // TLS 1.3 sends sessions after the handshake, several of them; the newest is the best.
  static int new_session(SSL* ssl, SSL_SESSION* session) {
    auto* const link = static_cast<TlsLink*>(SSL_get_app_data(ssl));
    SSL_SESSION_free(link->session_);
    link->session_ = session;
    return 1;  // it is ours now
  }
};

std::shared_ptr<TlsContext> TlsContexts::get(const Tls& settings, std::string* problem) {
  const ForkHold hold;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (context_ != nullptr) return context_;
  }
  // Files may be slow, so without the lock. Of several threads that read them any one's will do.
  auto context = std::make_shared<TlsContext>();
  std::string wrong = context->load(settings, TlsLink::Callbacks::new_session);
  if (!wrong.empty()) {
    *problem = std::move(wrong);
    return nullptr;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  context_ = std::move(context);
  return context_;
}

TlsLink::~TlsLink() {
  close();
  forget_session();
}

void TlsLink::forget_session() {
  const ForkHold hold;
  SSL_SESSION_free(std::exchange(session_, nullptr));
}

bool TlsLink::start(int fd, std::shared_ptr<TlsContext> context, const std::string& name) {
  const ForkHold hold;
  close();
  problem_.clear();
  ERR_clear_error();
  if (context_ != context || session_name_ != name) forget_session();
  session_name_ = name;
  context_ = std::move(context);
  ssl_ = SSL_new(context_->ssl);
  BIO* const bio = ssl_ != nullptr ? BIO_new(context_->method) : nullptr;
  if (bio == nullptr) {
    ERR_clear_error();
    return false;
  }
  // A descriptor, never an address. NOLINTNEXTLINE(performance-no-int-to-ptr)
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_connect_state(ssl_);
  bool ok = SSL_set_app_data(ssl_, this) == 1;
  // Certificates know of no interface ("fe80::1%eth0") and of no dot at the end.
  std::string host = name.substr(0, name.find('%'));
  std::array<unsigned char, sizeof(in6_addr)> address;
  if (inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
      inet_pton(AF_INET6, host.c_str(), address.data()) == 1) {
    ok = ok && X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host.c_str()) == 1;
  } else {
    if (host.ends_with('.')) host.pop_back();
    SSL_set_hostflags(ssl_, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    ok = ok && SSL_set1_host(ssl_, host.c_str()) == 1 &&
         SSL_set_tlsext_host_name(ssl_, host.c_str()) == 1;
  }
  if (ok && session_ != nullptr) SSL_set_session(ssl_, session_);
  ERR_clear_error();
  if (!ok) close();
  return ok;
}

// What an operation that did not succeed means.
TlsLink::Result TlsLink::ended(int result) {
  const int error = SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ) return Result::kWantRead;
  if (error == SSL_ERROR_WANT_WRITE) return Result::kWantWrite;
  if (error == SSL_ERROR_SSL) {
    const long verified = SSL_get_verify_result(ssl_);
    const int reason = ERR_GET_REASON(ERR_peek_error());
    // A connection that ends without a farewell is no matter of TLS.
    if (reason != SSL_R_UNEXPECTED_EOF_WHILE_READING) {
      problem_ = take_error();
      if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
        problem_.append(": ").append(X509_verify_cert_error_string(verified));
      }
      forget_session();
    }
  }
  ERR_clear_error();
  return Result::kClosed;
}

TlsLink::Result TlsLink::handshake() {
  const ForkHold hold;
  if (has_failed()) return Result::kClosed;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  return result == 1 ? Result::kDone : ended(result);
}

TlsLink::Result TlsLink::read(char* data, std::size_t room, std::size_t* got) {
  const ForkHold hold;
  if (has_failed()) return Result::kClosed;
  ERR_clear_error();
  const int result = SSL_read_ex(ssl_, data, room, got);
  return result == 1 ? Result::kDone : ended(result);
}

TlsLink::Result TlsLink::write(const char* data, std::size_t size, std::size_t* taken) {
  const ForkHold hold;
  if (has_failed()) return Result::kClosed;
  ERR_clear_error();
  const int result = SSL_write_ex(ssl_, data, size, taken);
  return result == 1 ? Result::kDone : ended(result);
}

bool TlsLink::is_resumed() const { return ssl_ != nullptr && SSL_session_reused(ssl_) == 1; }

bool TlsLink::has_unread() const { return SSL_has_pending(ssl_) == 1; }

void TlsLink::close() {
  if (ssl_ == nullptr) return;
  const ForkHold hold;
  // As if the farewells had been said: without them OpenSSL takes the session for spoilt.
  SSL_set_shutdown(ssl_, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  SSL_free(std::exchange(ssl_, nullptr));
}

// What is left behind stays for ever: a thread of the parent may have been about to change it.
void TlsLink::abandon() {
  ssl_ = nullptr;
  session_ = nullptr;
  static_cast<void>(new (std::nothrow) std::shared_ptr<TlsContext>(std::move(context_)));
}

}  // namespace saqiya::redis
