// Servers for tests, and requests to them.
import { once } from 'node:events';
import http from 'node:http';

// Listens on a free port until the test ends; gives get(path, options) => { status, headers, text }.
export async function listen(t, handler) {
  const server = http.createServer(handler);
  t.after(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return client(`http://127.0.0.1:${server.address().port}`);
}

export function client(origin) {
  return async (path = '/', { headers, ...options } = {}) => {
    const sent = { connection: 'close', ...headers };
    const response = await fetch(origin + path, { ...options, headers: sent });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text };
  };
}

export async function statuses(get, count, path) {
  const found = [];
  for (let i = 0; i < count; i++) found.push((await get(path)).status);
  return found;
}
