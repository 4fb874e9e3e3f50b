// Queues.
#include "items.h"

namespace {

using saqiya::is_ask;
using saqiya::Op;
using saqiya::capi::answer_unlimited;
using saqiya::capi::as_decisions;
using saqiya::capi::as_tickets;
using saqiya::capi::clear;
using saqiya::capi::fail;
using saqiya::capi::guard;
using saqiya::capi::init_sized;
using saqiya::capi::is_wait;
using saqiya::capi::Items;
using saqiya::capi::mark_spent;
using saqiya::capi::read_sized;
using saqiya::capi::write_sized;

// Null when everything is in its range, else what is not.
const char* convert(const saqiya_queue_options& in, saqiya::QueueOptions* out) {
  if (in.capacity != 0) out->capacity = in.capacity;
  if (in.batch != 0) out->batch = in.batch;
  if (in.in_flight != 0) out->in_flight = in.in_flight;
  if (out->capacity > 65536) return "the capacity must be at most 65,536";
  if (out->batch > 512) return "the batch must be at most 512";
  if (out->in_flight > 64) return "in_flight must be at most 64";
  return nullptr;
}

bool takes_tickets(Op op) { return op == Op::kRefund || op == Op::kSettle || op == Op::kRenew; }

// What the request is about: one limiter and key, or several.
bool read_items(const saqiya_queue& queue, const saqiya_request& in, Items* out) {
  const auto op = static_cast<Op>(in.op);
  if (in.op < SAQIYA_OP_CHECK || in.op > SAQIYA_OP_RENEW) return false;
  if (!is_wait(in.max_wait_us) || (takes_tickets(op) && in.ticket == nullptr)) return false;
  const bool costs_matter = is_ask(op) || op == Op::kSettle;
  const saqiya_item one = {in.limiter, in.key, in.key_len, in.cost};
  if (in.items == nullptr && in.item_count != 0) return false;
  if (in.items != nullptr && !is_ask(op) && op != Op::kRefund) return false;
  if (in.item_count > saqiya::kMaxItems) return false;
  const saqiya_item* const items = in.items != nullptr ? in.items : &one;
  const std::size_t count = in.items != nullptr ? static_cast<std::size_t>(in.item_count) : 1;
  return out->read(items, count, costs_matter) && out->shared_store() == queue.store;
}

}  // namespace

extern "C" {

void saqiya_queue_options_init(saqiya_queue_options* options, size_t size) {
  init_sized(options, size);
}

int saqiya_queue_create(saqiya_store* store, const saqiya_queue_options* options,
                        saqiya_queue** queue, saqiya_error* error) {
  clear(error);
  if (queue == nullptr) return fail(error, SAQIYA_INVALID, "the queue pointer is null");
  *queue = nullptr;
  if (store == nullptr) return fail(error, SAQIYA_INVALID, "the store is null");
  return guard(error, [&] {
    saqiya::QueueOptions converted;
    if (options != nullptr) {
      saqiya_queue_options known;
      if (!read_sized(options, &known)) {
        return fail(error, SAQIYA_INVALID, "the options were not initialised by this version");
      }
      if (const char* wrong = convert(known, &converted)) {
        return fail(error, SAQIYA_INVALID, wrong);
      }
    }
    auto made = std::make_unique<saqiya_queue>();
    made->store = store->store;
    made->queue = store->store->open_queue(store->store, converted);
    if (made->queue == nullptr)
      return fail(error, SAQIYA_SYSTEM, saqiya_status_message(SAQIYA_SYSTEM));
    *queue = made.release();
    return static_cast<int>(SAQIYA_OK);
  });
}

void saqiya_queue_free(saqiya_queue* queue) { delete queue; }

void saqiya_request_init(saqiya_request* request, size_t size) {
  saqiya_request first;
  init_sized(&first, sizeof first);
  first.op = SAQIYA_OP_CHECK;
  first.cost = 1;
  if (init_sized(request, size)) write_sized(first, request);
}

int saqiya_queue_submit(saqiya_queue* queue, const saqiya_request* request) {
  if (queue == nullptr || request == nullptr) return SAQIYA_INVALID;
  saqiya_request known;
  if (!read_sized(request, &known)) return SAQIYA_INVALID;
  return guard([&] {
    Items items;
    if (!read_items(*queue, known, &items)) return SAQIYA_INVALID;
    const std::size_t rules = items.rule_count();
    saqiya::Request r;
    r.op = static_cast<Op>(known.op);
    if (items.is_unlimited()) {
      r.limiter = items.list().front().limiter;  // speaks for all
    } else {
      items.put_into(&r);
    }
    r.max_wait = std::min<std::int64_t>(known.max_wait_us, saqiya::kMaxSpan);
    if (takes_tickets(r.op)) {
      r.tickets = as_tickets(static_cast<const saqiya_ticket*>(known.ticket), rules);
    }
    if (is_ask(r.op)) {
      clear(known.each, rules);
      clear(known.tickets, rules);
      if (items.is_unlimited()) {
        answer_unlimited(r.op, as_decisions(known.each, rules), {});
      } else {
        r.each = as_decisions(known.each, rules);
        if (r.op == Op::kCheck) r.tickets_out = as_tickets(known.tickets, rules);
      }
    }
    switch (queue->queue->submit(r, known.user_data)) {
      case saqiya::SubmitResult::kOk:
        break;
      case saqiya::SubmitResult::kFull:
        return SAQIYA_QUEUE_FULL;
      case saqiya::SubmitResult::kClosed:
        return SAQIYA_CLOSED;
    }
    if (r.op == Op::kRefund || r.op == Op::kSettle) mark_spent(r.op, {}, known.ticket, rules);
    return SAQIYA_OK;
  });
}

int saqiya_queue_cancel(saqiya_queue* queue, uint64_t user_data) {
  if (queue == nullptr) return SAQIYA_INVALID;
  return guard([&] { return queue->queue->cancel(user_data) ? SAQIYA_OK : SAQIYA_INVALID; });
}

int saqiya_queue_process(saqiya_queue* queue) {
  if (queue == nullptr) return SAQIYA_INVALID;
  return guard([&] {
    queue->queue->process();
    return SAQIYA_OK;
  });
}

int saqiya_queue_drain(saqiya_queue* queue, saqiya_completion* completions, size_t max,
                       size_t* count) {
  clear(count);
  if (queue == nullptr || count == nullptr || (completions == nullptr && max != 0)) {
    return SAQIYA_INVALID;
  }
  return guard([&] {
    // One layout (handles.h), so completions are written where the caller wants them.
    auto* out = reinterpret_cast<saqiya::Completion*>(completions);
    *count = queue->queue->drain({out, max});
    return SAQIYA_OK;
  });
}

// These three, too, may have to start the queue afresh in a child.
int saqiya_queue_fd(const saqiya_queue* queue) {
  int fd = -1;
  if (queue != nullptr) {
    guard([&] {
      fd = queue->queue->fd();
      return SAQIYA_OK;
    });
  }
  return fd;
}

int64_t saqiya_queue_timeout_us(const saqiya_queue* queue) {
  int64_t timeout = -1;
  if (queue != nullptr) {
    guard([&] {
      timeout = queue->queue->timeout();
      return SAQIYA_OK;
    });
  }
  return timeout;
}

size_t saqiya_queue_pending(const saqiya_queue* queue) {
  size_t pending = 0;
  if (queue != nullptr) {
    guard([&] {
      pending = queue->queue->pending();
      return SAQIYA_OK;
    });
  }
  return pending;
}

int saqiya_queue_wait(saqiya_queue* queue, int64_t max_wait_us) {
  if (queue == nullptr || max_wait_us < 0) return SAQIYA_INVALID;
  return guard([&] {
    queue->queue->wait(max_wait_us);
    return SAQIYA_OK;
  });
}

int saqiya_queue_close(saqiya_queue* queue) {
  if (queue == nullptr) return SAQIYA_INVALID;
  return guard([&] {
    queue->queue->close();
    return SAQIYA_OK;
  });
}

}  // extern "C"
