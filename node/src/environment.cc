#include "environment.h"

#include <limits>

namespace saqiya::node {

Environment* Environment::create(napi_env env) {
  auto* self = new Environment(env);
  const auto finalize = [](napi_env, void* data, void*) { delete static_cast<Environment*>(data); };
  if (napi_set_instance_data(env, self, finalize, nullptr) != napi_ok) {
    delete self;
    return nullptr;
  }
  napi_value buffer = nullptr;
  napi_value array = nullptr;
  void* data = nullptr;
  constexpr std::size_t kNumbers = kMaxRecords * kStride;
  if (napi_create_arraybuffer(env, kNumbers * sizeof(double), &data, &buffer) != napi_ok ||
      napi_create_typedarray(env, napi_float64_array, kNumbers, buffer, 0, &array) != napi_ok ||
      napi_create_reference(env, array, 1, &self->records_) != napi_ok) {
    return nullptr;
  }
  self->data_ = static_cast<double*>(data);
  return self;
}

// Node does not free an addon's references when an environment ends.
Environment::~Environment() {
  if (records_ != nullptr) napi_delete_reference(env_, records_);
  if (error_factory_ != nullptr) napi_delete_reference(env_, error_factory_);
}

Environment* Environment::of(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return static_cast<Environment*>(data);
}

napi_value Environment::records() const {
  napi_value array = nullptr;
  napi_get_reference_value(env_, records_, &array);
  return array;
}

void Environment::set_error_factory(napi_value factory) {
  if (error_factory_ != nullptr) napi_delete_reference(env_, error_factory_);
  error_factory_ = nullptr;
  napi_create_reference(env_, factory, 1, &error_factory_);
}

napi_value Environment::raise(const char* kind, const char* message, std::int32_t position) const {
  napi_value factory = nullptr;
  napi_value receiver = nullptr;
  napi_value argv[3] = {};
  napi_value error = nullptr;
  if (error_factory_ != nullptr &&
      napi_get_reference_value(env_, error_factory_, &factory) == napi_ok &&
      napi_get_undefined(env_, &receiver) == napi_ok &&
      napi_create_string_utf8(env_, kind, NAPI_AUTO_LENGTH, &argv[0]) == napi_ok &&
      napi_create_string_utf8(env_, message, NAPI_AUTO_LENGTH, &argv[1]) == napi_ok &&
      napi_create_int32(env_, position, &argv[2]) == napi_ok &&
      napi_call_function(env_, receiver, factory, 3, argv, &error) == napi_ok) {
    napi_throw(env_, error);
    return nullptr;
  }
  bool pending = false;
  napi_is_exception_pending(env_, &pending);
  if (!pending) napi_throw_error(env_, kind, message);
  return nullptr;
}

napi_value Environment::raise_status(int status) const {
  return raise(saqiya_status_name(status), saqiya_status_message(status));
}

void Environment::write(std::size_t index, const saqiya_decision& decision) {
  double* out = record(index);
  out[kOutcome] = decision.outcome;
  out[kDetail] = decision.reason | decision.rule << 8 | decision.item << 16 | decision.source << 24;
  out[kLimit] = static_cast<double>(decision.limit);
  out[kRemaining] = static_cast<double>(decision.remaining);
  out[kRetryAfterUs] = decision.retry_after_us == SAQIYA_FOREVER
                           ? std::numeric_limits<double>::infinity()
                           : static_cast<double>(decision.retry_after_us);
  out[kResetAfterUs] = static_cast<double>(decision.reset_after_us);
  out[kDelayUs] = static_cast<double>(decision.delay_us);
  out[kTicketN] = 0;
}

void Environment::write(std::size_t index, const saqiya_decision& decision,
                        const saqiya_ticket& ticket) {
  write(index, decision);
  if (ticket.n == 0) return;
  double* out = record(index);
  out[kTicketN] = ticket.n + (ticket.flags | ticket.algorithm << 8) * kTwoTo32;
  out[kTicketQ] = static_cast<double>(ticket.q);
  out[kTicketR] = ticket.r;
  out[kTicketCost] = static_cast<double>(ticket.cost);
  out[kTicketEpochHigh] = static_cast<double>(ticket.epoch >> 32);
  out[kTicketEpochLow] = static_cast<double>(ticket.epoch & 0xFFFFFFFF);
}

saqiya_decision Environment::read_decision() const {
  saqiya_decision decision = {};
  decision.outcome = static_cast<std::int32_t>(data_[kOutcome]);
  const auto detail = static_cast<std::int32_t>(data_[kDetail]);
  decision.reason = detail & 0xFF;
  decision.rule = detail >> 8 & 0xFF;
  decision.item = detail >> 16 & 0xFF;
  decision.source = detail >> 24;
  decision.limit = static_cast<std::int64_t>(data_[kLimit]);
  decision.remaining = static_cast<std::int64_t>(data_[kRemaining]);
  decision.retry_after_us = decision.outcome == SAQIYA_NEVER
                                ? SAQIYA_FOREVER
                                : static_cast<std::int64_t>(data_[kRetryAfterUs]);
  decision.reset_after_us = static_cast<std::int64_t>(data_[kResetAfterUs]);
  decision.delay_us = static_cast<std::int64_t>(data_[kDelayUs]);
  return decision;
}

}  // namespace saqiya::node
