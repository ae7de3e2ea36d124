// npm redlock 5, over as many servers as it is given.
'use strict';

const Redis = require('ioredis');
const { default: Redlock, ExecutionError, ResourceLockedError } = require('redlock-5');
const { serve, urls } = require('./serve');

// The library's own, in milliseconds.
const RETRY_DELAY = 200;

const redlock = new Redlock(urls.map((url) => new Redis(url)));
let fault = null;
redlock.on('error', (error) => {
  if (!(error instanceof ResourceLockedError)) fault = error;
});

// `undone` where the library could not do it because of the lock's state.
async function attempt(work, undone) {
  fault = null;
  try {
    return await work();
  } catch (error) {
    if (fault === null && error instanceof ExecutionError) return undone;
    throw fault ?? error;
  }
}

serve({
  take(name, ttl, patience) {
    const settings = { retryCount: Math.ceil(patience / RETRY_DELAY) };
    return attempt(() => redlock.acquire([name], ttl, settings), null);
  },

  // Asked once: by itself it tries for two seconds to release what it does not hold.
  release(lock) {
    return attempt(() => redlock.release(lock, { retryCount: 0 }).then(() => true), false);
  },

  extend(lock, ttl) {
    return attempt(() => redlock.extend(lock, ttl, { retryCount: 0 }).then(() => true), false);
  },
});
