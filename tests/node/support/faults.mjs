// Servers that fail in every way that a client can meet.
import { once } from 'node:events';
import { createServer } from 'node:net';

const replies = {
  error: '-ERR something is wrong\r\n',
  login: '-NOAUTH Authentication required.\r\n',
  loading: '-LOADING Redis is loading the dataset in memory\r\n',
  memory: "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
  permission: "-NOPERM this user has no permissions to run the 'evalsha' command\r\n",
  readonly: "-READONLY You can't write against a read only replica.\r\n",
  busy: '-BUSY Redis is busy running a script.\r\n',
  moved: '-MOVED 1234 127.0.0.1:1\r\n',
  garbage: 'HTTP/1.1 400 Bad Request\r\n\r\n',
  integer: ':1\r\n',
  half: '*3\r\n:1\r\n',
};

const ANSWERS = {
  ...Object.fromEntries(
    Object.entries(replies).map(([name, text]) => [name, (socket) => socket.write(text)]),
  ),
  silence: () => {},
  reset: (socket) => socket.resetAndDestroy(),
  end: (socket) => socket.end(),
  'reset in a reply': (socket) => socket.write('*', () => socket.resetAndDestroy()),
};

export const FAULTS = Object.keys(ANSWERS);

// Answers every piece of what a client sends with the fault; goes with the test. Gives its URL.
export async function faultyServer(t, fault) {
  const sockets = new Set();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', () => ANSWERS[fault](socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `redis://127.0.0.1:${server.address().port}`;
}
