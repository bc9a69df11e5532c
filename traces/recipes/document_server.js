// SPDX-License-Identifier: Apache-2.0
// The document server again, for Node: packed documents are Buffers, zlib and key derivation run in libuv's threads.
'use strict';
const http = require('http'), zlib = require('zlib'), crypto = require('crypto');
const kept = new Map();
const MAY_BE_KEPT = 150;

function keep(name, packed) {
  kept.delete(name);
  kept.set(name, packed);
  while (kept.size > MAY_BE_KEPT) kept.delete(kept.keys().next().value);
}

function render(document) {
  const rows = document.rows.map(row => `<row id="${row.id}" rate="${row.rate.toFixed(6)}">${row.text.toUpperCase()}</row>`);
  return Buffer.from(`<document owner="${document.owner}">${rows.join('\n')}</document>`);
}

function answer(response, body) {
  response.writeHead(200, { 'Content-Length': body.length, ETag: crypto.createHash('sha1').update(body).digest('hex') });
  response.end(body);
}

const server = http.createServer((request, response) => {
  const [path, query = ''] = request.url.split('?');
  if (request.method === 'POST') {
    const parts = [];
    request.on('data', part => parts.push(part));
    request.on('end', () => {
      if (path === '/quit') { answer(response, Buffer.from('')); server.close(); server.closeAllConnections(); return; }
      zlib.gzip(Buffer.concat(parts), (failed, packed) => { keep(path, packed); answer(response, Buffer.from('{}')); });
    });
    return;
  }
  const packed = kept.get(path);
  if (!packed) { answer(response, Buffer.from('{}')); return; }
  zlib.gunzip(packed, (failed, text) => {
    if (query === 'xml') answer(response, render(JSON.parse(text)));
    else if (query.startsWith('find=')) {
      crypto.pbkdf2(query, path, 12, 64, 'sha512', (failed, key) => {
        const found = JSON.parse(text).rows.filter(row => row.text.includes(query.slice(5)));
        answer(response, Buffer.from(JSON.stringify({ key: key.toString('base64'), found })));
      });
    } else answer(response, text);
  });
});
server.listen(Number(process.argv[2]), '127.0.0.1');
