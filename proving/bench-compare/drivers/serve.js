// Plays one lock library in a comparison: a line of JSON in, a line out, as ../../competitor/src/order.rs has them.
//
// Instants are those of CLOCK_MONOTONIC, which all processes of a machine share.
'use strict';

const readline = require('node:readline');
const Redis = require('ioredis');

const TTL = 10_000;

const COMPARE_AND_DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

const client = new Redis(process.argv[2]);
const now = () => process.hrtime.bigint();
const rest = (ms) => new Promise((done) => setTimeout(done, ms));
const after = (millis) => now() + BigInt(millis) * 1_000_000n;

async function cycles(tasks, millis, cycle) {
  const begun = now();
  const end = after(millis);
  let count = 0;
  const task = async (n) => {
    for (const key = `own:${process.pid}:${n}`; now() < end; count += 1) await cycle(key);
  };
  await Promise.all(Array.from({ length: tasks }, (_, n) => task(n)));
  return { is: 'cycles', count, nanos: Number(now() - begun) };
}

let serial = 0;

async function bare(key) {
  const value = (serial += 1).toString(16).padStart(32, '0');
  const granted = await client.set(key, value, 'PX', TTL, 'NX');
  const released = await client.compareAndDelete(key, value);
  if (granted !== 'OK' || released !== 1) throw new Error(`the bare loop was not alone on ${key}`);
}

// `library` has take(key), which waits as the library does by itself and gives a holding, or null where the library gave up; and
// release(holding).
function serve(library) {
  async function alone(key) {
    const holding = await library.take(key);
    if (holding === null) throw new Error(`gave up waiting for ${key}, which nobody else has`);
    await library.release(holding);
  }

  async function turns(key, hold, think, millis) {
    const all = [];
    for (const end = after(millis); now() < end; await rest(think)) {
      const asked = now();
      let holding = null;
      while (holding === null) holding = await library.take(key);
      const had = now();
      await rest(hold);
      const released = now();
      await library.release(holding);
      all.push([asked, had, released].map(Number));
    }
    return { is: 'turns', turns: all };
  }

  const verbs = {
    cycle: ({ tasks, millis }) => cycles(tasks, millis, alone),
    bare: ({ tasks, millis }) => cycles(tasks, millis, bare),
    turns: ({ key, hold, think, millis }) => turns(key, hold, think, millis),
  };
  const say = (report) => process.stdout.write(`${JSON.stringify(report)}\n`);
  const failed = (error) => say({ is: 'failed', why: `${error.name}: ${error.message}` });
  client.defineCommand('compareAndDelete', { numberOfKeys: 1, lua: COMPARE_AND_DELETE });
  client.ping().then(() => say({ is: 'ready' }), failed);
  const lines = readline.createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    const order = JSON.parse(line);
    verbs[order.do](order).then(say, failed);
  });
  // Also when whoever started this was killed: its end of the pipe closes with it.
  lines.on('close', () => process.exit(0));
}

module.exports = { TTL, client, serve };
