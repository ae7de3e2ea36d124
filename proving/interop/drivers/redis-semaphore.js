// npm redis-semaphore: its Mutex.
'use strict';

const Redis = require('ioredis');
const { Mutex } = require('redis-semaphore');
const { serve, urls } = require('./serve');

const client = new Redis(urls[0]);

serve({
  async take(name, lockTimeout, patience) {
    // It prolongs by a timer of its own only, which is off here: what is taken ends with its ttl.
    const limits = patience > 0 ? { acquireTimeout: patience } : { acquireAttemptsLimit: 1 };
    const mutex = new Mutex(client, name, { lockTimeout, refreshInterval: 0, ...limits });
    if (name.startsWith('=')) mutex._key = name.slice(1);
    return (await mutex.tryAcquire()) ? mutex : null;
  },

  // It never says whether the lock was still held.
  release: (mutex) => mutex.release(),
});
