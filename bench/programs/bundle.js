// SPDX-License-Identifier: Apache-2.0
// What a build tool does: texts read, parsed, changed and joined, squeezed and hashed. JavaScript objects live in V8's own heap;
// buffers, zlib's state and the threads come from malloc. The cache has places that are used again, so that what lives does not
// hang on when V8 collects.
'use strict';
const crypto = require('crypto');
const zlib = require('zlib');

const PLACES = 48;
const cache = Array.from({ length: PLACES }, (_, i) => Buffer.alloc(20000 + i * 9000));
const hash = crypto.createHash('sha256');
let seed = 9;
function draw(below) {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  return Math.floor(seed / 65536) % below;
}

function makeModule(number) {
  const lines = [];
  for (let i = 0; i < 60; i++) lines.push({ line: i, text: `value${draw(500)} = call${draw(90)}(${draw(1000)});`, names: [draw(50), String(draw(50))] });
  return { number, lines, imports: Array.from({ length: draw(6) }, () => draw(400)) };
}

const kept = new Map();
for (let round = 0; round < Number(process.argv[2] || 60); round++) {
  const modules = Array.from({ length: 60 }, (_, i) => makeModule(round * 60 + i));
  const text = JSON.stringify(modules);
  for (const module of JSON.parse(text)) kept.set(module.number % 1500, module);
  const place = cache[draw(PLACES)];
  const length = place.write(text);
  const squeezed = zlib.deflateSync(place.subarray(0, length), { level: 1 });
  hash.update(squeezed).update(String(kept.get(draw(60)).lines.length));
}
console.log(hash.digest('hex'), kept.size);
