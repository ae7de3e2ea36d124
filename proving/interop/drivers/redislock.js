// npm redislock, over the client that it was written for.
'use strict';

const redis = require('node-redis');
const redislock = require('redislock');
const { serve, urls } = require('./serve');

// The library's own, in milliseconds.
const DELAY = 50;

const client = redis.createClient(urls[0]);

// After an extension that failed, a release says that nothing was acquired.
const GONE = /had expired$|has not been acquired$/;

async function unlessGone(work) {
  try {
    await work;
    return true;
  } catch (error) {
    if (GONE.test(error.message)) return false;
    throw error;
  }
}

serve({
  async take(name, ttl, patience) {
    const lock = redislock.createLock(client, { timeout: ttl, retries: Math.ceil(patience / DELAY), delay: DELAY });
    try {
      await lock.acquire(name);
      return lock;
    } catch (error) {
      if (error.message.startsWith('Could not acquire lock')) return null;
      throw error;
    }
  },

  release: (lock) => unlessGone(lock.release()),

  extend: (lock, ttl) => unlessGone(lock.extend(ttl)),
});
