// Drives a store's queue from the event loop of its environment: a poll handle on the queue's
// descriptor and a timer for its next deadline. No thread, and nothing of libuv's thread pool.
//
// Order of a turn: process (read what came), deliver (call into JavaScript, which resolves promises
// and runs their continuations), process again (send what those submitted). Requests that are
// submitted outside of a turn are sent by flush(), which JavaScript calls at the end of the tick.
// Turns go on while nothing is pending: the store looks out for a server that was away.
//
// The handles keep the process alive only while requests are pending, and so does the reference to
// the JavaScript callback: an idle queue can be collected. Closing is by JavaScript, by the
// finalizer, or by the environment's end, whichever comes first.
#pragma once

#include <uv.h>

#include "handle.h"
#include "store.h"

namespace saqiya::node {

class Queue final : public Counted {
 public:
  Queue(Environment& environment, Store* store, saqiya_queue* queue);

  // False when the handles cannot be made; the queue is then closed.
  bool start(napi_value on_turn);

  static constexpr int kFailed = -1;  // an exception is pending
  static constexpr int kAccepted = 0;
  static constexpr int kFlushWanted =
      1;  // accepted; flush() must be called at the end of this tick
  static constexpr int kFull = 2;
  int submit(const saqiya_request& request);
  bool cancel(std::uint64_t user_data);
  // Sends and receives what is possible; returns how many completions are in the records.
  std::size_t flush();
  // Ends all pending requests (reason cancelled). Completions are then delivered by flush().
  void cancel_all();
  // Frees the queue and gives the handles back to the loop. May be called twice.
  void close();

  Environment& environment() const { return environment_; }
  bool is_open() const { return queue_ != nullptr; }

 private:
  ~Queue() override;

  void turn();
  std::size_t drain();
  bool deliver(std::size_t count, bool has_event);
  void arm();
  void hold(bool pending);
  void handle_closed();

  static void on_poll(uv_poll_t* handle, int status, int events);
  static void on_timer(uv_timer_t* handle);
  static void on_cleanup(napi_async_cleanup_hook_handle hook, void* data);

  Environment& environment_;  // not to be used once closed: the environment may be gone
  Store* store_;
  saqiya_queue* queue_;
  uv_loop_t* loop_ = nullptr;
  uv_poll_t poll_;
  uv_timer_t timer_;
  int open_handles_ = 0;
  bool in_turn_ = false;
  bool flush_asked_ = false;  // JavaScript will call flush() at the end of the tick
  bool held_ = false;
  std::uint64_t armed_for_ = 0;  // the loop's time in ms at which the timer fires; 0: stopped
  napi_ref on_turn_ = nullptr;   // strong only while requests are pending
  napi_async_cleanup_hook_handle cleanup_ = nullptr;
};

// onTurn(count, hasEvent): so many completions are in the records, and the store has events to
// tell. createQueue(store, capacity, onTurn) =>
//   { submit(limiter, op, slot, key, cost, maxWaitUs[, parts]),
//     submitItems(op, slot, maxWaitUs, parts, ...items), change(limiter, op, slot, key, cost,
//     ...ticket), cancel(slot), flush(), cancelAll(), close() }
// parts, ticket: as parts.h has them; items: as group.h has them.
napi_value create_queue(napi_env env, napi_callback_info info);

}  // namespace saqiya::node
