// npm redlock-universal: its simple lock.
'use strict';

const { IoredisAdapter, LockAcquisitionError, createLock } = require('redlock-universal');
const { TTL, client, serve } = require('./serve');

const adapter = new IoredisAdapter(client);

serve({
  async take(key) {
    const lock = createLock({ adapter, key, ttl: TTL });
    try {
      return { lock, handle: await lock.acquire() };
    } catch (error) {
      if (error instanceof LockAcquisitionError && error.message.includes('already held')) return null;
      throw error;
    }
  },

  release: ({ lock, handle }) => lock.release(handle),
});
