// npm redlock 5.
'use strict';

const { default: Redlock, ExecutionError, ResourceLockedError } = require('redlock-5');
const { TTL, client, serve } = require('./serve');

const redlock = new Redlock([client]);
let fault = null;
redlock.on('error', (error) => {
  if (!(error instanceof ResourceLockedError)) fault = error;
});

serve({
  async take(key) {
    try {
      return await redlock.acquire([key], TTL);
    } catch (error) {
      if (fault === null && error instanceof ExecutionError) return null;
      throw fault ?? error;
    }
  },

  release: (lock) => redlock.release(lock),
});
