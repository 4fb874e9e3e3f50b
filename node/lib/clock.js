'use strict';

const native = require('./native.js');
const { nearestMicros, wholeNumber } = require('./units.js');

const handles = new WeakMap();

class ManualClock {
  #native;

  constructor(now = 0) {
    this.#native = native.createClock(nearestMicros(now, 'now'));
    handles.set(this, this.#native.handle);
  }

  now() {
    return this.#native.now() / 1000;
  }

  wall() {
    return this.#native.wall() / 1000;
  }

  set(ms) {
    this.#native.set(nearestMicros(ms, 'ms'));
  }

  setWall(ms) {
    this.#native.setWall(nearestMicros(ms, 'ms'));
  }

  advance(ms) {
    this.#native.advance(nearestMicros(ms, 'ms'));
  }

  nowMicroseconds() {
    return this.#native.now();
  }

  setMicroseconds(us) {
    this.#native.set(wholeNumber(us, 'us'));
  }

  advanceMicroseconds(us) {
    this.#native.advance(wholeNumber(us, 'us'));
  }
}

function clockHandle(clock) {
  if (clock === undefined) return undefined;
  const handle = handles.get(clock);
  if (handle === undefined) throw new TypeError('clock must be a ManualClock');
  return handle;
}

module.exports = { ManualClock, clockHandle };
