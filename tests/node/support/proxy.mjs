// A way to Redis that can be cut: what a network does, with a server that keeps its state.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

export class Proxy {
  #server;
  #sockets = new Set();
  #silent = false;
  delay = 0; // ms, of what passes each way

  // To the server on this port of 127.0.0.1. Ends with the test.
  static async start(t, target) {
    const proxy = new Proxy();
    proxy.target = target;
    proxy.port = 0;
    await proxy.up();
    t.after(() => proxy.down());
    return proxy;
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  // Connections are made and nothing comes back any more.
  silence() {
    this.#silent = true;
  }

  // Every connection is reset and new ones are refused.
  async down() {
    const server = this.#server;
    this.#server = undefined;
    for (const socket of this.#sockets) socket.resetAndDestroy();
    if (server === undefined) return;
    server.close();
    await once(server, 'close');
  }

  async up() {
    this.#silent = false;
    this.#server = createServer((socket) => this.#join(socket));
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = this.#server.address().port;
  }

  #join(socket) {
    const upstream = connect(this.target, '127.0.0.1');
    for (const [from, to] of [
      [socket, upstream],
      [upstream, socket],
    ]) {
      this.#sockets.add(from);
      const hand = (data) => this.#silent || to.write(data);
      from.on('data', (data) => (this.delay ? setTimeout(hand, this.delay, data) : hand(data)));
      from.on('error', () => {});
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }
}
