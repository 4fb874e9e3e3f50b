#include "tests/redis/launch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <system_error>

namespace saqiya::testing {
namespace {

constexpr int kLowestPort = 10'240;
constexpr int kHighestPort = 32'767;
constexpr std::size_t kReserved = 100;  // more than one test has at a time

// A bound socket, or -1 when the address is taken.
int bound(int family, const void* address, std::size_t size) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "socket");
  if (::bind(fd, static_cast<const sockaddr*>(address), static_cast<socklen_t>(size)) == 0) {
    return fd;
  }
  const int error = errno;
  ::close(fd);
  if (error != EADDRINUSE) throw std::system_error(error, std::generic_category(), "bind");
  return -1;
}

bool is_free(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const int fd = bound(AF_INET, &address, sizeof address);
  if (fd < 0) return false;
  ::close(fd);
  return true;
}

// Until a server listens on it no other test may take the port: whoever holds the abstract socket
// of this name has it. The socket goes with its process. -1: another has it.
int reserve(int port) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "saqiya-test-port-" + std::to_string(port);
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  return bound(AF_UNIX, &address, offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace

const std::string& server_program() {
  static const std::string program = [] {
    const char* const chosen = std::getenv("SAQIYA_TEST_REDIS_SERVER");
    return std::string(chosen != nullptr && *chosen != '\0' ? chosen : "redis-server");
  }();
  return program;
}

std::uint16_t free_port() {
  // Each process begins elsewhere, and goes on from there.
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  static int next = [] {
    std::random_device device;
    return std::uniform_int_distribution<int>(kLowestPort, kHighestPort)(device);
  }();
  static std::deque<int> reserved;
  for (int tries = kLowestPort; tries <= kHighestPort; ++tries) {
    const int port = next;
    next = next == kHighestPort ? kLowestPort : next + 1;
    const int reservation = reserve(port);
    if (reservation < 0) continue;
    reserved.push_back(reservation);
    if (reserved.size() > kReserved) {
      ::close(reserved.front());
      reserved.pop_front();
    }
    if (is_free(port)) return static_cast<std::uint16_t>(port);
  }
  throw std::runtime_error("no free port");
}

TemporaryDirectory::TemporaryDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "saqiya-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary directory");
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryDirectory::write(const std::string& name, const std::string& contents) const {
  std::string path = path_ + "/" + name;
  std::ofstream file(path, std::ios::trunc);
  file << contents;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
  return path;
}

void Process::start(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, 0);
  ::dup2(null, 1);
  ::dup2(null, 2);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

void Process::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Process::stop() { ::kill(pid_, SIGSTOP); }

void Process::go_on() { ::kill(pid_, SIGCONT); }

bool Process::ended() {
  if (pid_ <= 0 || ::waitpid(pid_, nullptr, WNOHANG) == 0) return false;
  pid_ = -1;
  return true;
}

int Process::wait() {
  int status = -1;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

void run(const std::vector<std::string>& words) {
  Process process;
  process.start(words);
  if (process.wait() != 0) throw std::runtime_error("failed: " + words[0] + " " + words[1]);
}

}  // namespace saqiya::testing
