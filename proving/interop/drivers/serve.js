// Answers the test's requests for one lock library: a line in, a line out. What they mean stands in src/answer.rs.
//
// Instants are those of CLOCK_MONOTONIC, which all processes of a machine share.
'use strict';

const fs = require('node:fs');
const readline = require('node:readline');

const now = () => process.hrtime.bigint();
const rest = (ms) => new Promise((done) => setTimeout(done, ms));

// `library` has take(name, ttl, patience), which gives a holding or null; release(holding), which gives true, false where
// the lock was not held any more, or undefined where the library does not say; and extend(holding, ttl), which gives true
// or false, or is not there.
function serve(library) {
  let holding = null;

  async function take(name, ttl, patience) {
    const asked = now();
    holding = await library.take(name, Number(ttl), Number(patience));
    return holding === null ? 'held' : `took ${asked} ${now()}`;
  }

  async function release() {
    const called = now();
    const told = await library.release(holding);
    return `${told === undefined ? 'untold' : told ? 'released' : 'not-held'} ${called}`;
  }

  async function extend(ttl) {
    if (!library.extend) return 'unable';
    return (await library.extend(holding, Number(ttl))) ? 'extended' : 'not-held';
  }

  // Takes the lock, is alone in the file that whoever holds it makes, and releases.
  async function visit(name, ttl, patience, hold, witness) {
    holding = await library.take(name, Number(ttl), Number(patience));
    if (holding === null) return 'held';
    const answered = now();
    const me = `${process.pid} ${answered}`;
    try {
      fs.writeFileSync(witness, me, { flag: 'wx' });
    } catch (error) {
      return `met ${error.code}: ${fs.readFileSync(witness)}`;
    }
    await rest(Number(hold));
    const found = fs.readFileSync(witness, 'utf8');
    if (found !== me) return `met ${found}`;
    fs.unlinkSync(witness);
    const called = now();
    const told = await library.release(holding);
    return told === false ? `not-held ${called}` : `visited ${answered} ${called}`;
  }

  const verbs = { take, release, extend, visit };
  const lines = readline.createInterface({ input: process.stdin });
  lines.on('line', async (line) => {
    const [verb, ...words] = line.split(' ');
    let answer;
    try {
      answer = await verbs[verb](...words);
    } catch (error) {
      answer = `failed ${error.name}: ${error.message}`.replaceAll('\n', ' ');
    }
    process.stdout.write(`${answer}\n`);
  });
  // Also when the test was killed: its end of the pipe closes with it.
  lines.on('close', () => process.exit(0));
}

module.exports = { serve, urls: process.argv.slice(2) };
