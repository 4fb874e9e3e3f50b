// The functions of a queue as JavaScript calls them.
#include "group.h"
#include "limiter.h"
#include "parts.h"
#include "queue.h"
#include "store.h"

namespace saqiya::node {
namespace {

Queue* open_queue(napi_env env, void* data) {
  auto* queue = static_cast<Queue*>(data);
  if (queue->is_open()) return queue;
  Environment::of(env)->raise("closed", "the store was closed");
  return nullptr;
}

// Fills what all operations have in common.
bool read_request(Environment& environment, napi_value limiter_value, napi_value slot,
                  napi_value key_value, Key* key, saqiya_request* request) {
  Limiter* limiter = unwrap_external<Limiter>(environment, limiter_value);
  if (limiter == nullptr) return false;
  if (limiter->get() == nullptr) {
    environment.raise("closed", "the limiter or its store was closed");
    return false;
  }
  double user_data = 0;
  if (!read_number(environment, slot, &user_data) || !read_key(environment, key_value, key)) {
    return false;
  }
  saqiya_request_init(request, sizeof *request);
  request->limiter = limiter->get();
  request->key = key->data;
  request->key_len = key->size;
  request->user_data = static_cast<std::uint64_t>(user_data);
  return true;
}

napi_value submitted(napi_env env, int result) {
  if (result == Queue::kFailed) return nullptr;
  napi_value value = nullptr;
  napi_create_int32(env, result, &value);
  return value;
}

napi_value submit(napi_env env, napi_callback_info info) {
  Arguments<7> arguments(env, info);
  Queue* queue = open_queue(env, arguments.data);
  if (queue == nullptr) return nullptr;
  Environment& environment = queue->environment();
  const napi_value* value = arguments.value;
  Key key;
  saqiya_request request;
  double op = 0;
  if (!read_request(environment, value[0], value[2], value[3], &key, &request) ||
      !read_number(environment, value[1], &op) ||
      !read_cost(environment, value[4], &request.cost) ||
      !read_int64(environment, value[5], &request.max_wait_us)) {
    return nullptr;
  }
  request.op = static_cast<std::uint32_t>(op);
  if (arguments.count > 6) {
    Parts parts;
    const std::size_t rules = saqiya_limiter_rule_count(request.limiter);
    if (!read_room(environment, value[6], rules, &parts)) return nullptr;
    request.each = parts.decisions;
    request.tickets = request.op == SAQIYA_OP_CHECK ? parts.tickets : nullptr;
  }
  return submitted(env, queue->submit(request));
}

napi_value submit_items(napi_env env, napi_callback_info info) {
  ItemArguments arguments(env, info);
  Queue* queue = open_queue(env, arguments.data);
  if (queue == nullptr) return nullptr;
  Environment& environment = queue->environment();
  const napi_value* value = arguments.value;
  double op = 0;
  double slot = 0;
  Items items;
  Parts parts;
  saqiya_request request;
  saqiya_request_init(&request, sizeof request);
  if (!read_number(environment, value[0], &op) || !read_number(environment, value[1], &slot) ||
      !read_int64(environment, value[2], &request.max_wait_us) ||
      !read_items(environment, arguments, 4, &items)) {
    return nullptr;
  }
  request.op = static_cast<std::uint32_t>(op);
  request.user_data = static_cast<std::uint64_t>(slot);
  request.items = items.item;
  request.item_count = items.count;
  if (request.op == SAQIYA_OP_REFUND) {
    if (!read_parts(environment, value[3], &parts)) return nullptr;
    if (parts.count != items.rules) {
      return environment.raise("type", "the decision is not one of these items");
    }
    request.ticket = parts.tickets;
  } else {
    if (!read_room(environment, value[3], items.rules, &parts)) return nullptr;
    request.each = parts.decisions;
    request.tickets = request.op == SAQIYA_OP_CHECK ? parts.tickets : nullptr;
  }
  return submitted(env, queue->submit(request));
}

napi_value submit_change(napi_env env, napi_callback_info info) {
  Arguments<5 + kTicketArguments> arguments(env, info);
  Queue* queue = open_queue(env, arguments.data);
  if (queue == nullptr) return nullptr;
  Environment& environment = queue->environment();
  const napi_value* value = arguments.value;
  Key key;
  saqiya_request request;
  double op = 0;
  Tickets tickets;
  if (!read_request(environment, value[0], value[2], value[3], &key, &request) ||
      !read_number(environment, value[1], &op) ||
      !read_cost(environment, value[4], &request.cost) ||
      !read_tickets(environment, value + 5, saqiya_limiter_rule_count(request.limiter),
                    static_cast<std::uint32_t>(op), &tickets)) {
    return nullptr;
  }
  request.op = static_cast<std::uint32_t>(op);
  if (request.op == kRelease) request.op = SAQIYA_OP_REFUND;
  request.ticket = tickets.own;
  const int result = queue->submit(request);
  if (result == Queue::kAccepted || result == Queue::kFlushWanted) tickets.write_back();
  return submitted(env, result);
}

napi_value cancel(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  auto* queue = static_cast<Queue*>(arguments.data);
  double slot = 0;
  if (!queue->is_open() || !read_number(*Environment::of(env), arguments.value[0], &slot)) {
    return nullptr;
  }
  napi_value result = nullptr;
  napi_get_boolean(env, queue->cancel(static_cast<std::uint64_t>(slot)), &result);
  return result;
}

napi_value flush(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  auto* queue = static_cast<Queue*>(arguments.data);
  const std::size_t count = queue->is_open() ? queue->flush() : 0;
  napi_value value = nullptr;
  napi_create_uint32(env, static_cast<std::uint32_t>(count), &value);
  return value;
}

napi_value cancel_all(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  auto* queue = static_cast<Queue*>(arguments.data);
  if (queue->is_open()) queue->cancel_all();
  return nullptr;
}

napi_value close_queue(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  static_cast<Queue*>(arguments.data)->close();
  return nullptr;
}

}  // namespace

napi_value create_queue(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  Arguments<3> arguments(env, info);
  Store* store = unwrap_external<Store>(environment, arguments.value[0]);
  if (store == nullptr) return nullptr;
  if (store->get() == nullptr) return environment.raise("closed", "the store was closed");
  std::int64_t capacity = 0;
  if (!read_int64(environment, arguments.value[1], &capacity)) return nullptr;

  saqiya_queue_options options;
  saqiya_queue_options_init(&options, sizeof options);
  options.capacity = static_cast<std::uint32_t>(capacity);
  saqiya_queue* queue = nullptr;
  saqiya_error error = {};
  const int status = saqiya_queue_create(store->get(), &options, &queue, &error);
  if (status != SAQIYA_OK) {
    return environment.raise(saqiya_status_name(status), error.message, error.position);
  }
  auto* object = new Queue(environment, store, queue);
  const Held held(object);
  if (!object->start(arguments.value[2])) {
    return environment.raise("system", "the event loop refused a handle");
  }
  napi_value result = nullptr;
  napi_create_object(env, &result);
  set_method(env, result, "submit", submit, object);
  set_method(env, result, "submitItems", submit_items, object);
  set_method(env, result, "change", submit_change, object);
  set_method(env, result, "cancel", cancel, object);
  set_method(env, result, "flush", flush, object);
  set_method(env, result, "cancelAll", cancel_all, object);
  set_method(env, result, "close", close_queue, object);
  // The loop's handles hold the queue too, so the functions' finalizers alone would not end it.
  const auto finalize = [](napi_env, void* data, void*) {
    static_cast<Queue*>(data)->close();
    static_cast<Queue*>(data)->unref();
  };
  object->ref();
  if (napi_add_finalizer(env, result, object, finalize, nullptr, nullptr) != napi_ok) {
    object->close();
    object->unref();
  }
  return result;
}

}  // namespace saqiya::node
