// A process that holds a lease until it is killed, or until it is told to let go:
// holder.mjs URL NAME POLICY KEY
import { Limiter } from './saqiya.mjs';

const [url, name, policy, key] = process.argv.slice(2);
const limiter = new Limiter(policy, { store: url, name, deadline: 30_000 });

await limiter.hold(key, { timeout: Infinity }, async () => {
  process.stdout.write('held\n');
  await new Promise((resolve) => process.stdin.once('data', resolve));
});
process.stdout.write('released\n');
await limiter.close();
process.exit();
