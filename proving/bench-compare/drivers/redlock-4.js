// npm redlock 4.
'use strict';

const Redlock = require('redlock-4');
const { TTL, client, serve } = require('./serve');

const redlock = new Redlock([client]);
let fault = null;
redlock.on('clientError', (error) => (fault = error));

serve({
  async take(key) {
    try {
      return await redlock.lock(key, TTL);
    } catch (error) {
      if (fault === null && error instanceof Redlock.LockError) return null;
      throw fault ?? error;
    }
  },

  release: (lock) => lock.unlock(),
});
