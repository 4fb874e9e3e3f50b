// Opening a store by its URL: memory://, or one that core/redis/url.h describes.
#include <string>
#include <utility>

#include "core/fork.h"
#include "core/key.h"
#include "core/memory_store.h"
#include "core/redis/pool.h"
#include "core/redis/resolver.h"
#include "core/redis/store.h"
#include "core/redis/url.h"
#include "core/store.h"

namespace saqiya {
namespace {

// Null when every option is in its range, else what is wrong.
const char* check_options(const StoreOptions& options) {
  if (options.max_keys < 1 || options.max_keys > (std::uint64_t{1} << 40)) {
    return "max_keys must be 1 to 2^40";
  }
  if (options.deadline < 1'000 || options.deadline > 3'600'000'000) {
    return "the deadline must be 1,000 to 3,600,000,000 microseconds";
  }
  if (options.prefix.size() > 64 || options.prefix.find_first_of("{}") != std::string::npos) {
    return "the key prefix must be at most 64 bytes and hold no braces";
  }
  if (options.secret.size() > 1024) return "the secret must be at most 1,024 bytes";
  if (options.connections < 1 || options.connections > redis::kMaxConnections) {
    return "connections must be 1 to 64";
  }
  return nullptr;
}

std::shared_ptr<Store> fail(OpenFault fault, std::string message, OpenError* error) {
  *error = {fault, std::move(message)};
  return nullptr;
}

}  // namespace

std::shared_ptr<Store> open_store(std::string_view url, const StoreOptions& options,
                                  OpenError* error) {
  if (const char* problem = check_options(options)) {
    return fail(OpenFault::kOption, problem, error);
  }
  if (!watch_forks() || !prepare_digests()) {
    return fail(OpenFault::kSystem, "the process has too little memory to open a store", error);
  }
  if (url == "memory://") {
    std::shared_ptr<Store> store = make_memory_store(options);
    if (store != nullptr) return store;
    return fail(OpenFault::kSystem, "the operating system gave no random bytes", error);
  }
  redis::Endpoint endpoint;
  const std::string problem = url.substr(0, 9) == "memory://"
                                  ? "nothing follows memory:// in a store URL"
                                  : redis::parse_url(url, &endpoint);
  if (!problem.empty()) return fail(OpenFault::kUrl, problem, error);
  if (options.clock != nullptr && !options.testing) {
    return fail(OpenFault::kOption,
                "a Redis store uses the server's clock; a manual clock needs the testing flag",
                error);
  }
  if (!redis::prepare_resolvers()) {
    return fail(OpenFault::kSystem, "the process has too little memory to open a store", error);
  }
  return redis::make_redis_store(std::move(endpoint), options);
}

}  // namespace saqiya
