// npm redlock 4, over as many servers as it is given.
'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock-4');
const { serve, urls } = require('./serve');

// The library's own, in milliseconds.
const RETRY_DELAY = 200;

const clients = urls.map((url) => new Redis(url));

serve({
  async take(name, ttl, patience) {
    const redlock = new Redlock(clients, { retryCount: Math.ceil(patience / RETRY_DELAY), retryDelay: RETRY_DELAY });
    let fault = null;
    redlock.on('clientError', (error) => (fault = error));
    try {
      return await redlock.lock(name, ttl);
    } catch (error) {
      if (fault === null && error instanceof Redlock.LockError) return null;
      throw fault ?? error;
    }
  },

  async release(lock) {
    try {
      await lock.unlock();
      return true;
    } catch (error) {
      if (error instanceof Redlock.LockError) return false;
      throw error;
    }
  },

  async extend(lock, ttl) {
    try {
      await lock.extend(ttl);
      return true;
    } catch (error) {
      if (error instanceof Redlock.LockError) return false;
      throw error;
    }
  },
});
