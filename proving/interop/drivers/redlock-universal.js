// npm redlock-universal: its simple lock.
'use strict';

const Redis = require('ioredis');
const { IoredisAdapter, LockAcquisitionError, createLock } = require('redlock-universal');
const { serve, urls } = require('./serve');

// The library's own, in milliseconds.
const RETRY_DELAY = 100;

const adapter = new IoredisAdapter(new Redis(urls[0]));

serve({
  async take(key, ttl, patience) {
    const lock = createLock({ adapter, key, ttl, retryAttempts: Math.ceil(patience / RETRY_DELAY), retryDelay: RETRY_DELAY });
    try {
      return { lock, handle: await lock.acquire() };
    } catch (error) {
      if (error instanceof LockAcquisitionError && error.message.includes('already held')) return null;
      throw error;
    }
  },

  release: ({ lock, handle }) => lock.release(handle),

  extend: ({ lock, handle }, ttl) => lock.extend(handle, ttl),
});
