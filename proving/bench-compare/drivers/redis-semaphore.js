// npm redis-semaphore: its Mutex.
'use strict';

const { Mutex } = require('redis-semaphore');
const { TTL, client, serve } = require('./serve');

serve({
  async take(key) {
    const mutex = new Mutex(client, key, { lockTimeout: TTL });
    return (await mutex.tryAcquire()) ? mutex : null;
  },

  release: (mutex) => mutex.release(),
});
