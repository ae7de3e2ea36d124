// npm redis-semaphore: its Semaphore with one permit, which is a sorted set and no string.
'use strict';

const Redis = require('ioredis');
const { Semaphore } = require('redis-semaphore');
const { serve, urls } = require('./serve');

const client = new Redis(urls[0]);

serve({
  async take(name, lockTimeout) {
    const semaphore = new Semaphore(client, name, 1, { lockTimeout, refreshInterval: 0, acquireAttemptsLimit: 1 });
    return (await semaphore.tryAcquire()) ? semaphore : null;
  },

  release: (semaphore) => semaphore.release(),
});
