// SPDX-License-Identifier: Apache-2.0
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib'), child = require('child_process');
function work(seed) {
  const rows = [];
  for (let i = 0; i < 40000; i++) rows.push({ id: i, name: 'n' + (i * seed) % 1013, tags: [i % 7, String(i)] });
  const text = JSON.stringify(JSON.parse(JSON.stringify(rows)));
  return crypto.createHash('sha256').update(zlib.gunzipSync(zlib.gzipSync(text))).digest('hex');
}
if (!isMainThread) { parentPort.postMessage(work(workerData)); }
else {
  const all = [2, 3, 5].map(n => new Promise((done, fail) => {
    const w = new Worker(__filename, { workerData: n });
    w.on('message', done); w.on('error', fail);
  }));
  Promise.all(all).then(list => {
    console.log(list.join('\n'), work(7));
    console.log(child.execSync('echo from a shell').toString().trim());
    crypto.pbkdf2('secret', 'salt', 50000, 32, 'sha256', (e, key) => console.log(key.toString('hex')));
  });
}
