#include "queue.h"

#include "group.h"

namespace saqiya::node {
namespace {

// Rounds of process and deliver in one turn, so that a fast server cannot starve the event loop.
constexpr int kMaxRounds = 8;

}  // namespace

Queue::Queue(Environment& environment, Store* store, saqiya_queue* queue)
    : environment_(environment), store_(store), queue_(queue) {
  store_->ref();
}

Queue::~Queue() {
  saqiya_queue_free(queue_);
  store_->unref();
}

bool Queue::start(napi_value on_turn) {
  napi_env env = environment_.env();
  if (napi_get_uv_event_loop(env, &loop_) != napi_ok ||
      napi_create_reference(env, on_turn, 0, &on_turn_) != napi_ok ||
      uv_timer_init(loop_, &timer_) != 0) {
    return false;
  }
  timer_.data = this;
  uv_unref(reinterpret_cast<uv_handle_t*>(&timer_));
  ref();
  open_handles_ = 1;
  // Runs before the environment goes; the handles' memory lives on until the loop has let go.
  if (napi_add_async_cleanup_hook(env, on_cleanup, this, &cleanup_) != napi_ok ||
      uv_poll_init(loop_, &poll_, saqiya_queue_fd(queue_)) != 0) {
    close();
    return false;
  }
  poll_.data = this;
  open_handles_ = 2;
  uv_unref(reinterpret_cast<uv_handle_t*>(&poll_));
  if (uv_poll_start(&poll_, UV_READABLE, on_poll) == 0) return true;
  close();
  return false;
}

int Queue::submit(const saqiya_request& request) {
  const int status = saqiya_queue_submit(queue_, &request);
  if (status == SAQIYA_QUEUE_FULL) return kFull;
  if (status != SAQIYA_OK) {
    if (request.items != nullptr) {
      raise_items(environment_, status);
    } else {
      environment_.raise_status(status);
    }
    return kFailed;
  }
  hold(true);
  if (in_turn_ || flush_asked_) return kAccepted;
  flush_asked_ = true;
  return kFlushWanted;
}

bool Queue::cancel(std::uint64_t user_data) {
  const bool cancelled = saqiya_queue_cancel(queue_, user_data) == SAQIYA_OK;
  arm();
  return cancelled;
}

std::size_t Queue::flush() {
  flush_asked_ = false;
  saqiya_queue_process(queue_);
  const std::size_t count = drain();
  arm();
  return count;
}

void Queue::cancel_all() { saqiya_queue_close(queue_); }

void Queue::turn() {
  ref();  // JavaScript may close and drop this queue meanwhile
  in_turn_ = true;
  bool settled = false;  // JavaScript has not run since the last process
  for (int round = 0; round < kMaxRounds && queue_ != nullptr; ++round) {
    saqiya_queue_process(queue_);
    const std::size_t count = drain();
    const bool has_event = store_->has_event();
    settled = count == 0 && !has_event;
    if (settled || !deliver(count, has_event)) break;
  }
  in_turn_ = false;
  if (queue_ != nullptr) {
    if (!settled) saqiya_queue_process(queue_);
    arm();
  }
  unref();
}

std::size_t Queue::drain() {
  saqiya_completion completions[kMaxRecords];
  std::size_t count = 0;
  if (saqiya_queue_drain(queue_, completions, kMaxRecords, &count) != SAQIYA_OK) return 0;
  for (std::size_t i = 0; i < count; ++i) {
    environment_.write(i, completions[i].decision, completions[i].ticket);
    environment_.record(i)[kUserData] = static_cast<double>(completions[i].user_data);
  }
  return count;
}

// The callback settles promises; their continuations run before napi_make_callback returns. Events
// wait in the store when it has been collected.
bool Queue::deliver(std::size_t count, bool has_event) {
  napi_env env = environment_.env();
  napi_handle_scope scope = nullptr;
  if (napi_open_handle_scope(env, &scope) != napi_ok) return false;
  napi_value callback = nullptr;
  napi_value receiver = nullptr;
  napi_value argv[2] = {};
  napi_status status = napi_get_reference_value(env, on_turn_, &callback);
  if (status == napi_ok && callback != nullptr) {
    napi_get_global(env, &receiver);
    napi_create_uint32(env, static_cast<std::uint32_t>(count), &argv[0]);
    napi_get_boolean(env, has_event, &argv[1]);
    status = napi_make_callback(env, nullptr, receiver, callback, 2, argv, nullptr);
    if (status == napi_pending_exception) {
      napi_value exception = nullptr;
      napi_valuetype type = napi_undefined;
      napi_get_and_clear_last_exception(env, &exception);
      napi_typeof(env, exception, &type);
      // Thrown by a callback of the application that ran in this turn. Nothing when the
      // environment is being terminated.
      if (type != napi_undefined && type != napi_null) napi_fatal_exception(env, exception);
    }
  }
  napi_close_handle_scope(env, scope);
  return status == napi_ok && callback != nullptr;
}

// An armed timer that fires too early only costs a turn, so it is left alone.
void Queue::arm() {
  hold(saqiya_queue_pending(queue_) != 0);
  const std::int64_t timeout_us = saqiya_queue_timeout_us(queue_);
  if (timeout_us < 0) {
    if (armed_for_ != 0) uv_timer_stop(&timer_);
    armed_for_ = 0;
    return;
  }
  const std::uint64_t timeout_ms = (static_cast<std::uint64_t>(timeout_us) + 999) / 1000;
  const std::uint64_t due = uv_now(loop_) + timeout_ms;
  if (armed_for_ != 0 && armed_for_ <= due) return;
  armed_for_ = due;
  uv_timer_start(&timer_, on_timer, timeout_ms, 0);
}

void Queue::hold(bool pending) {
  if (pending == held_) return;
  held_ = pending;
  std::uint32_t count = 0;
  if (pending) {
    uv_ref(reinterpret_cast<uv_handle_t*>(&poll_));
    napi_reference_ref(environment_.env(), on_turn_, &count);
  } else {
    uv_unref(reinterpret_cast<uv_handle_t*>(&poll_));
    napi_reference_unref(environment_.env(), on_turn_, &count);
  }
}

void Queue::close() {
  if (queue_ == nullptr) return;
  const auto closed = [](uv_handle_t* handle) {
    static_cast<Queue*>(handle->data)->handle_closed();
  };
  if (open_handles_ == 2) uv_close(reinterpret_cast<uv_handle_t*>(&poll_), closed);
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_), closed);
  napi_delete_reference(environment_.env(), on_turn_);
  saqiya_queue_free(queue_);
  queue_ = nullptr;
}

void Queue::handle_closed() {
  if (--open_handles_ != 0) return;
  if (cleanup_ != nullptr) napi_remove_async_cleanup_hook(cleanup_);
  unref();
}

void Queue::on_poll(uv_poll_t* handle, int, int) { static_cast<Queue*>(handle->data)->turn(); }

void Queue::on_timer(uv_timer_t* handle) {
  auto* self = static_cast<Queue*>(handle->data);
  self->armed_for_ = 0;
  self->turn();
}

void Queue::on_cleanup(napi_async_cleanup_hook_handle, void* data) {
  static_cast<Queue*>(data)->close();
}

}  // namespace saqiya::node
