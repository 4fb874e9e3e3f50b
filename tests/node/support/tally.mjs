// Counts decisions by who made them and how, as a store's statistics do.
import assert from 'node:assert/strict';

const NAMES = {
  'store allowed': 'allowed',
  'store denied': 'denied',
  'store never': 'denied',
  'cache denied': 'cached',
  'local allowed': 'localAllowed',
  'local denied': 'localDenied',
  'open allowed': 'opened',
  'closed denied': 'closed',
};

export class Tally {
  total = 0;
  unavailable = 0;
  counts = Object.fromEntries(Object.values(NAMES).map((name) => [name, 0]));

  add(decision) {
    const { source, outcome } = decision;
    this.total++;
    if (outcome === 'unavailable') {
      this.unavailable++;
      return decision;
    }
    const name = NAMES[`${source} ${outcome}`];
    assert.notEqual(name, undefined, `${source} ${outcome}`);
    this.counts[name]++;
    return decision;
  }

  // C165: every counter of the store is exactly what its callers saw.
  check(store) {
    const stats = store.stats();
    const found = Object.fromEntries(Object.keys(this.counts).map((name) => [name, stats[name]]));
    assert.deepEqual(found, this.counts);
    return stats;
  }
}
