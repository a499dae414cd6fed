// Echo with `net` and HTTP with `http`: see src/programs/peers.rs.
'use strict';
const crypto = require('crypto');
const http = require('http');
const net = require('net');

const [what, host, portText, ...amount] = process.argv.slice(2);
const port = Number(portText);
const numbers = amount.map(Number);

function fail(why) {
  console.error(String(why));
  process.exit(1);
}

function echoServe() {
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => socket.destroy());
    socket.pipe(socket);
  });
  server.listen({ host, port, backlog: 128 }, () => console.log('listening'));
}

function echoOnce(size) {
  return new Promise((resolve, reject) => {
    const sent = crypto.randomBytes(size);
    const received = [];
    const socket = net.connect({ host, port, allowHalfOpen: true });
    socket.on('error', reject);
    socket.on('data', (data) => received.push(data));
    socket.on('end', () => {
      const same = Buffer.concat(received).equals(sent);
      return same ? resolve(size) : reject(new Error('other bytes came back'));
    });
    socket.end(sent);
  });
}

async function echoCall() {
  const [count, size] = numbers;
  const sizes = await Promise.all(Array.from({ length: count }, () => echoOnce(size)));
  console.log('ok', sizes.reduce((a, b) => a + b, 0));
}

function httpServe() {
  const server = http.createServer((request, response) => {
    request.pipe(response);
  });
  server.listen(port, host, () => console.log('listening'));
}

function httpOnce(agent, number) {
  return new Promise((resolve, reject) => {
    const body = crypto.randomBytes(1000 + number);
    const request = http.request({ host, port, agent, method: 'POST' }, (response) => {
      const received = [];
      response.on('data', (data) => received.push(data));
      response.on('end', () => {
        const same = Buffer.concat(received).equals(body);
        return same ? resolve(1) : reject(new Error('another body came back'));
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

async function httpCall() {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  const calls = Array.from({ length: numbers[0] }, (_, number) => httpOnce(agent, number));
  const done = await Promise.all(calls);
  agent.destroy();
  console.log('ok', done.length);
}

const tasks = {
  'echo-serve': echoServe, 'echo-call': echoCall, 'http-serve': httpServe, 'http-call': httpCall,
};
Promise.resolve(tasks[what]()).catch(fail);
